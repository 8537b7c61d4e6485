# SPDX-License-Identifier: Apache-2.0
"""Cron lines: minute, hour, day of month, month, day of week; in UTC."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from streamapp.errors import Invalid

EXAMPLE = "0 8 * * 1-5"
_FIELDS = (("minute", 0, 59), ("hour", 0, 23), ("day of month", 1, 31), ("month", 1, 12), ("day of week", 0, 7))
_FAR_DAYS = 8 * 366
"""A 29th of February comes within eight years."""


@dataclass(frozen=True)
class Cron:
    """The times that a line names. As always with cron, where both days are restricted either will do."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    """0 is Sunday."""
    either_day: bool

    def latest(self, now: datetime) -> datetime | None:
        """The last such time that is not after `now`; None when there has been none in years.

        >>> parse_cron("30 8 * * 1-5").latest(datetime(2024, 1, 7, 12, 0))
        datetime.datetime(2024, 1, 5, 8, 30)
        """
        day = now.replace(hour=0, minute=0, second=0, microsecond=0)
        for back in range(_FAR_DAYS):
            if found := max((time for time in self._times(day - timedelta(days=back)) if time <= now), default=None):
                return found
        return None

    def following(self, now: datetime) -> datetime | None:
        """The first such time after `now`; None when there will be none in years.

        >>> parse_cron("30 8 * * 1-5").following(datetime(2024, 1, 5, 8, 30))
        datetime.datetime(2024, 1, 8, 8, 30)
        """
        day = now.replace(hour=0, minute=0, second=0, microsecond=0)
        for ahead in range(_FAR_DAYS):
            if found := min((time for time in self._times(day + timedelta(days=ahead)) if time > now), default=None):
                return found
        return None

    def _times(self, day: datetime) -> Iterator[datetime]:
        if self._is_day(day):
            yield from (day.replace(hour=hour, minute=minute) for hour in self.hours for minute in self.minutes)

    def _is_day(self, day: datetime) -> bool:
        if day.month not in self.months:
            return False
        of_month, of_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return of_month or of_week if self.either_day else of_month and of_week


def parse_cron(line: str) -> Cron:
    """
    Raises:
        Invalid: when it is no such line; the message says which field is wrong.

    >>> parse_cron("0 25 * * *")
    Traceback (most recent call last):
    streamapp.errors.Invalid: '0 25 * * *' is no cron line: its hour is `25`, not 0 to 23; write e.g. 0 8 * * 1-5
    """
    parts = line.split()
    if len(parts) != len(_FIELDS):
        raise Invalid(f"{line!r} is no cron line: it has {len(parts)} fields, not 5", f"write e.g. {EXAMPLE}")
    minutes, hours, days, months, weekdays = (
        _values(line, part, *field) for part, field in zip(parts, _FIELDS, strict=True)
    )
    either = not parts[2].startswith("*") and not parts[4].startswith("*")
    return Cron(minutes, hours, days, months, frozenset(day % 7 for day in weekdays), either)


def _values(line: str, part: str, name: str, low: int, high: int) -> frozenset[int]:
    found: set[int] = set()
    for item in part.split(","):
        span, _, step = item.partition("/")
        first, dash, last = span.partition("-")
        whole = span == "*"
        numbers = [*([] if whole else [first]), *([last] if dash else []), *([step] if "/" in item else [])]
        if not all(number.isdecimal() and number.isascii() and len(number) <= 2 for number in numbers):
            raise _wrong(line, part, name, low, high)
        begin = low if whole else int(first)
        end = high if whole or ("/" in item and not dash) else int(last) if dash else begin
        every = int(step) if step else 1
        if not (low <= begin <= end <= high and every):
            raise _wrong(line, part, name, low, high)
        found.update(range(begin, end + 1, every))
    return frozenset(found)


def _wrong(line: str, part: str, name: str, low: int, high: int) -> Invalid:
    return Invalid(f"{line!r} is no cron line: its {name} is `{part}`, not {low} to {high}", f"write e.g. {EXAMPLE}")
