# SPDX-License-Identifier: Apache-2.0
"""Durations as people write them (`100ms`, `5s`, `5 minutes`, `7 days`), in whole milliseconds."""

from __future__ import annotations

import re

from streamapp.errors import Invalid

UNITS = {
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 1),
    **dict.fromkeys(("s", "sec", "second", "seconds"), 1_000),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000),
    **dict.fromkeys(("d", "day", "days"), 86_400_000),
    **dict.fromkeys(("w", "week", "weeks"), 604_800_000),
}
_SHAPE = re.compile(r"([0-9]{1,15})\s*([A-Za-z]+)", re.ASCII)
# Spark keeps intervals as microseconds in 64 bits; 100 years are far inside that, and beyond any sensible
# window.
LONGEST_MS = 100 * 366 * 86_400_000
EXAMPLES = "100ms, 5s, 5 minutes, 7 days"


def parse_duration(text: str) -> int:
    """The duration in milliseconds.

    Raises:
        Invalid: when the text is no duration; the message says what one looks like.

    >>> parse_duration("100ms"), parse_duration("5 minutes"), parse_duration("0s")
    (100, 300000, 0)
    >>> parse_duration("5 parsecs")
    Traceback (most recent call last):
    streamapp.errors.Invalid: '5 parsecs' is not a duration: no unit `parsecs`; write e.g. 100ms, 5s, 5 minutes, 7 days
    """
    match = _SHAPE.fullmatch(text.strip())
    if match is None:
        raise Invalid(f"{text!r} is not a duration: a whole number and a unit", f"write e.g. {EXAMPLES}")
    unit = UNITS.get(match[2].lower())
    if unit is None:
        raise Invalid(f"{text!r} is not a duration: no unit `{match[2]}`", f"write e.g. {EXAMPLES}")
    milliseconds = int(match[1]) * unit
    if milliseconds > LONGEST_MS:
        raise Invalid(f"{text!r} is longer than 100 years", f"write e.g. {EXAMPLES}")
    return milliseconds


def format_duration(milliseconds: int) -> str:
    """The duration in the largest unit that keeps it whole; `parse_duration` reads it back.

    >>> [format_duration(ms) for ms in (0, 100, 5_000, 90_000, 300_000, 3_600_000, 604_800_000)]
    ['0s', '100ms', '5s', '90s', '5 minutes', '1 hour', '7 days']
    """
    if milliseconds and milliseconds % 1_000:
        return f"{milliseconds}ms"
    for unit, size in (("day", 86_400_000), ("hour", 3_600_000), ("minute", 60_000)):
        if milliseconds and milliseconds % size == 0:
            count = milliseconds // size
            return f"{count} {unit}" + ("" if count == 1 else "s")
    return f"{milliseconds // 1_000}s"
