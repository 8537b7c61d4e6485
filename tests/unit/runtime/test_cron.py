# SPDX-License-Identifier: Apache-2.0
"""Cron lines, as bounds of autoscaling name their times."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamapp.cron import parse_cron

NOW = datetime(2024, 3, 13, 10, 17, 42, tzinfo=UTC)  # a Wednesday


@pytest.mark.parametrize(
    ("line", "latest"),
    [
        ("* * * * *", "2024-03-13 10:17"),
        ("*/15 * * * *", "2024-03-13 10:15"),
        ("20 10 * * *", "2024-03-12 10:20"),
        ("0 8 * * 1-5", "2024-03-13 08:00"),
        ("0 8 * * 6,7", "2024-03-10 08:00"),
        ("0 8 * * 0", "2024-03-10 08:00"),
        ("5/20 3 * * *", "2024-03-13 03:45"),
        ("0 0 1 * *", "2024-03-01 00:00"),
        ("0 0 1 * 2", "2024-03-12 00:00"),
        ("0 0 29 2 *", "2024-02-29 00:00"),
        ("0 0 31 12 *", "2023-12-31 00:00"),
        ("10-30/10 9-11 * 3 *", "2024-03-13 10:10"),
    ],
)
def test_the_last_time(line: str, latest: str) -> None:
    assert parse_cron(line).latest(NOW) == datetime.fromisoformat(latest).replace(tzinfo=UTC)


def test_a_day_that_there_is_not_never_comes() -> None:
    assert parse_cron("0 0 31 2 *").latest(NOW) is None


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("* * * *", "4 fields"),
        ("60 * * * *", "minute is `60`"),
        ("* * 0 * *", "day of month is `0`"),
        ("* * * jan *", "month is `jan`"),
        ("* * * * 8", "day of week is `8`"),
        ("*/0 * * * *", "minute is `*/0`"),
        ("5- * * * *", "minute is `5-`"),
        ("9-5 * * * *", "minute is `9-5`"),
        ("1,,2 * * * *", "minute is `1,,2`"),
        ("*/ * * * *", "minute is `*/`"),
    ],
)
def test_what_is_no_cron_line(line: str, wrong: str) -> None:
    with pytest.raises(ValueError, match=r"no cron line") as said:
        parse_cron(line)
    assert wrong in str(said.value)


@given(st.integers(0, 59), st.integers(0, 23), st.datetimes(datetime(2000, 1, 2), datetime(2100, 1, 1)))
def test_a_daily_time_is_within_the_last_day(minute: int, hour: int, now: datetime) -> None:
    latest = parse_cron(f"{minute} {hour} * * *").latest(now)
    assert latest is not None
    assert (latest.minute, latest.hour) == (minute, hour)
    assert timedelta(0) <= now - latest < timedelta(days=1)


@pytest.mark.parametrize(
    ("line", "following"),
    [
        ("* * * * *", "2024-03-13 10:18"),
        ("17 10 * * *", "2024-03-14 10:17"),
        ("*/15 * * * *", "2024-03-13 10:30"),
        ("0 8 * * 6,7", "2024-03-16 08:00"),
        ("0 0 1 * 2", "2024-03-19 00:00"),
        ("0 0 29 2 *", "2028-02-29 00:00"),
    ],
)
def test_the_next_time(line: str, following: str) -> None:
    assert parse_cron(line).following(NOW) == datetime.fromisoformat(following).replace(tzinfo=UTC)


@given(st.integers(0, 59), st.integers(0, 23), st.datetimes(datetime(2000, 1, 2), datetime(2100, 1, 1)))
def test_what_follows_is_then_the_latest(minute: int, hour: int, now: datetime) -> None:
    cron = parse_cron(f"{minute} {hour} * * *")
    following = cron.following(now)
    assert following is not None
    assert now < following <= now + timedelta(days=1)
    assert cron.latest(following) == following
