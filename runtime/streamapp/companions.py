# SPDX-License-Identifier: Apache-2.0
"""Fields that only go with others, each rule once: for the parser's messages, the JSON Schema and the cluster's rules.

The rules of one object stand in order. For each field only the first broken rule is reported, and nothing after a
broken choice: the rest follows from it.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple


class Fault(NamedTuple):
    """A mistake in an object's fields."""

    field: str | None
    """The field under the object; None when the mistake is about the object as a whole."""
    value: str | None
    message: str
    fix: str


@dataclass(frozen=True)
class Rule:
    """A rule: where `field` is there, so is one of `needs`, and none of `excludes`."""

    field: str
    message: str
    fix: str
    needs: tuple[str, ...] = ()
    excludes: tuple[str, ...] = ()
    value: str | None = None
    """The only value of the field that the rule holds for; None: any value."""
    reported_for: str | None = None
    """The field that a mistake is reported for, where that is another one."""

    def fault(self, given: Mapping[str, Any]) -> Fault | None:
        """The object's mistake by this rule; None when it keeps the rule."""
        if self.field not in given or (self.value is not None and given[self.field] != self.value):
            return None
        if not any(name in given for name in self.excludes) and (
            not self.needs or any(name in given for name in self.needs)
        ):
            return None
        return Fault(self.reported_for or self.field, self.value, self.message, self.fix)


@dataclass(frozen=True)
class Choice:
    """A rule: exactly one of these fields is there."""

    fields: tuple[str, ...]
    none: str
    none_fix: str
    several: str
    """The text before the names of the fields that are there."""
    several_fix: str = "keep one of them"

    def fault(self, given: Mapping[str, Any]) -> Fault | None:
        """The object's mistake by this rule; None when it keeps the rule."""
        present = [f"`{name}`" for name in self.fields if name in given]
        if not present:
            return Fault(None, None, self.none, self.none_fix)
        return Fault(None, None, f"{self.several} {' and '.join(present)}", self.several_fix) if present[1:] else None


Rules = Sequence[Rule | Choice]


def faults(rules: Rules, given: Mapping[str, Any]) -> Iterator[Fault]:
    """The mistakes in an object with these fields."""
    wrong: set[str] = set()
    for rule in rules:
        if isinstance(rule, Rule) and rule.field in wrong:
            continue
        fault = rule.fault(given)
        if fault is not None:
            yield fault
            if isinstance(rule, Choice):
                return
            wrong.add(rule.field)


def of_version(rules: Rules, later: Container[str]) -> tuple[Rule | Choice, ...]:
    """The rules without the fields that this version does not have."""

    def there(names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(name for name in names if name not in later)

    return tuple(
        Choice(there(rule.fields), rule.none, rule.none_fix, rule.several, rule.several_fix)
        if isinstance(rule, Choice)
        else Rule(
            rule.field, rule.message, rule.fix, there(rule.needs), there(rule.excludes), rule.value, rule.reported_for
        )
        for rule in rules
    )


def only_for(field: str, *operations: str) -> Rule:
    """The rule of a node's field that goes with these operations alone."""
    *several, last = (f"`{name}`" for name in operations)
    wanted = f"{', '.join(several)} or {last}" if several else last
    return Rule(field, f"`{field}` is only for {wanted}", f"remove `{field}`", needs=operations)


def without_from(operation: str, message: str) -> Rule:
    """The rule of an operation that reads no other node, or itself names those that it reads."""
    return Rule(operation, message, "remove `from`", excludes=("from",), reported_for="from")
