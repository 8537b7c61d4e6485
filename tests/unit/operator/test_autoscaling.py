# SPDX-License-Identifier: Apache-2.0
"""The number of replicas that an app gets: plain cases, and properties that hold for all."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import groupby, pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from streamapp_operator.scaling.autoscaler import (
    DOWN,
    DOWN_SECONDS,
    INEFFECTIVE,
    LIMITED,
    REASONS,
    STEADY,
    UNKNOWN,
    UP,
    WAITING,
    Decision,
    History,
    Policy,
    decide,
)
from streamapp_operator.scaling.measurement import Metrics, Record

START = datetime(2024, 1, 1, tzinfo=UTC)
LOOK_SECONDS = 5.0
CATCH_UP = Policy(low=1, high=8, catch_up_seconds=60)
RECORDS = Policy(low=1, high=8, records_per_replica=1000)


@dataclass
class Simulation:
    """An app whose replicas process `speed` records per second each, looked at every few seconds."""

    policy: Policy
    speed: float = 100.0
    income: float = 0.0
    useful: int = 100
    replicas: int = 1
    lag: float = 0.0
    """The lag at the beginning."""
    pause: float = 0.0
    """Seconds without any processing after each change."""
    most: float = math.inf
    """Replicas beyond which the app is no faster."""
    tells: bool = True
    """Whether its driver reports how long it has been at work."""
    small_epochs: bool = False
    """Whether one epoch follows another while anything comes in: however little it is, the app is at work."""
    epoch: float = 0.0
    """Seconds that an epoch takes while there is lag; its records count at its end. 0: records count one by one."""
    now: datetime = START
    history: History = field(default_factory=History)
    produced: float = 0.0
    consumed: float = 0.0
    busy: float = 0.0
    under_way: tuple[float, float] = (0.0, 0.0)
    """The epoch's records, and the seconds that it still takes."""
    paused_until: datetime = START
    said: list[Decision] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.produced += self.lag

    def run(self, seconds: float, hold: str = "") -> Decision:
        """Runs for so long; returns the last decision."""
        end = self.now + timedelta(seconds=seconds)
        while self.now < end:
            busy = {"counts": self.busy, "other": self.busy / 2} if self.tells else None
            processed = int(self.consumed) if self.tells else None
            metrics = Metrics(
                int(self.produced), int(self.consumed), self.replicas, self.useful, busy, processed=processed
            )
            decision, self.history = decide(metrics, self.policy, self.history, self.replicas, self.now, hold)
            self.said.append(decision)
            if decision.replicas != self.replicas:
                self.replicas, self.paused_until = decision.replicas, self.now + timedelta(seconds=self.pause)
            self.now += timedelta(seconds=LOOK_SECONDS)
            self.produced += self.income * LOOK_SECONDS
            capacity = self.speed * min(self.replicas, self.most) if self.now > self.paused_until else 0.0
            if self.epoch:
                self._work_in_epochs(capacity)
                continue
            done = min(self.produced - self.consumed, capacity * LOOK_SECONDS)
            self.consumed += done
            if self.small_epochs and done:
                self.busy += LOOK_SECONDS
            else:
                self.busy += done / capacity if capacity else 0.0
        return self.said[-1]

    def _work_in_epochs(self, capacity: float) -> None:
        seconds = LOOK_SECONDS
        while capacity and seconds > 0:
            records, takes = self.under_way
            if not records:
                records = min(self.produced - self.consumed, capacity * self.epoch)
                takes = records / capacity
            if takes > seconds or not records:
                self.under_way = records, max(0.0, takes - seconds)
                return
            seconds -= takes
            self.under_way = 0.0, 0.0
            self.consumed += records
            self.busy += records / capacity

    def restart_operator(self) -> None:
        """The operator loses its memory, but not the status."""
        self.history = History(record=self.history.record)

    @property
    def steps(self) -> list[int]:
        """The decided numbers of replicas, one after another."""
        return [number for number, _ in groupby(decision.replicas for decision in self.said)]

    @property
    def highest(self) -> int:
        return max(decision.replicas for decision in self.said)


def test_a_backlog_gets_as_many_replicas_as_catch_up_in_time_by_steps_that_at_most_double() -> None:
    app = Simulation(CATCH_UP, income=400, lag=60_000)
    app.run(300)
    assert app.steps == [1, 2, 4, 8]
    assert any(decision.reason == UP and "to catch up with within 60 s" in decision.words for decision in app.said)


