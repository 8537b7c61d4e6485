# SPDX-License-Identifier: Apache-2.0
"""The rules for one node of the topology."""

from __future__ import annotations

from collections.abc import Iterator

from streamapp.companions import Choice, Rules, of_version
from streamapp.errors import Problem
from streamapp.manifest.node import COLUMNS, INNER_RULES, LATER, OPERATIONS, RULES
from streamapp.scope import QUOTE_IT, READ_AS_BOOLEAN, TRUE_AND_FALSE
from streamapp_operator.crd.rule import ITEMS, LEGAL, LEGAL_NAME, LEGAL_WORDS, QUOTED, Rule

_FUNCTION = r"^[\pL_][\pL\pN_]*(\.[\pL_][\pL\pN_]*)*:[\pL_][\pL\pN_]*$"
_OF_GROUPS = ("groupBy", "aggregate", "reduce", "top", "cogroup")
_GROUPED = "(has(self.aggregate) || has(self.reduce) || has(self.top) || has(self.cogroup))"
"""Whether the node is a `groupBy`, by its visible fields."""


def node_rules(node: tuple[str, ...]) -> Iterator[Rule]:
    """
    Args:
        node: its place in the schema.
    """
    yield from _of_fields(node)
    yield from _of_names(node)
    yield from _of_operations(node)
    yield from _of_columns(node)


def _of_fields(node: tuple[str, ...]) -> Iterator[Rule]:
    named = "'node \\'' + self.name + '\\': "

    def rule(rule: str, message: str) -> Rule:
        return Rule(node, rule, named + message, computed=True)

    operations = {name: _GROUPED if name == "groupBy" else f"has(self.{name})" for name in OPERATIONS}
    yield rule(
        f"self.name.matches('{LEGAL_NAME}')",
        f"\\'' + self.name + '\\' cannot be part of a topic\\'s name; use {LEGAL_WORDS}'",
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
            yield (
                f"!({' && '.join(given)}) || {wanted}",
                message_at(rule.reported_for or rule.field, rule.message, rule.fix),
            )
            if needed:  # only the first rule that a field breaks
                before.setdefault(rule.field, []).append(f"({needed})")


def _of_names(node: tuple[str, ...]) -> Iterator[Rule]:
    """The rules for names that become part of topics' names, and for topics. The API server says by itself at which
    node."""
    for place in ((*node, "name"), (*node, "store"), (*node, "branch", ITEMS, "name")):
        if place != (*node, "name"):
            yield Rule(place, LEGAL, f"{QUOTED} cannot be part of a topic\\'s name; use {LEGAL_WORDS}'", computed=True)
        yield Rule(
            place,
            "!self.startsWith('__')",
            f"{QUOTED} starts with two underscores, as the engine\\'s own names do; rename it'",
            computed=True,
        )
    for place in ((*node, "stream", "topic"), (*node, "to", "topic")):
        yield Rule(
            place,
            LEGAL,
            f"'topic \\'' + self + '\\' ' + (self == '' ? 'is empty' : 'is no topic name: {LEGAL_WORDS} only')",
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
        f"{QUOTED} names no function; write MODULE:FUNCTION, e.g. scoring:score'",
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
