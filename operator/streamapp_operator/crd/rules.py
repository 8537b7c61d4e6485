# SPDX-License-Identifier: Apache-2.0
"""What the API server refuses by itself, in CEL, with the words that `streamapp validate` uses.

Fields that may be a text or an object (a format, an item of `groupBy`) are invisible to CEL. So `aggregate` stands for
the operation `groupBy` here, and everything that needs more than one look at a field is left to the operator. The API
server also limits what a rule and its message may cost at most, so that numbers and names out of lists cannot be told.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from streamapp.durations import EXAMPLES, UNITS
from streamapp.manifest.node import OPERATIONS
from streamapp_operator.login import LAPTOP_FILES, NO_SECRET

Schema = dict[str, Any]
ITEMS = "[]"

_LEGAL_NAME = "^[a-zA-Z0-9._-]+$"
_LEGAL_WORDS = "letters, digits, `.`, `_` and `-`"


@dataclass(frozen=True)
class Rule:
    """One rule at one place of the schema. `message` is CEL when `computed`, else plain text."""

    at: tuple[str, ...]
    rule: str
    message: str
    computed: bool = False

    def to_object(self) -> Schema:
        return {"rule": self.rule, "messageExpression" if self.computed else "message": self.message}


def add_rules(schema: Schema) -> None:
    """Puts every rule at its place in a structural schema of the whole resource."""
    for rule in (*_rules(), *_duration_rules(schema)):
        place = schema
        for step in rule.at:
            place = place["items"] if step == ITEMS else place["properties"][step]
        place.setdefault("x-kubernetes-validations", []).append(rule.to_object())


def _rules() -> Iterator[Rule]:
    yield from _of_the_app()
    yield from _of_autoscaling(("spec", "autoscaling"))
    topology = ("spec", "topology")
    yield Rule(
        topology,
        "self.all(n, self.exists_one(m, m.name == n.name))",
        "two nodes are named the same; rename one of them",
    )
    yield from _of_a_node((*topology, ITEMS))


def _of_the_app() -> Iterator[Rule]:
    def of(version: str) -> str:
        return f"(has({version}.spec.applicationId) ? {version}.spec.applicationId : {version}.metadata.name)"

    yield Rule(
        (),
        f"{of('self')} == {of('oldSelf')}",
        "'applicationId cannot change: topics, positions and state bear its name; set it back to \\''"
        f" + {of('oldSelf')} + '\\', or make another StreamApp'",
        computed=True,
    )
    yield Rule(
        ("spec", "maxParallelism"),
        "self == oldSelf",
        "maxParallelism cannot change: it is fixed for the store's life; set it back, or make another StreamApp",
    )
    yield Rule(
        ("spec",),
        "has(self.kafka)",
        "`kafka` is missing; say where Kafka is, e.g. kafka: {bootstrapServers: kafka:9092}",
    )
    yield from _of_kafka(("spec", "kafka"))
    yield Rule(
        ("spec",),
        "!(has(self.replicas) && has(self.autoscaling))",
        "`replicas` and `autoscaling` are both there; remove one: autoscaling sets the replicas",
    )
    yield Rule(
        ("spec",),
        "!has(self.schedule) || self.run == 'untilCaughtUp'",
        "`schedule` is for apps that stop; add run: untilCaughtUp",
    )


def _of_kafka(kafka: tuple[str, ...]) -> Iterator[Rule]:
    tls, sasl = (*kafka, "tls"), (*kafka, "sasl")
    files = " || ".join(f"has(self.{name})" for name in ("caFile", "certificateFile", "keyFile"))
    yield Rule(tls, f"has(self.secretRef) || !({files})", LAPTOP_FILES)
    yield Rule(sasl, "has(self.secretRef)", NO_SECRET)
    yield Rule(
        sasl,
        "self.mechanism != 'OAUTHBEARER' || has(self.tokenEndpoint)",
        "`tokenEndpoint` is missing; add tokenEndpoint: https://HOST/PATH, where tokens are asked for",
    )
    yield Rule(
        sasl,
        "self.mechanism == 'OAUTHBEARER' || !(has(self.tokenEndpoint) || has(self.scope))",
        "`tokenEndpoint` and `scope` are for OAUTHBEARER; remove them, or set mechanism: OAUTHBEARER",
    )


def _of_autoscaling(at: tuple[str, ...]) -> Iterator[Rule]:
    message = "minReplicas is more than maxReplicas; make minReplicas the smaller one"
    low = "(has(s.minReplicas) ? s.minReplicas : self.minReplicas)"
    high = "(has(s.maxReplicas) ? s.maxReplicas : self.maxReplicas)"
    yield Rule(at, "self.minReplicas <= self.maxReplicas", message)
    yield Rule(at, f"!has(self.schedule) || self.schedule.all(s, {low} <= {high})", message)


def _of_a_node(node: tuple[str, ...]) -> Iterator[Rule]:
    named = "'node \\'' + self.name + '\\': "

    def rule(rule: str, message: str) -> Rule:
        return Rule(node, rule, named + message, computed=True)

    operations = {name: "has(self.aggregate)" if name == "groupBy" else f"has(self.{name})" for name in OPERATIONS}
    yield rule(
        f"self.name.matches('{_LEGAL_NAME}')",
        f"\\'' + self.name + '\\' cannot be part of a topic\\'s name; use {_LEGAL_WORDS}'",
    )
    yield rule(" || ".join(operations.values()), f"has no operation; add one of: {', '.join(OPERATIONS)}'")
    yield rule(
        f"{_count(operations)} < 2",
        f"has ' + {_listed(operations)} + ', and a node has one operation; make a node of each'",
    )
    yield rule("!has(self.window) || has(self.aggregate)", "`window` is only for `groupBy`; remove `window`'")
    yield rule(
        "!has(self.store) || has(self.aggregate) || has(self.join)",
        "`store` is only for `groupBy` or `join`; remove `store`'",
    )
    yield rule(
        "!has(self.grace) || has(self.window)",
        "`grace` is there without a `window`; add e.g. window: {tumbling: 5 minutes}'",
    )
    yield rule(
        "!(has(self.emit) && self.emit == 'final') || has(self.window)",
        "`emit`: `emit: final` needs a `window`: without one no result is ever final;"
        " add e.g. window: {tumbling: 5 minutes}, or emit: updates'",
    )
    yield rule(
        "!(has(self.stream) && has(self.from))",
        "`from` is not for a stream, which reads topics; remove `from`'",
    )
    yield rule(
        "!(has(self.merge) && has(self.from))",
        "`from` is not for merge, which names what it reads; remove `from`'",
    )
    sources = {name: f"has(self.stream.{name})" for name in ("topic", "topics", "pattern")}
    yield rule(
        f"!has(self.stream) || {_count(sources)} > 0",
        "`stream`: `topic` is missing; name the topic to read, e.g. topic: orders'",
    )
    yield rule(
        f"!has(self.stream) || {_count(sources)} < 2",
        f"`stream`: there are ' + {_listed(sources)} + '; keep one of them'",
    )
    yield rule(
        "!has(self.window) || !(has(self.window.tumbling) && has(self.window.hopping))",
        "`window`: has `tumbling` and `hopping`; keep one of them'",
    )


def _count(conditions: dict[str, str]) -> str:
    """CEL for how many of the conditions hold."""
    return "(" + " + ".join(f"({condition} ? 1 : 0)" for condition in conditions.values()) + ")"


def _listed(conditions: dict[str, str]) -> str:
    """CEL for the names whose conditions hold, joined by `and`.

    Lists and their `join` would do it in a few words, but the API server cannot bound what they cost, and refuses.
    """
    parts, earlier = [], "false"
    for name, condition in conditions.items():
        parts.append(f"({condition} ? ({earlier} ? ' and `{name}`' : '`{name}`') : '')")
        earlier = condition if earlier == "false" else f"({earlier} || {condition})"
    return "(" + " + ".join(parts) + ")"


def _duration_rules(schema: Schema) -> Iterator[Rule]:
    """The same rule at every duration."""
    units = "|".join(sorted(UNITS, key=lambda unit: (-len(unit), unit)))
    legal = rf"(?i)^\\s*[0-9]{{1,15}}\\s*({units})\\s*$"
    message = (
        "'\\'' + self + '\\' is not a duration: '"
        " + (self.matches('^\\\\s*[0-9]{1,15}\\\\s*[A-Za-z]+\\\\s*$')"
        " ? 'no unit `' + self.find('[A-Za-z]+') + '`' : 'a whole number and a unit')"
        f" + '; write e.g. {EXAMPLES}'"
    )
    for path, field in _durations(schema, ()):
        yield Rule(path, f"self.matches('{legal}')", message, computed=True)
        if field.pop("x-positive"):
            yield Rule(
                path,
                "!self.matches('^\\\\s*0+\\\\s*[A-Za-z]')",
                "'\\'' + self + '\\' is no time at all; write e.g. 5 minutes'",
                computed=True,
            )


def _durations(schema: Schema, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Schema]]:
    if "x-positive" in schema:
        yield path, schema
    for name, field in schema.get("properties", {}).items():
        yield from _durations(field, (*path, name))
    if "items" in schema:
        yield from _durations(schema["items"], (*path, ITEMS))
