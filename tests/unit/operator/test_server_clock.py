# SPDX-License-Identifier: Apache-2.0
"""The operator's time is the API server's, whatever its own clock shows."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamapp_operator.cluster.server_clock import ServerClock

START = datetime(2024, 1, 1, tzinfo=UTC)
seconds = st.floats(0, 5)


class World:
    """A server's clock, and how far ours is off."""

    def __init__(self, off: float) -> None:
        self.passed = 1000.0
        self.time = START
        self.clock = ServerClock(lambda: self.passed, lambda: self.time + timedelta(seconds=off))

    def wait(self, seconds: float) -> None:
        self.passed += seconds
        self.time += timedelta(seconds=seconds)

    def ask(self, there: float = 0.0, back: float = 0.0) -> None:
        asked = self.passed
        self.wait(there)
        date = format_datetime(self.time.replace(microsecond=0), usegmt=True)
        self.wait(back)
        self.clock.note(date, asked)

    @property
    def late(self) -> float:
        return (self.time - self.clock.now()).total_seconds()


@given(st.sampled_from((-600, 0, 600)), st.lists(st.tuples(seconds, seconds, seconds), min_size=1, max_size=20))
def test_it_is_never_early_and_hardly_late(off: float, answers: list[tuple[float, float, float]]) -> None:
    world, quickest = World(off), 10.0
    for pause, there, back in answers:
        world.wait(pause)
        world.ask(there, back)
        quickest = min(quickest, back)
        assert -0.001 < world.late < 1.001 + quickest


@pytest.mark.parametrize("step", [-3600, 3600])
def test_a_step_of_the_servers_clock_is_followed(step: float) -> None:
    world = World(0)
    world.ask()
    world.time += timedelta(seconds=step)
    world.ask()
    assert 0 <= world.late <= 1


@pytest.mark.parametrize("date", [None, "", "?", "Mon, 99 Foo 2024 00:00:00 GMT", "1"])
def test_what_is_no_time_is_ignored(date: str | None) -> None:
    world = World(600)
    world.clock.note(date, 0)
    assert world.late == -600, "ours counts until there is an answer"
    world.ask()
    world.clock.note(date, 0)
    assert 0 <= world.late <= 1


def test_nobody_in_the_operator_asks_another_clock(root: Path) -> None:
    """The restart command alone does: its time is a word that must differ, and is compared with nothing."""
    own = re.compile(r"datetime\.now|utcnow|time\.time\(|time_ns|date\.today")
    found = {path.name for path in (root / "operator").rglob("*.py") if own.search(path.read_text())}
    assert found == {"server_clock.py", "restart.py"}
