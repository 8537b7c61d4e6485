# SPDX-License-Identifier: Apache-2.0
"""Rules in CEL by which the API server refuses manifests by itself, with the words that `streamapp validate` uses.

Fields that may be a text or an object (a format, an item of `groupBy`) are invisible to CEL. So `aggregate`,
`reduce` or `cogroup` stands for the operation `groupBy` here, and everything that needs more than one look at a
field is left to the operator. The API server also limits the cost of a rule and its message, so that messages cannot
name numbers, or names out of lists.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from streamapp.addresses import HOST
from streamapp.companions import Choice, Rules, of_version
from streamapp.durations import EXAMPLES, LONGEST_MS, UNITS
from streamapp.errors import Problem
from streamapp.manifest.model import LONGEST_OBJECT_NAME, OBJECT_NAME, PAGE, SCOPE
from streamapp.manifest.node import COLUMNS, INNER_RULES, LATER, OPERATIONS, RULES
from streamapp.scope import QUOTE_IT, READ_AS_BOOLEAN, TRUE_AND_FALSE
from streamapp_operator.manifest.kafka_login import LAPTOP_FILES, NO_SECRET

Schema = dict[str, Any]
ITEMS = "[]"

_LEGAL_NAME = "^[a-zA-Z0-9._-]+$"
_LEGAL_WORDS = "letters, digits, `.`, `_` and `-`"
_LEGAL = f"(self.matches('{_LEGAL_NAME}') && self != '.' && self != '..')"
_QUOTED = "'\\'' + self + '\\'"
"""The value at a text's place, before more of the message."""
_ADDRESS = rf"{HOST}:[0-9]{{1,5}}"
_FUNCTION = r"^[\pL_][\pL\pN_]*(\.[\pL_][\pL\pN_]*)*:[\pL_][\pL\pN_]*$"
_OBJECT_NAME = f"^{OBJECT_NAME}$"


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
    for rule in (*_rules(), *_duration_rules(schema), *_of_single_durations()):
        place = schema
        for step in rule.at:
            place = place["items"] if step == ITEMS else place.get("items", place)["properties"][step]
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
    node = (*topology, ITEMS)
    yield from _of_a_node(node)
    yield from _of_names(node)
    yield from _of_operations(node)
    yield from _of_columns(node)


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
    yield Rule(
        ("spec",),
        "!self.closeWindows || self.run == 'untilCaughtUp'",
        "`closeWindows` is for apps that stop; add run: untilCaughtUp",
    )

    yield Rule(
        ("spec", "applicationId"),
        _LEGAL,
        f"{_QUOTED} cannot be the prefix of topics\\' names; use {_LEGAL_WORDS}'",
        computed=True,
    )
    yield Rule(
        ("spec", "standbyReplicas"),
        "self == 0",
        "warm copies of stores are not available yet in this version; leave `standbyReplicas` out",
    )
    yield Rule(
        ("spec", "startFrom"),
        "self == 'earliest' || self == 'latest' || self.matches('^[0-9]{4}-?[0-9W]')",
        f"{_QUOTED} is neither earliest nor latest nor a timestamp; write e.g. \\'2024-01-31T00:00:00Z\\''",
        computed=True,
    )
    yield Rule(
        ("spec", "upgrade", "allowStateLoss"),
        "self.size() == 0",
        "a store cannot lose its state in place yet in this version; "
        "leave `allowStateLoss` out; another `store` on the node begins empty",
    )
    yield from _of_code(("spec", "code"))


def _of_code(code: tuple[str, ...]) -> Iterator[Rule]:
    yield Rule(
        code,
        "has(self.files) || has(self.path) || has(self.configMapRef)",
        "`code` says no place; add files: {scoring.py: …}, path or configMapRef",
    )
    yield Rule(
        code,
        "!has(self.files) || !(has(self.path) || has(self.configMapRef))",
        "'there are `files` and `' + (has(self.path) ? 'path' : 'configMapRef') + '`; keep one of them'",
        computed=True,
    )
    yield Rule(
        code,
        "!has(self.path) || has(self.files) || has(self.configMapRef)",
        "'`path` is for a laptop (in \"' + self.path + '\"); "
        "on a cluster, add configMapRef: {name: CONFIGMAP}, or write the modules into files'",
        computed=True,
    )
    yield _object_name((*code, "configMapRef", "name"))


