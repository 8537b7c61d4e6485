# SPDX-License-Identifier: Apache-2.0
"""The order in which apps are looked at."""

from __future__ import annotations

import pytest

from lib.clock import Clock
from streamapp_operator.workqueue import AHEAD, FIRST_BACKOFF_SECONDS, Key, Workqueue

A, B, C = ("here", "a"), ("here", "b"), ("here", "c")


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def queue(clock: Clock) -> Workqueue:
    return Workqueue(clock)


def taken(queue: Workqueue, count: int) -> list[Key | None]:
    return [queue.take() for _ in range(count)]


def test_who_came_first_is_first_and_who_is_urgent_before(queue: Workqueue, clock: Clock) -> None:
    for key in (B, A):
        queue.add(key)
        clock.now += 1
    queue.add(C, AHEAD)
    assert queue.depth == 3
    assert taken(queue, 3) == [C, B, A]


def test_a_key_that_waits_becomes_urgent_and_comes_once(queue: Workqueue) -> None:
    queue.add(A)
    queue.add(B)
    queue.add(B, AHEAD)
    assert taken(queue, 2) == [B, A]
    assert queue.depth == 0


def test_what_is_added_while_it_is_out_comes_once_more(queue: Workqueue) -> None:
    queue.add(A)
    assert queue.take() == A
    queue.add(A)
    queue.add(A, AHEAD)
    queue.add(B)
    assert queue.depth == 1
    queue.done(A, 20.0)
    assert taken(queue, 2) == [A, B]
    queue.done(A, None)
    assert queue.depth == 0


def test_a_failure_waits_longer_each_time_whatever_is_added(queue: Workqueue, clock: Clock) -> None:
    for again in (FIRST_BACKOFF_SECONDS, 2 * FIRST_BACKOFF_SECONDS):
        queue.add(A)
        assert queue.take() == A
        queue.add(A)
        queue.failed(A)
        assert queue.depth == 0
        clock.now += again
        assert queue.depth == 1
