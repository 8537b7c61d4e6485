# SPDX-License-Identifier: Apache-2.0
"""A newer operator, or anybody with rights to do so, has written the status of an app: the operator goes on."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest

from lib.manifests import JUNK, places
from lib.misfits import misfits
from lib.simulated import Simulation, works
from streamapp_operator.commands.status import is_ready, lines_of
from streamapp_operator.crd.reading import status_in
from streamapp_operator.crd.status import status_schema
from streamapp_operator.metrics import AppMetrics
from streamapp_operator.observe.observation import Position

SPEC: dict[str, Any] = {
    "kafka": {"bootstrapServers": "kafka:9092"},
    "topology": [
        {"name": "lines", "stream": {"topic": "t", "value": "text"}},
        {"name": "out", "from": "lines", "to": {"topic": "out", "value": "text"}},
    ],
    "autoscaling": {"minReplicas": 1, "maxReplicas": 8, "lag": {"catchUpWithin": "10s"}},
}
TIME = "2023-12-31T23:50:00Z"
MORE: dict[str, Any] = {
    "failures": {"of": "v", "counts": {"DataError": 1}, "message": "m", "time": TIME, "pod": "pod-1", "seen": 1},
    "autoscaling": {
        "wantedReplicas": 2,
        "recordsPerSecond": 20.5,
        "lastChange": {"from": 1, "to": 2, "time": TIME, "why": "lag", "capacity": 20},
        "mostReplicas": 4,
        "mostUntil": TIME,
    },
    "run": {"job": "app-run", "result": "Completed", "startedAt": TIME, "endedAt": TIME, "records": 7, "nextAt": TIME},
    "lag": {"total": 7, "topics": {"t": 7}},
    "restore": {"progress": "5 of 10", "done": 5, "total": 10, "etaSeconds": 2},
    "lastError": {"message": "m", "node": "out", "record": "r", "time": TIME, "told": {"pod": "abc"}},
    "recommendedReplicas": 2,
}
"""Parts that the status of a simulated app does not have by itself, or with little in them."""
ODD: tuple[Any, ...] = (
    *JUNK,
    -(2**70),
    2**70,
    1e-320,
    "9999-12-31T23:59:59Z",
    "0001-01-01T00:00:00+14:00",
    "2024-01-01T00:00:00",
    "True",
    [1],
    {"x": 1},
    "\ud800",
)


def an_app() -> Simulation:
    app = Simulation(works, position=Position(10_000, 500, 4, frozenset({"t"})))
    app.apply(seconds=30, **SPEC)
    return app


def odd_status(whole: dict[str, Any], chooser: random.Random) -> Any:
    """A status with other values in one to three places, or without them, or with fields that the operator does not
    know."""
    status: dict[str, Any] = {"status": copy.deepcopy(whole) | copy.deepcopy(MORE)}
    for _ in range(chooser.choice((1, 1, 3))):
        if not (found := list(places(status))):
            break
        holder, key = chooser.choice(found)
        deed = chooser.randrange(3)
        if deed == 0:
            del holder[key]
        elif deed == 1 or isinstance(holder, list):
            holder[key] = copy.deepcopy(chooser.choice(ODD))
        else:
            holder["unheard"] = copy.deepcopy(chooser.choice(ODD))
    return status.get("status")


@pytest.mark.parametrize("hundred", range(5))
def test_any_status_is_followed_by_one_that_the_definition_takes(hundred: int) -> None:
    before = an_app()
    for seed in range(100 * hundred, 100 * (hundred + 1)):
        app, chooser = copy.deepcopy(before), random.Random(seed)
        odd = odd_status(dict(app.status), chooser)
        fails = chooser.random() < 0.3
        if fails:
            app.behaviour = lambda version, seconds: {"failure": "DataError: bad"}
        app.body["status"] = odd
        try:
            AppMetrics().see(("default", "app"), app.body)
            list(lines_of(app.body))
            is_ready(app.body)
            app.run(30)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {odd}") from error
        assert list(misfits(app.status, status_schema(), "status")) == [], f"seed {seed}: {odd}"


def test_a_status_of_today_is_read_whole() -> None:
    status = dict(an_app().status) | MORE
    assert status_in({"status": status}) == status


@pytest.mark.parametrize("odd", [None, 5, "Running", [], {"phase": None, "conditions": {"type": "Ready"}}])
def test_what_is_no_status_says_nothing(odd: Any) -> None:
    assert status_in({"status": odd}) in ({}, {"conditions": []})
    assert status_in({}) == {}


def test_a_failure_without_a_time_is_forgotten_by_an_app_that_is_well() -> None:
    app = an_app()
    app.body["status"]["failures"] = {"of": app.version, "counts": {"DataError": 3}}
    app.run(10)
    assert "counts" not in app.status.get("failures", {})
