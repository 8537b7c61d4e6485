# SPDX-License-Identifier: Apache-2.0
"""How many executors an app that scales itself may have at most: no more than find a partition to work on."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import yaml

from lib.operator import WORD_COUNT
from lib.simulated import START
from streamapp_operator.app import App, read_app
from streamapp_operator.autoscale import LIMITED, UNKNOWN, UP, Decision, History
from streamapp_operator.observation import Position
from streamapp_operator.scaling import scaled
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
    """However far behind it is, and even if somebody has asked for more."""
    position = Position(produced=10**9, consumed=0, partitions=partitions)
    wanted = app(**spec)

    def decided(replicas: int) -> tuple[App, Decision]:
        """After half a minute with that number."""
        history, found = History(), None
        for second in range(0, 31, 5):
            now = START + timedelta(seconds=second)
            status = {"desiredReplicas": replicas}
            scaled_app, found, history = scaled(wanted, Settings(), status, position, "", replicas, history, now)
        assert found is not None
        return scaled_app, found

    for replicas, reason in ((most - 1, UP), (most, LIMITED), (most + 7, LIMITED)):
        if replicas > 0:
            scaled_app, decision = decided(replicas)
            assert (scaled_app.plan.replicas, decision.replicas, decision.reason) == (most, most, reason)


def test_what_is_not_known_leaves_the_number() -> None:
    found, decision, _ = scaled(app(), Settings(), {"desiredReplicas": 5}, None, "it is away", 5, History(), START)
    assert decision is not None
    assert (found.plan.replicas, decision.reason) == (5, UNKNOWN)
    assert decision.words.endswith(": it is away")


@pytest.mark.parametrize("spec", [{"autoscaling": None}, {"suspend": True}])
def test_one_that_does_not_scale_itself_stays_as_it_is(spec: dict[str, Any]) -> None:
    wanted = app(**spec)
    position = Position(produced=10**9, consumed=0, partitions=4)
    assert scaled(wanted, Settings(), {}, position, "", 1, History(), START) == (wanted, None, History())
