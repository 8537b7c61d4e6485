# SPDX-License-Identifier: Apache-2.0
"""Questions about stores, and their form as paths."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamapp.errors import InputError
from streamapp.question import MOST_ROWS, Question, question_of

TEXTS = st.text(min_size=1, max_size=20)
MOMENTS = st.none() | st.datetimes(timezones=st.just(UTC))


@given(
    st.builds(
        Question,
        store=TEXTS,
        key=st.lists(st.text(max_size=20), max_size=3).map(tuple),
        window_from=MOMENTS,
        window_to=MOMENTS,
        limit=st.integers(1, MOST_ROWS),
    )
)
def test_a_question_is_what_its_path_says(question: Question) -> None:
    assert question_of(question.path) == question


def test_a_key_in_the_path() -> None:
    asked = question_of("/stores/clicks/%2Findex.html%3Fa=b?limit=5")
    assert asked == Question("clicks", ("/index.html?a=b",), limit=5)
    assert question_of("/stores/clicks/a/b").key == ("a/b",)


def test_a_timestamp_without_a_zone_is_utc() -> None:
    asked = question_of("/stores/s?windowFrom=2024-01-31T12:00:00&windowTo=2024-01-31T13:00:00%2B01:00")
    assert asked.window_from == asked.window_to == datetime(2024, 1, 31, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/stores/s?lmit=5", "no parameter 'lmit'; there are key, limit, windowFrom, windowTo"),
        ("/stores/s?limit=all", "limit 'all' is not a whole number from 1 to 10000"),
        ("/stores/s?limit=10001", "limit '10001' is not"),
        ("/stores/s?limit=-1", "limit '-1' is not"),
        ("/stores/s?limit=1&limit=2", "'limit' is there twice"),
        ("/stores/s/a?key=b", "the key stands in the path and in the parameter 'key'"),
        ("/stores/s?windowTo=noon", "windowTo 'noon' is no timestamp; write e.g. 2024-01-31T00:00:00Z"),
    ],
)
def test_a_question_that_cannot_be_read(path: str, words: str) -> None:
    with pytest.raises(InputError) as told:
        question_of(path)
    assert words in str(told.value)