def test_without_a_known_speed_nothing_changes() -> None:
    app = Simulation(CATCH_UP, lag=30_000, speed=0, replicas=4)
    assert app.run(900).reason == STEADY
    assert app.steps == [4]
    assert "are not known yet" in app.said[-1].words


def test_after_the_burst_replicas_return_one_stabilisation_later() -> None:
    app = Simulation(CATCH_UP, income=50, lag=30_000)
    app.run(90)
    assert app.replicas > 1
    app.run(100)
    assert app.produced == app.consumed
    high = app.replicas
    assert app.said[-1].reason == WAITING
    app.run(4 * DOWN_SECONDS)
    assert app.replicas == 1
    reasons = [decision.reason for decision in app.said]
    last_up = len(reasons) - 1 - reasons[::-1].index(UP)
    assert (reasons.index(DOWN) - last_up) * LOOK_SECONDS >= DOWN_SECONDS
    for was, number in pairwise(app.steps[app.steps.index(high) :]):
        assert number >= min(was - 1, math.ceil(0.6 * was))


def test_a_known_speed_keeps_what_the_input_needs() -> None:
    app = Simulation(CATCH_UP, income=250, lag=30_000)
    app.run(4 * DOWN_SECONDS)
    assert app.produced == app.consumed
    assert app.replicas == 3
    later = len(app.said)
    app.run(6 * DOWN_SECONDS)
    assert {decision.replicas for decision in app.said[later:]} == {3}


@pytest.mark.parametrize("tells", [True, False], ids=["the driver tells how busy it is", "an older driver does not"])
def test_an_operator_that_starts_anew_takes_nothing_away(tells: bool) -> None:
    """Eight replicas process an input that needs six: there is no lag, and none of them is busy."""
    app = Simulation(CATCH_UP, income=600, lag=60_000, replicas=8, tells=tells)
    app.run(600)
    assert app.produced - app.consumed < 1
    for _ in range(20):
        app.restart_operator()
        app.run(DOWN_SECONDS / 2)
    app.run(24 * 3600)
    assert min(app.steps) >= 6
    assert app.replicas == 6


def test_a_speed_that_was_never_seen_takes_nothing_away_either() -> None:
    app = Simulation(CATCH_UP, income=600, replicas=8, tells=False)
    app.run(7 * 3600)
    assert app.steps == [8]


def test_one_that_says_how_busy_it_is_shrinks_without_having_been_busy() -> None:
    app = Simulation(CATCH_UP, income=250, replicas=8)
    app.run(6 * DOWN_SECONDS)
    assert app.steps == [8, 5, 3]


def test_records_of_lag_for_each_replica() -> None:
    app = Simulation(RECORDS, lag=4_500, speed=0)
    app.run(400)
    assert app.steps == [1, 2, 4, 5]
    assert "4500 records of lag, 1000 for each replica" in app.said[-1].words


def test_the_larger_of_both_needs_wins() -> None:
    both = replace(CATCH_UP, records_per_replica=10_000)
    app = Simulation(both, income=100, lag=30_000, replicas=4)
    app.run(30)
    assert app.replicas == 6
    app = Simulation(replace(both, catch_up_seconds=3600), income=100, lag=30_000, replicas=2)
    app.run(15)
    assert app.replicas == 3


def test_one_late_answer_is_no_reason() -> None:
    app = Simulation(RECORDS, speed=1000)
    app.run(20)
    app.produced += 5_000
    app.run(LOOK_SECONDS)
    assert app.said[-1].reason == WAITING
    app.run(60)
    assert app.highest == 1


def test_a_flat_minute_is_no_reason() -> None:
    app = Simulation(CATCH_UP, income=600, replicas=6, pause=60)
    app.run(900)
    number, app.income = app.replicas, 0
    app.run(60)
    app.income = 600
    app.run(300)
    assert {decision.replicas for decision in app.said[-80:]} == {number}


def test_a_change_that_stops_the_app_for_a_minute_does_not_lead_to_the_next() -> None:
    app = Simulation(CATCH_UP, income=250, lag=30_000, pause=60)
    app.run(2 * 3600)
    assert app.steps == [1, 2, 4, 8, 7, 5, 4, 3]
    assert app.produced - app.consumed < 1