def _object_name(place: tuple[str, ...]) -> Rule:
    """The rule for a name by which the operator asks for an object of the app's author."""
    return Rule(
        place,
        f"self.matches(r'{_OBJECT_NAME}') && size(self) <= {LONGEST_OBJECT_NAME}",
        f"{_QUOTED} cannot be the name of an object in a cluster; use lower-case letters, digits, `.` and `-`'",
        computed=True,
    )


def _of_kafka(kafka: tuple[str, ...]) -> Iterator[Rule]:
    yield Rule(
        (*kafka, "bootstrapServers"),
        rf"self.matches(r'^ *{_ADDRESS} *(, *{_ADDRESS} *)*$')",
        f"{_QUOTED} is not HOST:PORT; write e.g. kafka:9092'",
        computed=True,
    )
    yield Rule(
        (*kafka, "sasl", "tokenEndpoint"),
        f'self.matches(r"^{PAGE}$")',
        f"{_QUOTED} is not the address of a page; write https://HOST/PATH, or https://HOST:PORT/PATH'",
        computed=True,
    )
    yield Rule(
        (*kafka, "sasl", "scope"),
        f"self.matches(r'^{SCOPE}$')",
        "is no scope; write words of letters, digits and signs, without quotes, backslashes and braces",
    )
    tls, sasl = (*kafka, "tls"), (*kafka, "sasl")
    yield _object_name((*tls, "secretRef", "name"))
    yield _object_name((*sasl, "secretRef", "name"))
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


_OF_GROUPS = ("groupBy", "aggregate", "reduce", "top", "cogroup")
_GROUPED = "(has(self.aggregate) || has(self.reduce) || has(self.top) || has(self.cogroup))"
"""Whether the node is a `groupBy`, by its visible fields."""


def _of_a_node(node: tuple[str, ...]) -> Iterator[Rule]:
    named = "'node \\'' + self.name + '\\': "

    def rule(rule: str, message: str) -> Rule:
        return Rule(node, rule, named + message, computed=True)

    operations = {name: _GROUPED if name == "groupBy" else f"has(self.{name})" for name in OPERATIONS}
    yield rule(
        f"self.name.matches('{_LEGAL_NAME}')",
        f"\\'' + self.name + '\\' cannot be part of a topic\\'s name; use {_LEGAL_WORDS}'",
    )
    yield rule(" || ".join(operations.values()), f"has no operation; add one of: {', '.join(OPERATIONS)}'")
    yield rule(
        f"{_count(operations)} < 2",
        f"has ' + {_listed(operations)} + ', and a node has one operation; make a node of each'",
    )
    for place, rules in (("", RULES), *INNER_RULES.items()):
        for condition, message in _of_companions(place, of_version(rules, LATER)):
            yield rule(condition, message)
    yield rule(
        "!has(self.from) || self.from != self.name",
        "`from`: reads itself: ' + self.name + ' → ' + self.name + '; make one of them read another node'",
    )


def _of_companions(place: str, rules: Rules) -> Iterator[tuple[str, str]]:
    """Conditions, each with the rest of a message, for fields that only go with others.

    Args:
        place: the node's field that they are in; empty: the node itself.
    """

    def has(name: str) -> str:
        return _GROUPED if name == "groupBy" else f"has(self.{place + '.' if place else ''}{name})"

    def message_at(field: str | None, message: str, fix: str) -> str:
        where = ".".join(part for part in (place, field) if part)
        return str(Problem(None, where, None, message, fix)).replace("'", "\\'") + "'"

    there = f"has(self.{place})" if place else "true"
    before: dict[str, list[str]] = {}
    for rule in rules:
        if isinstance(rule, Choice):
            present = {name: has(name) for name in rule.fields}
            yield f"!{there} || {_count(present)} > 0", message_at(None, rule.none, rule.none_fix)
            several = message_at(None, f"{rule.several} \0", rule.several_fix).replace(
                "\0", f"' + {_listed(present)} + '"
            )
            yield f"!{there} || {_count(present)} < 2", several
            # Where several are there, that is the only message.
            before |= {name: [f"!{has(other)}" for other in rule.fields if other != name] for name in rule.fields}
            continue
        needed = " || ".join(has(name) for name in rule.needs)
        wanted = needed or " && ".join(f"!{has(name)}" for name in rule.excludes)
        given = [*([there] if place else []), has(rule.field), *before.get(rule.field, [])]
        if rule.value is not None:
            given.append(f"self.{place + '.' if place else ''}{rule.field} == '{rule.value}'")
        if "groupBy" not in (rule.field, *rule.needs) or rule.field not in _OF_GROUPS:
            yield f"!({' && '.join(given)}) || {wanted}", message_at(rule.reported_for or rule.field, rule.message, rule.fix)
            if needed:  # only the first rule that a field breaks
                before.setdefault(rule.field, []).append(f"({needed})")


