# SPDX-License-Identifier: Apache-2.0
"""Parts that the compiler adds to a topology meet the user's own: names of nodes, topics, the limit of names."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from streamapp.plan import Plan
from streamapp.spark.queries import _mentions_headers

DEAD = "onBadRecord: {deadLetter: dead}"
ORDERS = '- {name: orders, stream: {topic: %s, value: {format: json, schema: "x INT"}}}'
OUT = "- {name: out, to: {topic: out}}"


def test_a_node_that_has_the_name_of_one_of_ours_is_refused(problems: Callable[..., list[str]]) -> None:
    taken = f"{ORDERS % 'in'}\n- {{name: orders-dead-letter, filter: x > 0}}\n{OUT}"
    assert problems(taken, DEAD) == [
        "node 'orders-dead-letter': `name`: 'orders-dead-letter' is also the name of a node of ours, for bad records "
        "of 'orders'; rename it"
    ]
    assert problems(taken) == []
    hop = f"""{ORDERS % "in"}
- {{name: counts-repartition-source, with: {{z: rand()}}}}
- {{name: counts, groupBy: [x], aggregate: {{total: sum(z)}}}}
{OUT}"""
    assert problems(hop) == [
        "node 'counts-repartition-source': `name`: 'counts-repartition-source' is also the name of a node of ours, for "
        "an internal topic before 'counts'; rename it"
    ]


@pytest.mark.parametrize("source", ["topic: dead", "pattern: 'de.*'"])
def test_bad_records_do_not_come_again(problems: Callable[..., list[str]], source: str) -> None:
    topology = ORDERS.replace("topic: %s", source) + f"\n{OUT}"
    assert problems(topology, DEAD) == [
        "`onBadRecord.deadLetter`: topic 'dead' is also read, by node 'orders': bad records would come again for ever; "
        "send bad records to another topic"
    ]
    looked_at = f"{ORDERS % 'in'}\n{OUT}\n- {{name: bad, stream: {{topic: dead, value: bytes}}}}\n"
    looked_at += "- {name: lengths, select: {size: length(value)}}\n- {name: sizes, to: {topic: sizes}}"
    assert problems(looked_at, DEAD) == [], "bytes are never bad"
    read_again = looked_at.replace("value: bytes", 'value: {format: json, schema: "value STRING"}')
    (said,) = problems(read_again, DEAD)
    assert said.startswith("`onBadRecord.deadLetter`: topic 'dead' is also read, by node 'bad': bad records would come")


def test_an_internal_topic_before_a_merge_has_a_name_that_kafka_takes(problems: Callable[..., list[str]]) -> None:
    long = "n" * 120
    topology = f"""{ORDERS % "in"}
- {{name: more, stream: {{topic: more, value: {{format: json, schema: "x INT"}}}}}}
- {{name: {long}, from: orders, join: {{with: more, within: 1 hour, select: {{x: orders.x}}}}}}
- {{name: {"m" * 120}, merge: [{long}, orders]}}
{OUT}"""
    (said,) = problems(topology)
    assert said.startswith(f"node '{'m' * 120}': `name`: its internal topic 'app-{'m' * 120}-")
    assert "and a topic's name at most 249; shorten applicationId, " in said


@pytest.mark.parametrize(
    ("topology", "wanted"),
    [
        (ORDERS % "http-headers", False),
        (f"{ORDERS % 'in'}\n- {{name: traced, with: {{trace: 'headers[0].value'}}}}", True),
        (f"{ORDERS % 'in'}\n- {{name: per, groupBy: [x], aggregate: {{most: max(size(headers))}}}}", True),
        (f"{ORDERS % 'headers'}\n- {{name: the-headers, filter: x > 0}}", False),
        (f"{ORDERS % 'in'}\n- {{name: renamed, with: {{http_headers: \"concat('headers', x)\"}}}}", False),
        (ORDERS.replace("x INT", "http_headers INT") % "in" + "\n- {name: part, filter: http_headers > 1}", False),
        (f"{ORDERS % 'in'}\n- {{name: keyed, keyBy: [headers]}}", True),
    ],
)
def test_only_expressions_make_headers_columns(plan: Callable[..., Plan], topology: str, wanted: bool) -> None:
    """Headers as columns cost time for every record."""
    (part,) = plan(f"{topology}\n{OUT}").subtopologies
    assert _mentions_headers(part) is wanted


def test_a_fix_is_not_looked_for_in_the_users_own_text(problems: Callable[..., list[str]]) -> None:
    topology = f"{ORDERS % 'in'}\n- {{name: called, python: {{function: 'a; b', schema: 'x INT'}}}}\n{OUT}"
    (said,) = problems(topology, "code: {files: {a.py: 'def b(row): return row'}}")
    assert said == (
        "node 'called': `python.function`: 'a; b' names no function; write MODULE:FUNCTION, e.g. scoring:score"
    )