def test_replicas_that_bring_nothing_are_taken_back_and_not_tried_again_for_an_hour() -> None:
    app = Simulation(CATCH_UP, income=250, most=2, pause=60)
    app.run(3000)
    assert app.steps == [1, 2, 4, 2]
    assert [d.words for d in app.said if d.reason == INEFFECTIVE] == ["4 replicas were no faster than 2"]
    assert (app.said[-1].reason, "more than 2 were no faster" in app.said[-1].words) == (LIMITED, True)
    app.restart_operator()
    app.run(300)
    assert app.steps == [1, 2, 4, 2]
    app.run(3600)
    assert app.steps == [1, 2, 4, 2, 4, 2]


@pytest.mark.parametrize("small_epochs", [False, True])
def test_replicas_that_have_worked_off_the_lag_are_not_slow_as_no_more_comes_in(small_epochs: bool) -> None:
    """The replicas process what comes in, hardly more than one of them did; that is no sign that the second brings
    nothing."""
    app = Simulation(CATCH_UP, income=104, small_epochs=small_epochs)
    app.run(3 * 3600)
    assert INEFFECTIVE not in {decision.reason for decision in app.said}
    assert app.steps == [1, 2]
    assert app.produced - app.consumed < 600


@pytest.mark.parametrize("epoch", [3.0, 7.0, 12.0, 25.0])
def test_a_speed_is_not_taken_from_parts_of_epochs(epoch: float) -> None:
    """The speed holds however few epochs end while the app is looked at, and wherever they begin."""
    app = Simulation(CATCH_UP, income=150, lag=20_000, epoch=epoch)
    app.run(1200)
    assert INEFFECTIVE not in {decision.reason for decision in app.said}
    speeds = {decision.record.speed for decision in app.said} - {None}
    assert all(speed is not None and 80 <= speed <= 120 for speed in speeds), speeds


def test_a_topic_that_is_new_to_a_pattern_is_no_income() -> None:
    history, replicas, found = History(record=Record(speed=100.0)), 2, []
    for look in range(10):
        produced, topics = (1000, {"a"}) if look < 5 else (1_000_000, {"a", "b"})
        metrics = Metrics(produced, produced, 2, 100, {"part": 0.0}, frozenset(topics))
        now = START + timedelta(seconds=LOOK_SECONDS * look)
        decision, history = decide(metrics, CATCH_UP, history, replicas, now)
        found.append(decision.replicas)
    assert found == [2] * 10
    assert "0 records/s come in" in decision.words


def test_nothing_is_changed_or_measured_while_state_is_restored_or_a_version_proves_itself() -> None:
    app = Simulation(CATCH_UP, income=600, lag=60_000)
    decision = app.run(600, hold="a new version proves itself")
    assert (app.steps, decision.reason) == ([1], WAITING)
    assert decision.words == "a new version proves itself, so it stays at 1 replica"
    assert decision.record.speed is None
    app.run(60)
    assert app.replicas > 1


def test_no_more_than_there_is_work_for() -> None:
    app = Simulation(RECORDS, lag=100_000, speed=0, useful=3)
    decision = app.run(300)
    assert app.replicas == 3
    assert decision.reason == LIMITED
    assert "100 replicas would be right, but 3 have work at most" in decision.words
    app = Simulation(RECORDS, lag=100_000, speed=0)
    assert "maxReplicas is 8" in app.run(600).words


def test_unknown_lag_changes_nothing() -> None:
    app = Simulation(RECORDS, lag=7_500, speed=0, replicas=8)
    app.run(30)
    for _ in range(200):
        app.now += timedelta(seconds=LOOK_SECONDS)
        decision, app.history = decide(None, app.policy, app.history, app.replicas, app.now)
        assert (decision.replicas, decision.reason) == (8, UNKNOWN)
    app.consumed = app.produced
    assert app.run(DOWN_SECONDS - 2 * LOOK_SECONDS).replicas == 8  # readings before the gap do not count
    assert app.run(4 * LOOK_SECONDS).replicas == 5
    assert app.run(6 * DOWN_SECONDS).replicas == 1


def test_nothing_more_is_asked_for_while_replicas_are_on_their_way() -> None:
    history = History()
    for seconds in range(0, 60, 5):
        metrics = Metrics(100_000, 0, replicas=1, useful=100)
        decision, history = decide(metrics, RECORDS, history, 3, START + timedelta(seconds=seconds))
        assert (decision.replicas, decision.reason) == (3, WAITING)
        assert "1 of 3 replicas run so far" in decision.words


