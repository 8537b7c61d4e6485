# SPDX-License-Identifier: Apache-2.0
"""The phase does not go from Running to Restoring and back if no result has to wait."""

from __future__ import annotations

from streamapp.spark.phase import BRIEF_SECONDS, Phases

UNDER_WAY = {"totals": {"partitions": 2, "restoring": 1}}
OVER = {"totals": {"partitions": 2, "restoring": 0}}


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_only_a_long_restore_of_a_running_app_is_told() -> None:
    clock, phase, told = Clock(), "Running", []
    phases = Phases(clock)
    for seconds, restore in [(1, UNDER_WAY), (BRIEF_SECONDS - 1, UNDER_WAY), (1, OVER), (1, UNDER_WAY), (1, UNDER_WAY)]:
        phase = phases.of(phase, restore, {})
        told.append(phase)
        clock.now += seconds
    assert told == ["Running"] * 5, "two short ones are no long one"
    clock.now += BRIEF_SECONDS
    for restore, expected in [(UNDER_WAY, "Restoring"), (UNDER_WAY, "Restoring"), (OVER, "Running")]:
        phase = phases.of(phase, restore, {})
        assert phase == expected


def test_a_start_and_a_query_that_is_tried_again_wait_for_their_stores() -> None:
    phases, awaited = Phases(Clock()), {"totals": 2}
    assert phases.of("Starting", {}, awaited) == "Starting"
    assert phases.of("Starting", {"totals": {"partitions": 1, "restoring": 1}}, awaited) == "Restoring"
    assert phases.of("Restoring", {"totals": {"partitions": 1, "restoring": 0}}, awaited) == "Restoring"
    assert phases.of("Restoring", OVER, awaited) == "Running"
    assert phases.of("Restarting", UNDER_WAY, {}) == "Restoring"
    assert phases.of("Starting", {}, {}) == "Running", "nothing is kept of earlier runs"
