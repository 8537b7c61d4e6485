# SPDX-License-Identifier: Apache-2.0
"""Which fields go together is declared once: the parser, the schema of editors and the cluster apply the same rules."""

from __future__ import annotations

from typing import Any

import pytest

from streamapp.companions import Choice, Rule, faults
from streamapp.errors import ManifestError
from streamapp.manifest import parse_object
from streamapp.manifest.node import INNER_RULES, RULES
from streamapp.schema import json_schema
from streamapp_operator.crd import resource_schema

GROUP, *NODE = RULES
STREAM, WINDOW, JOIN, TABLE = (INNER_RULES[field] for field in ("stream", "window", "join", "table"))
COUNT = {"groupBy": ["value"], "aggregate": {"n": "count(*)"}}
FOLDED = {"groupBy": ["key"], "reduce": {"value": "value"}}
PARTS = {"cogroup": [{"from": name, "aggregate": {name: "count(*)"}} for name in ("in", "other")]}
COGROUPED = {"groupBy": ["value"], **PARTS}
WINDOWED = {"tumbling": "5s"}
TOP = {"rows": 3, "by": "value"}
PAIRS = {"with": "other", "match": {"key": "key"}, "select": {"v": "left.value"}}
# For each rule: a node that breaks it, and the message.
BROKEN: dict[Rule | Choice, tuple[dict[str, Any], str]] = {}
for rule, node, said in (
    (GROUP, {"groupBy": ["value"]}, "`aggregate` is missing; say what"),
    (NODE[0], {"filter": "true", "aggregate": {"n": "count(*)"}}, "`aggregate` is only for `groupBy`; remove"),
    (NODE[1], {"filter": "true", "reduce": {"value": "value"}}, "`reduce` is only for `groupBy`; remove"),
    (NODE[2], {"filter": "true", "top": TOP}, "`top` is only for `groupBy`; remove `top`"),
    (NODE[3], {"filter": "true", "window": WINDOWED}, "`window` is only for `groupBy`; remove `window`"),
    (NODE[4], {"filter": "true", "grace": "5s"}, "`grace` is only for `groupBy`; remove `grace`"),
    (NODE[5], {"filter": "true", "retention": "5s"}, "`retention` is only for `groupBy`; remove `retention`"),
    (NODE[6], {"filter": "true", "late": {"topic": "u"}}, "`late` is only for `groupBy`; remove `late`"),
    (NODE[7], {"filter": "true", "emit": "updates"}, "`emit` is only for `groupBy`; remove `emit`"),
    (NODE[8], {"filter": "true", "ttl": "5s"}, "`ttl` is only for `groupBy`; remove `ttl`"),
    (NODE[20], {**COUNT, "window": WINDOWED, "ttl": "5s"}, "`ttl` is there with a `window`; remove it: a window ends"),
    (
        NODE[10],
        {"filter": "true", "store": "s"},
        "`store` is only for `groupBy`, `deduplicate`, `join`, `table`, `globalTable`, `toTable` or `suppress`; remove",
    ),
    (NODE[11], {**COUNT, "grace": "5s"}, "`grace` is there without a `window`; add e.g."),
    (NODE[12], {**COUNT, "retention": "5s"}, "`retention` is there without a `window`; add e.g."),
    (NODE[13], {**COUNT, "late": {"topic": "u"}}, "`late` is there without a `window`; add e.g."),
    (NODE[14], {**COUNT, "emit": "final"}, "`emit`: `emit: final` needs a `window`: without"),
    (NODE[15], {"stream": {"topic": "u"}, "from": "in"}, "`from` is not for a stream, which reads topics; remove"),
    (NODE[16], {"table": {"topic": "u"}, "from": "in"}, "`from` is not for a table, which reads a topic; remove"),
    (NODE[17], {"globalTable": {"topic": "u"}, "from": "in"}, "`from` is not for a global table, which reads a topic;"),
    (NODE[18], {"merge": ["in", "other"], "from": "in"}, "`from` is not for merge, which names what it reads; remove"),
    (NODE[19], {**COUNT, "reduce": {"value": "value"}}, "`aggregate` and `reduce` are both there; keep one of"),
    (NODE[9], {"filter": "true", **PARTS}, "`cogroup` is only for `groupBy`; remove `cogroup`"),
    (
        NODE[21],
        {**COUNT, "groupBy": ["key"], "top": TOP},
        "`top` says itself what a group comes to; make a node of each",
    ),
    (
        NODE[22],
        {**COGROUPED, "reduce": {"value": "value"}},
        "`cogroup` says itself what each stream comes to; write it into the items",
    ),
    (NODE[23], {**COGROUPED, "from": "in"}, "`from` is not for cogroup, whose items name what they read; remove"),
    (WINDOW[0], {**COUNT, "window": {}}, "`window`: says no kind of window; write e.g."),
    (WINDOW[1], {**COUNT, "window": {"hopping": "5s"}}, "`window.every`: `every` is missing; say how often"),
    (WINDOW[2], {**COUNT, "window": {**WINDOWED, "every": "1s"}}, "`window.every`: `every` is for hopping windows;"),
    (
        JOIN[0],
        {"from": "in", "join": {**PAIRS, "within": "5s", "after": "1s"}},
        "`join.within`: `within` stands for `before` and `after`; remove it",
    ),
    (
        JOIN[1],
        {"from": "in", "join": {"with": "other", "within": "5s", "asOf": True, "select": {"v": "left.value"}}},
        "`join.asOf`: `asOf` is for a table: two streams meet within a time; remove it, or join a table",
    ),
    (
        JOIN[2],
        {"from": "in", "join": {**PAIRS, "with": "rows", "late": {"topic": "u"}}},
        "`join.late`: `late` is for two streams, which meet within a time; remove it, or add e.g. within: 5 minutes",
    ),
    (
        JOIN[3],
        {"from": "in", "join": {**PAIRS, "by": ["key"], "within": "5s"}},
        "`join.match`: there are `by` and `match`; remove `by`",
    ),
    (
        TABLE[0],
        {"table": {"topic": "u", "ttl": "5s", "history": "5s"}},
        "`table.history`: a row that expires would have no end in its history; remove `ttl`",
    ),
    (STREAM[0], {"stream": {}}, "`stream`: `topic` is missing; name the topic"),
):
    BROKEN[rule] = (node, said)