def test_only_an_app_with_nothing_to_do_has_no_replica() -> None:
    policy = replace(RECORDS, low=0, down_seconds=60)
    app = Simulation(policy, income=10)
    app.run(200)
    assert app.replicas == 1
    app.income = 0
    app.run(200)
    assert app.replicas == 0
    app.produced += 1
    app.run(60)
    assert app.replicas == 1


def test_recommended_is_not_done() -> None:
    app = Simulation(replace(RECORDS, recommend_only=True), lag=4_500, speed=0, replicas=3)
    decision = app.run(60)
    assert app.replicas == 3
    assert decision.recommended == 5
    assert decision.record.change is None
    assert "recommended: 5 replicas" in decision.words


def test_other_bounds_count_at_once() -> None:
    app = Simulation(replace(RECORDS, low=2, high=4), replicas=7)
    assert app.run(LOOK_SECONDS).replicas == 4
    app = Simulation(replace(RECORDS, low=2, high=4), replicas=1)
    assert app.run(LOOK_SECONDS).replicas == 2


# --- properties that hold for all ---------------------------------------------------------------------------

counts = st.integers(0, 50)
policies = st.builds(
    lambda low, more, records, within, down, only: Policy(low, max(1, low + more), records, within, down, only),
    st.integers(0, 5),
    st.integers(0, 20),
    st.none() | st.integers(1, 10_000),
    st.floats(1, 3600),
    st.floats(5, 600),
    st.booleans(),
)
looks = st.lists(
    st.tuples(
        st.floats(0.1, 100),
        st.none() | st.builds(Metrics, st.integers(0, 10**9), st.integers(0, 10**9), counts, st.integers(1, 50)),
    ),
    min_size=1,
    max_size=40,
)


@given(policies, looks, counts)
def test_within_bounds_and_never_on_missing_data(
    policy: Policy, looks: list[tuple[float, Metrics | None]], replicas: int
) -> None:
    now, history = START, History()
    for seconds, metrics in looks:
        now += timedelta(seconds=seconds)
        decision, history = decide(metrics, policy, history, replicas, now)
        assert policy.low <= decision.replicas <= policy.high
        assert decision.reason in REASONS
        assert decision.words
        inside = policy.low <= replicas <= policy.high
        if metrics is None:
            assert decision.reason == UNKNOWN
            assert decision.replicas == replicas or not inside
        elif decision.replicas > max(replicas, policy.low):
            assert decision.replicas <= metrics.useful
            assert decision.reason == UP
        if policy.recommend_only:
            assert decision.replicas == replicas or not inside
        replicas = decision.replicas


@given(policies, looks, counts)
def test_the_same_always_leads_to_the_same(
    policy: Policy, looks: list[tuple[float, Metrics | None]], replicas: int
) -> None:
    def run() -> list[Decision]:
        now, history, said = START, History(), []
        for seconds, metrics in looks:
            now += timedelta(seconds=seconds)
            decision, history = decide(metrics, policy, history, replicas, now)
            said.append(decision)
        return said

    assert run() == run()


@given(st.floats(10, 500), st.floats(0, 400), st.floats(0, 100_000), st.integers(1, 8))
def test_a_steady_input_leads_to_a_steady_number(speed: float, income: float, lag: float, replicas: int) -> None:
    """From any start, the number that it comes to catches up if any number would, and stays."""
    spare = speed * CATCH_UP.high * 0.9 - income
    assume(spare < 0 or lag < spare * 6 * DOWN_SECONDS)
    app = Simulation(CATCH_UP, speed=speed, income=income, lag=lag, replicas=replicas)
    app.run(12 * DOWN_SECONDS)
    settled = len(app.said)
    app.run(3 * DOWN_SECONDS)
    assert len({decision.replicas for decision in app.said[settled:]}) == 1
    if spare >= 0:
        assert app.produced - app.consumed <= income * 60 + 1


@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_more_lag_never_means_fewer_replicas(one: int, other: int) -> None:
    less, more = sorted((one, other))
    results = []
    for lag in (less, more):
        app = Simulation(RECORDS, lag=lag, speed=0)
        app.run(30)
        results.append(app.replicas)
    assert results == sorted(results)
