# SPDX-License-Identifier: Apache-2.0
"""The rules for durations."""

from __future__ import annotations

from collections.abc import Iterator

from streamapp.durations import EXAMPLES, LONGEST_MS, UNITS
from streamapp_operator.crd.rule import ITEMS, QUOTED, Rule, Schema


def duration_rules(schema: Schema) -> Iterator[Rule]:
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


def of_single_durations() -> Iterator[Rule]:
    """The rules for durations that have bounds. Another rule refuses a text that is no duration at all."""
    yield Rule(
        ("spec", "transactionTimeout"),
        f"!{_between(0, LONGEST_MS)} || {_between(1_000, 86_400_000)}",
        f"{QUOTED} is not between 1s and 1 day; write e.g. 60s, and not less than an epoch may take'",
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
