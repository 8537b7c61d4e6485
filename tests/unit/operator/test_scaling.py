# SPDX-License-Identifier: Apache-2.0
"""The most executors that an app which scales itself may have: as many as find a partition to work on."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import yaml

from lib.operator import WORD_COUNT
from lib.simulated import START
from streamapp_operator.driver.answer import read_answer
from streamapp_operator.manifest.app import App, read_app
from streamapp_operator.observe.observation import Position
from streamapp_operator.scaling.autoscaler import LIMITED, UNKNOWN, UP, WAITING, Decision
from streamapp_operator.scaling.measurement import Change, Record
from streamapp_operator.scaling.scaling import record_of, scaled, to_status
from streamapp_operator.settings import Settings

MAX = 1000
STATELESS = [
    {"name": "lines", "stream": {"topic": "text-lines", "value": "text"}},
    {"name": "out", "to": {"topic": "copies", "value": "text"}},
]


def app(**spec: Any) -> App:
    body = yaml.safe_load(WORD_COUNT)
    body["metadata"] |= {"namespace": "shop", "uid": "u", "generation": 1}
    more = {"autoscaling": {"maxReplicas": MAX, "lag": {"recordsPerReplica": 10}}, **spec}
    body["spec"] |= {field: value for field, value in more.items() if value is not None}
    return read_app(body)


def cpus(count: str) -> dict[str, Any]:
    return {"resources": {"requests": {"cpu": count}, "limits": {"memory": "2Gi"}}}


@pytest.mark.parametrize(
    ("spec", "partitions", "most"),
    [
        ({"topology": STATELESS, "executor": cpus("1")}, 12, 12),
        ({"topology": STATELESS, "executor": cpus("4")}, 12, 3),
        ({"topology": STATELESS, "executor": cpus("5")}, 12, 3),
        ({"topology": STATELESS, "executor": cpus("500m")}, 12, 12),
        ({"topology": STATELESS, "executor": cpus("1")}, 1, 1),
        ({"topology": STATELESS, "executor": cpus("1"), "maxParallelism": 64}, 3, 3),
        ({"executor": cpus("1")}, 4, 8),
        ({"executor": cpus("1"), "maxParallelism": 2}, 4, 4),
        ({"executor": cpus("2"), "maxParallelism": 64}, 4, 32),
        ({"executor": cpus("1"), "maxParallelism": 4096}, 4, MAX),
    ],
    ids=[
        "one for each partition",
        "several processors take several",
        "the last one has less to do",
        "half a processor takes one at a time",
        "one partition",
        "no state, no state partitions",
        "state has partitions of its own",
        "the source has more than the state",
        "state partitions and processors",
        "maxReplicas is the lower bound",
    ],
)
def test_no_more_replicas_than_find_a_partition(spec: dict[str, Any], partitions: int, most: int) -> None:
    """The limit holds however far behind the app is, and even if somebody has asked for more."""
    position = Position(produced=10**9, consumed=0, partitions=partitions)
    wanted = app(**spec)

    def decided(replicas: int) -> tuple[App, Decision]:
        """The first change within half a minute, or the message then."""
        history, found = None, None
        for second in range(0, 31, 5):
            now = START + timedelta(seconds=second)
            status = {"desiredReplicas": replicas}
            scaled_app, found, history = scaled(wanted, Settings(), status, position, "", replicas, history, now)
            if found is not None and found.replicas != replicas:
                break
        assert found is not None
        return scaled_app, found

    for replicas, reason in ((most - 1, UP), (most, LIMITED), (most + 7, LIMITED)):
        if replicas > 0:
            scaled_app, decision = decided(replicas)
            assert (scaled_app.plan.replicas, decision.replicas, decision.reason) == (most, most, reason)


def test_what_is_not_known_leaves_the_number() -> None:
    found, decision, _ = scaled(app(), Settings(), {"desiredReplicas": 5}, None, "it is away", 5, None, START)
    assert decision is not None
    assert (found.plan.replicas, decision.reason) == (5, UNKNOWN)
    assert decision.words.endswith(": it is away")


@pytest.mark.parametrize("spec", [{"autoscaling": None}, {"suspend": True}])
def test_one_that_does_not_scale_itself_stays_as_it_is(spec: dict[str, Any]) -> None:
    wanted = app(**spec)
    position = Position(produced=10**9, consumed=0, partitions=4)
    assert scaled(wanted, Settings(), {}, position, "", 1, None, START) == (wanted, None, None)


def test_what_is_on_record_outlives_operator_and_suspension() -> None:
    """The speed, the number that was wanted, and that a change has to settle, are kept."""
    change = Change(START, 2, 4, "so much lag", 200.0)
    record = Record(wanted=4, speed=50.0, change=change, most=2, most_until=START + timedelta(hours=1))
    status = to_status(record)
    assert record_of(status) == record
    position = Position(produced=10**9, consumed=0, partitions=8)
    remembered = {"desiredReplicas": 0, "autoscaling": status}
    now = START + timedelta(seconds=5)
    found, decision, history = scaled(app(), Settings(), remembered, position, "", 0, None, now)
    assert decision is not None
    assert history is not None
    assert (decision.replicas, decision.reason) == (2, LIMITED)  # more than two were no faster
    later = {**remembered, "autoscaling": {**status, "mostReplicas": None}}
    found, decision, _ = scaled(app(), Settings(), later, position, "", 4, None, now)
    assert decision is not None
    assert (found.plan.replicas, decision.reason) == (4, WAITING)
    assert "the change from 2 to 4 replicas settles" in decision.words


@pytest.mark.parametrize(
    "status",
    [
        {},
        {"wantedReplicas": -1, "recordsPerSecond": "fast", "lastChange": 7},
        {"wantedReplicas": True, "recordsPerSecond": 0, "lastChange": {"time": "then", "from": 1, "to": 2}},
        {"mostReplicas": 3, "somethingNewer": {}},
    ],
)
def test_a_record_that_cannot_be_read_is_none(status: dict[str, Any]) -> None:
    assert record_of(status) == Record()


@pytest.mark.parametrize(
    ("live", "on_trial", "words"),
    [
        ({"phase": "Restoring"}, False, "state is being restored"),
        (
            {"phase": "Running", "restore": {"s": {"restoring": 1, "total": 100, "done": 5}}},
            False,
            "state is being restored",
        ),
        (None, True, "a new version proves itself"),
    ],
)
def test_nothing_changes_while_state_is_restored_or_a_version_proves_itself(
    live: dict[str, Any] | None, on_trial: bool, words: str
) -> None:
    position, history = Position(produced=10**9, consumed=0, partitions=8), None
    for second in range(0, 60, 5):
        now = START + timedelta(seconds=second)
        found, decision, history = scaled(
            app(),
            Settings(),
            {"desiredReplicas": 2},
            position,
            "",
            2,
            history,
            now,
            live=read_answer(live),
            on_trial=on_trial,
        )
        assert decision is not None
        assert (found.plan.replicas, decision.reason) == (2, WAITING)
        assert decision.words.startswith(words)


def test_what_another_operator_has_decided_since_counts() -> None:
    """An operator that led before and leads again remembers numbers that were right then."""
    position = Position(produced=10**9, consumed=10**9, partitions=8)
    _, _, history = scaled(app(), Settings(), {"desiredReplicas": 1}, position, "", 1, None, START)
    status = {"desiredReplicas": 6, "autoscaling": to_status(Record(wanted=6))}
    found, _, _ = scaled(app(), Settings(), status, position, "", 6, history, START + timedelta(seconds=5))
    assert found.plan.replicas == 6
