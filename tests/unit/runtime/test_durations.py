# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamapp.durations import LONGEST_MS, format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("100ms", 100),
        ("5s", 5_000),
        ("5 minutes", 300_000),
        ("1 hour", 3_600_000),
        ("7 days", 604_800_000),
        ("0s", 0),
        (" 1  Minute ", 60_000),
    ],
)
def test_durations_are_read(text: str, milliseconds: int) -> None:
    assert parse_duration(text) == milliseconds


@pytest.mark.parametrize("text", ["", "5", "minutes", "-5s", "1.5s", "5 parsecs", "1h30m", "99999999 days", "\u0665s"])
def test_what_is_no_duration_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match=r"write e\.g\. 100ms"):
        parse_duration(text)


@given(st.integers(min_value=0, max_value=LONGEST_MS))
def test_a_formatted_duration_is_read_back(milliseconds: int) -> None:
    assert parse_duration(format_duration(milliseconds)) == milliseconds