def _of_names(node: tuple[str, ...]) -> Iterator[Rule]:
    """The rules for names that become part of topics' names, and for topics. The API server says by itself at which
    node."""
    for place in ((*node, "name"), (*node, "store"), (*node, "branch", ITEMS, "name")):
        if place != (*node, "name"):
            yield Rule(
                place, _LEGAL, f"{_QUOTED} cannot be part of a topic\\'s name; use {_LEGAL_WORDS}'", computed=True
            )
        yield Rule(
            place,
            "!self.startsWith('__')",
            f"{_QUOTED} starts with two underscores, as the engine\\'s own names do; rename it'",
            computed=True,
        )
    for place in ((*node, "stream", "topic"), (*node, "to", "topic")):
        yield Rule(
            place,
            _LEGAL,
            f"'topic \\'' + self + '\\' ' + (self == '' ? 'is empty' : 'is no topic name: {_LEGAL_WORDS} only')",
            computed=True,
        )


def _of_operations(node: tuple[str, ...]) -> Iterator[Rule]:
    yield Rule(
        (*node, "branch"),
        "self.filter(a, has(a.when)).size() + 1 >= self.size()"
        " && (self.all(a, has(a.when)) || !has(self[self.size() - 1].when))",
        "`when` is missing, and only the last branch may take the rest; add when: …",
    )
    yield Rule(
        (*node, "python", "function"),
        f"self.matches(r'{_FUNCTION}')",
        f"{_QUOTED} names no function; write MODULE:FUNCTION, e.g. scoring:score'",
        computed=True,
    )


def _of_columns(node: tuple[str, ...]) -> Iterator[Rule]:
    for place in COLUMNS:
        yield Rule(
            (*node, *place),
            " && ".join(f"!('{name}' in self)" for name in TRUE_AND_FALSE),
            f"a column is named true or false: {READ_AS_BOOLEAN}; {QUOTE_IT}",
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


def _of_single_durations() -> Iterator[Rule]:
    """The rules for durations that have bounds. Another rule refuses a text that is no duration at all."""
    yield Rule(
        ("spec", "transactionTimeout"),
        f"!{_between(0, LONGEST_MS)} || {_between(1_000, 86_400_000)}",
        f"{_QUOTED} is not between 1s and 1 day; write e.g. 60s, and not less than an epoch may take'",
        computed=True,
    )


def _between(low: int, high: int) -> str:
    """CEL for whether a duration has at least and at most so many milliseconds."""
    parts = []
    for factor in dict.fromkeys(UNITS.values()):
        units = "|".join(unit for unit, each in UNITS.items() if each == factor)
        number = "int(self.find('[0-9]+'))"
        parts.append(
            rf"(self.matches(r'(?i)^\s*[0-9]{{1,15}}\s*({units})\s*$')"
            f" && {number} >= {-(-low // factor)} && {number} <= {high // factor})"
        )
    return f"({' || '.join(parts)})"


def _durations(schema: Schema, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Schema]]:
    if "x-positive" in schema:
        yield path, schema
    for name, field in schema.get("properties", {}).items():
        yield from _durations(field, (*path, name))
    if "items" in schema:
        yield from _durations(schema["items"], (*path, ITEMS))