SEVERAL = (
    ({**COUNT, "window": {**WINDOWED, "hopping": "9s"}}, "`window`: has `tumbling` and `hopping`; keep one of them"),
    ({"stream": {"topic": "t", "pattern": "u"}}, "`stream`: there are `topic` and `pattern`; keep one of them"),
)
BESIDE = [
    {"name": "rows", "table": {"topic": "r"}},
    {"name": "in", "stream": {"topic": "t"}},
    {"name": "other", "stream": {"topic": "o"}},
]


def test_every_rule_has_a_case() -> None:
    assert set(BROKEN) == {*RULES, *(rule for rules in INNER_RULES.values() for rule in rules)}


@pytest.mark.parametrize(("node", "said"), [*BROKEN.values(), *SEVERAL])
def test_parser_and_schema_refuse_it(node: dict[str, Any], said: str) -> None:
    data = {
        "apiVersion": "streamapp.dev/v1alpha1",
        "kind": "StreamApp",
        "metadata": {"name": "a"},
        "spec": {"topology": [*BESIDE, {"name": "x", **node}]},
    }
    with pytest.raises(ManifestError) as raised:
        parse_object(data)
    mine = [str(problem) for problem in raised.value.problems if problem.node == "x"]
    assert len(mine) == 1, mine
    assert said in mine[0]
    assert not passes(node)


@pytest.mark.parametrize(
    "node",
    [
        {**COUNT, "window": WINDOWED, "grace": "1s", "emit": "final", "store": "s"},
        {**COUNT, "window": {"hopping": "5s", "every": "1s"}, "emit": "updates"},
        {**COUNT, "window": {"session": "5s"}, "grace": "1s", "emit": "final"},
        {**COUNT, "window": {"sliding": "5s"}, "retention": "1 day"},
        {"join": {"with": "other", "within": "5s"}, "from": "in", "store": "s"},
        {"join": {**PAIRS, "before": "5s", "after": "1s", "late": {"topic": "u"}}, "from": "in"},
        {**FOLDED, "store": "s"},
        {**COGROUPED, "store": "s", "window": WINDOWED, "grace": "1s"},
        {"deduplicate": {"by": ["value"], "within": "5s"}, "store": "s"},
        {"groupBy": ["key"], "top": TOP, "window": WINDOWED, "store": "s"},
        {"stream": {"topics": ["u"]}},
        {"table": {"topic": "u", "history": "5s"}},
        {"join": {"with": "other", "asOf": True, "grace": "5s"}, "from": "in", "store": "s"},
        {"merge": ["in", "other"]},
    ],
)
def test_what_goes_together_passes(node: dict[str, Any]) -> None:
    assert passes(node)
    assert list(faults(RULES, node)) == []


def test_the_cluster_has_the_same_words() -> None:
    """Each rule but those about `groupBy` itself is in the cluster's schema, which cannot see those."""
    item = resource_schema()["properties"]["spec"]["properties"]["topology"]["items"]
    told = [rule["messageExpression"].replace("\\'", "'") for rule in item["x-kubernetes-validations"]]
    for rule, (_, said) in BROKEN.items():
        if rule not in (GROUP, NODE[0], NODE[1], NODE[2], NODE[9]):
            assert sum(said in words for words in told) == 1, said


def passes(node: dict[str, Any]) -> bool:
    """Whether an editor accepts its fields."""
    models = json_schema()["$defs"]
    inner = {"WindowSpec": "window", "StreamSpec": "stream", "JoinSpec": "join", "TableSpec": "table"}
    parts = {"NodeSpec": {"name": "x", **node}} | {model: node.get(field) for model, field in inner.items()}
    return all(goes_together(models[name], given) for name, given in parts.items() if given is not None)


def goes_together(schema: dict[str, Any], given: dict[str, Any]) -> bool:
    """Checks the JSON Schema as far as it is about which fields are there. Knows the words of JSON Schema that we use,
    and no others."""

    def alternatives(word: str) -> int:
        return sum(goes_together(part, given) for part in schema[word])

    return (
        all(name in given for name in schema.get("required", ()))
        and all(
            given.get(name) == part["const"] for name, part in schema.get("properties", {}).items() if "const" in part
        )
        and ("oneOf" not in schema or alternatives("oneOf") == 1)
        and ("anyOf" not in schema or alternatives("anyOf") > 0)
        and ("not" not in schema or not goes_together(schema["not"], given))
        and all(
            name in given
            for field, names in schema.get("dependentRequired", {}).items()
            if field in given
            for name in names
        )
        and all(
            goes_together(part, given) for field, part in schema.get("dependentSchemas", {}).items() if field in given
        )
        and all(
            goes_together(part["then"], given) for part in schema.get("allOf", ()) if goes_together(part["if"], given)
        )
    )
