# SPDX-License-Identifier: Apache-2.0
"""How many replicas an app gets: plain cases, and what holds for all."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from hypothesis import assume, given
from hypothesis import strategies as st

from streamapp_operator.autoscale import (
    DOWN,
    DOWN_SECONDS,
    LIMITED,
    REASONS,
    STEADY,
    UNKNOWN,
    UP,
    WAITING,
    Decision,
    History,
    Metrics,
    Policy,
    decide,
)

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
    """At the beginning."""
    now: datetime = START
    history: History = field(default_factory=History)
    produced: float = 0.0
    consumed: float = 0.0
    said: list[Decision] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.produced += self.lag

    def run(self, seconds: float) -> Decision:
        """Returns the last decision."""
        end = self.now + timedelta(seconds=seconds)
        while self.now < end:
            metrics = Metrics(int(self.produced), int(self.consumed), self.replicas, self.useful)
            decision, self.history = decide(metrics, self.policy, self.history, self.replicas, self.now)
            self.said.append(decision)
            self.replicas = decision.replicas
            self.now += timedelta(seconds=LOOK_SECONDS)
            self.produced += self.income * LOOK_SECONDS
            self.consumed = min(self.produced, self.consumed + self.speed * self.replicas * LOOK_SECONDS)
        return self.said[-1]

    @property
    def most(self) -> int:
        return max(decision.replicas for decision in self.said)


def test_a_backlog_gets_as_many_replicas_as_catch_up_in_time() -> None:
    app = Simulation(CATCH_UP, income=100, lag=30_000)
    app.run(30)
    assert app.replicas == 6  # (100 + 30 000 / 60) / 100
    assert any(decision.reason == UP and "to catch up with within 60 s" in decision.words for decision in app.said)


def test_without_a_known_speed_nothing_grows() -> None:
    app = Simulation(CATCH_UP, lag=30_000, speed=0)
    assert app.run(120).reason == STEADY
    assert app.replicas == 1
    assert "when all have been busy" in app.said[-1].words


def test_after_the_burst_replicas_return_one_stabilisation_later() -> None:
    app = Simulation(CATCH_UP, income=50, lag=30_000)
    app.run(90)
    assert app.replicas > 1
    high = app.replicas
    app.run(60)
    assert app.produced == app.consumed
    assert app.replicas == high
    assert app.said[-1].reason == WAITING
    app.run(2 * DOWN_SECONDS)
    assert app.replicas == 1
    reasons = [decision.reason for decision in app.said]
    last_up = len(reasons) - 1 - reasons[::-1].index(UP)
    assert (reasons.index(DOWN) - last_up) * LOOK_SECONDS >= DOWN_SECONDS


def test_a_known_speed_keeps_what_the_input_needs() -> None:
    app = Simulation(CATCH_UP, income=250, lag=30_000)
    app.run(3 * DOWN_SECONDS)
    assert app.produced == app.consumed
    assert app.replicas == 3
    later = len(app.said)
    app.run(6 * DOWN_SECONDS)
    assert {decision.replicas for decision in app.said[later:]} == {3}


def test_records_of_lag_for_each_replica() -> None:
    app = Simulation(RECORDS, lag=4_500, speed=0)
    app.run(30)
    assert app.replicas == 5
    assert "4500 records of lag, 1000 for each replica" in app.said[-1].words


def test_the_larger_of_both_needs_wins() -> None:
    both = replace(CATCH_UP, records_per_replica=10_000)
    app = Simulation(both, income=100, lag=30_000)
    app.run(30)
    assert app.replicas == 6
    app = Simulation(replace(both, catch_up_seconds=3600), income=100, lag=30_000)
    app.run(15)
    assert app.replicas == 3


def test_one_late_answer_is_no_reason() -> None:
    app = Simulation(RECORDS, speed=1000)
    app.run(20)
    app.produced += 5_000
    app.run(LOOK_SECONDS)
    assert app.said[-1].reason == WAITING
    app.run(60)
    assert app.most == 1


def test_no_more_than_there_is_work_for() -> None:
    app = Simulation(RECORDS, lag=100_000, speed=0, useful=3)
    decision = app.run(60)
    assert app.replicas == 3
    assert decision.reason == LIMITED
    assert "100 replicas would be right, but 3 have work at most" in decision.words
    app = Simulation(RECORDS, lag=100_000, speed=0)
    assert "maxReplicas is 8" in app.run(60).words


def test_unknown_lag_changes_nothing() -> None:
    app = Simulation(RECORDS, lag=7_500, speed=0)
    app.run(30)
    assert app.replicas == 8
    for _ in range(200):
        app.now += timedelta(seconds=LOOK_SECONDS)
        decision, app.history = decide(None, app.policy, app.history, app.replicas, app.now)
        assert (decision.replicas, decision.reason) == (8, UNKNOWN)
    app.consumed = app.produced
    assert app.run(DOWN_SECONDS - 2 * LOOK_SECONDS).replicas == 8  # what was seen before the gap does not count
    assert app.run(4 * LOOK_SECONDS).replicas == 1


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
    app.run(30)
    assert app.replicas == 1


def test_recommended_is_not_done() -> None:
    app = Simulation(replace(RECORDS, recommend_only=True), lag=4_500, speed=0)
    decision = app.run(60)
    assert app.replicas == 1
    assert decision.recommended == 5
    assert "recommended: 5 replicas" in decision.words


def test_other_bounds_count_at_once() -> None:
    app = Simulation(replace(RECORDS, low=2, high=4), replicas=7)
    assert app.run(LOOK_SECONDS).replicas == 4
    app = Simulation(replace(RECORDS, low=2, high=4), replicas=1)
    assert app.run(LOOK_SECONDS).replicas == 2


# --- what holds for all -------------------------------------------------------------------------------------

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
    """Whatever it starts from, what it comes to catches up where any number would, and stays."""
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
