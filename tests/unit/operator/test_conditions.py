# SPDX-License-Identifier: Apache-2.0
"""The conditions of an app that runs for ever, state by state."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import yaml

from lib.operator import WORD_COUNT
from streamapp_operator.driver.answer import read_answer
from streamapp_operator.driver.pods import ABSENT, FAILED, PENDING, RUNNING, STOPPING, DriverState
from streamapp_operator.manifest.app import read_app
from streamapp_operator.status.conditions import conditions
from streamapp_operator.status.facts import Facts
from streamapp_operator.status.status import status_of

NOW = datetime(2024, 3, 13, 10, 17, tzinfo=UTC)
STATELESS = [
    {"name": "lines", "stream": {"topic": "text-lines", "value": "text"}},
    {"name": "out", "to": {"topic": "copies", "value": "text"}},
]


def facts(driver: DriverState, live: dict[str, Any] | None = None, **more: Any) -> Facts:
    body = yaml.safe_load(WORD_COUNT)
    body["metadata"] |= {"namespace": "shop", "uid": "app-uid", "generation": 1}
    body["spec"] |= more.pop("spec", {})
    seen = Facts(
        generation=1,
        app=read_app(body),
        problems=(),
        suspended=body["spec"].get("suspend", False),
        paused=False,
        changes=(),
        driver=driver,
        live=read_answer(live),
        silence="it does not answer",
        executors=1,
        remaining=1,
    )
    return replace(seen, **more)


def phase(word: str, **more: Any) -> dict[str, Any]:
    return {"phase": word, **more}


READY = DriverState(RUNNING, ready=True)
TROUBLE = "node 'lines': topic text-lines, partition 3, offset 14: the value cannot be read as integer"
STEPS = {"word-counts": {"restoring": 2, "done": 50, "total": 200, "etaSeconds": 3.2}}


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        (
            facts(DriverState(ABSENT), executors=0),
            "False DriverPending, True Starting, False AsExpected, Unknown DriverNotRunning",
        ),
        (
            facts(DriverState(PENDING), executors=0),
            "False DriverPending, True Starting, False AsExpected, Unknown DriverNotRunning",
        ),
        (
            facts(DriverState(STOPPING)),
            "False DriverStopping, True Starting, False AsExpected, Unknown DriverNotRunning",
        ),
        (
            facts(DriverState(FAILED)),
            "False DriverFailed, False Settled, True DriverFailed, Unknown DriverNotRunning",
        ),
        (
            facts(DriverState(RUNNING), executors=0),
            "False DriverStarting, True Starting, False AsExpected, Unknown DriverNotRunning",
        ),
        (
            facts(READY),
            "Unknown DriverSilent, False Settled, True DriverSilent, Unknown DriverNotRunning",
        ),
        (
            facts(DriverState(RUNNING), before="Running"),
            "Unknown DriverSilent, False Settled, True DriverSilent, Unknown DriverNotRunning",
        ),
        (
            facts(READY, phase("Starting")),
            "False DriverStarting, True Starting, False AsExpected, Unknown DriverNotRunning",
        ),
        (
            facts(READY, phase("Restoring", restore=STEPS)),
            "False Restoring, True Restoring, False AsExpected, False Restoring",
        ),
        (
            facts(READY, phase("Restarting", error=TROUBLE)),
            "False QueryRestarting, False Settled, True QueryRestarting, True Restored",
        ),
        (
            facts(READY, phase("Failed", error=TROUBLE)),
            "False DriverFailed, False Settled, True DriverFailed, Unknown DriverNotRunning",
        ),
        (
            facts(READY, phase("Running")),
            "True Processing, False Settled, False AsExpected, True Restored",
        ),
        (
            facts(DriverState(RUNNING), phase("Running")),
            "False DriverStarting, False Settled, False AsExpected, True Restored",
        ),
        (
            facts(READY, phase("Running"), spec={"topology": STATELESS}),
            "True Processing, False Settled, False AsExpected, True NoState",
        ),
        (
            facts(READY, phase("Running"), executors=0),
            "False NoExecutors, True Scaling, False AsExpected, True Restored",
        ),
        (
            facts(READY, phase("Running", lag={"text-lines/0": 7}), spec={"replicas": 0}, executors=0),
            "False ScaledToZero, False Settled, False AsExpected, True Restored",
        ),
        (
            facts(READY, phase("Running", lag={"text-lines/0": 0}), spec={"replicas": 0}, executors=0),
            "True Processing, False Settled, False AsExpected, True Restored",
        ),
        (
            facts(READY, phase("Running"), spec={"replicas": 3}),
            "True Processing, True Scaling, False AsExpected, True Restored",
        ),
        (
            facts(READY, phase("Running", error="the group's offsets cannot be written")),
            "True Processing, False Settled, True KafkaTrouble, True Restored",
        ),
        (
            facts(READY, phase("Running"), spec={"suspend": True}),
            "False Suspended, True Stopping, False AsExpected, True Restored",
        ),
        (
            facts(DriverState(ABSENT), spec={"suspend": True}, executors=0),
            "False Suspended, True Stopping, False AsExpected, Unknown DriverNotRunning",
        ),
        (
            facts(DriverState(ABSENT), spec={"suspend": True}, executors=0, remaining=0),
            "False Suspended, False Settled, False AsExpected, Unknown DriverNotRunning",
        ),
    ],
)
def test_ready_progressing_degraded_restored(seen: Facts, said: str) -> None:
    found = {c["type"]: f"{c['status']} {c['reason']}" for c in conditions(seen, (), NOW)}
    kinds = ("Ready", "Progressing", "Degraded", "StateRestored")
    assert ", ".join(found[kind] for kind in kinds) == said


def test_what_cannot_be_run_does_not_scale_and_says_why_not() -> None:
    """The condition does not guess whether a manifest that cannot be read has autoscaling in it."""
    seen = facts(DriverState(ABSENT), app=None, problems=("node 'a': no",), executors=0, remaining=0)
    found = {c["type"]: (c["status"], c["reason"]) for c in conditions(seen, (), NOW)}
    assert found["ScalingActive"] == found["Ready"] == ("False", "TopologyInvalid")
    well = {c["type"]: c["reason"] for c in conditions(facts(READY, phase("Running")), (), NOW)}
    assert well["ScalingActive"] == "AutoscalingOff"


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (
            {"replicas": 0},
            "1,234 records wait, and spec.replicas is 0: kubectl scale streamapp word-count --replicas=1",
        ),
        (
            {"autoscaling": {"minReplicas": 0, "maxReplicas": 2, "lag": {"recordsPerReplica": 100}}},
            "1,234 records wait; autoscaling took the last executor away, and asks for one at its next look",
        ),
    ],
)
def test_records_that_wait_for_no_executor(spec: dict[str, Any], said: str) -> None:
    seen = facts(READY, phase("Running", lag={"text-lines/0": 1230, "text-lines/1": 4}), spec=spec, executors=0)
    assert seen.app is not None
    seen = replace(seen, app=replace(seen.app, plan=replace(seen.app.plan, replicas=0)))
    ready = next(c for c in conditions(seen, (), NOW) if c["type"] == "Ready")
    assert (ready["status"], ready["reason"], ready["message"]) == ("False", "ScaledToZero", said)


def test_executors_have_a_while_to_come() -> None:
    seen = facts(READY, phase("Running"), spec={"replicas": 3})
    before = conditions(seen, (), NOW)
    for seconds, said in ((30, "AsExpected"), (31, "ExecutorsMissing")):
        found = conditions(seen, before, NOW + timedelta(seconds=seconds))
        assert next(c["reason"] for c in found if c["type"] == "Degraded") == said


def test_a_restore_is_told_with_how_far_it_is() -> None:
    seen = facts(READY, phase("Restoring", restore=STEPS))
    status = status_of(seen, "word-count", {}, {}, NOW)
    assert status["restore"] == {"progress": "25% (4s)", "done": 50, "total": 200, "etaSeconds": 4}
    told = {c["type"]: c["message"] for c in status["conditions"]}
    assert told["StateRestored"] == told["Ready"] == "stores are restored: 25% (4s)"


def test_the_last_error_has_its_node_and_record_and_stays_until_the_app_is_well() -> None:
    status = status_of(facts(READY, phase("Restarting", error=TROUBLE)), "word-count", {}, {}, NOW)
    told = status["lastError"].pop("told")
    assert list(told) == ["driver"]
    error = {
        "message": TROUBLE,
        "time": "2024-03-13T10:17:00Z",
        "node": "lines",
        "record": "topic text-lines, partition 3, offset 14",
    }
    assert status["lastError"] == error
    for later, seen, message in (
        (timedelta(minutes=10), facts(READY, phase("Running")), TROUBLE),
        (timedelta(days=1), facts(READY, phase("Running"), unusable_secret="no user"), TROUBLE),
        (timedelta(days=2), facts(READY, phase("Restoring")), TROUBLE),
        (timedelta(days=3), facts(READY, phase("Running")), None),
    ):
        status = status_of(seen, "word-count", {}, status, NOW + later)
        assert status.get("lastError", {}).get("message") == message


def test_the_last_error_is_the_last() -> None:
    """A driver that goes on reporting Monday's error does not hide Tuesday's, nor does Monday's come back after it."""
    status: dict[str, Any] = {}

    def last(driver: DriverState, live: dict[str, Any] | None, day: int, **more: Any) -> tuple[str, str]:
        now = datetime(2024, 3, day, tzinfo=UTC)
        nonlocal status
        seen = facts(driver, live, outdated=True, **more)  # so that it is not well
        status = status_of(seen, "word-count", {}, status, now)
        return status["lastError"]["message"], status["lastError"]["time"][8:10]

    def lost(count: int, **more: Any) -> dict[str, Any]:
        return phase("Running", replicas={"lost": count, "lastLoss": "out of memory"}, **more)

    crashed = replace(READY, error="it crashed", ended=1, uid="pod")
    assert last(READY, lost(1), 11) == ("out of memory", "11")
    assert last(READY, lost(1, error="Kafka is away"), 12) == ("Kafka is away", "12")
    assert last(READY, lost(1), 13) == ("Kafka is away", "12")
    assert last(READY, lost(1), 14, problems=("a mistake",)) == ("a mistake", "14")
    assert last(READY, lost(1, error="Kafka is away"), 15, problems=("a mistake",)) == ("Kafka is away", "15")
    assert last(READY, None, 16) == ("Kafka is away", "15")
    assert last(READY, lost(1), 17) == ("Kafka is away", "15")
    assert last(READY, lost(2), 18) == ("out of memory", "18")
    assert last(crashed, None, 19) == ("it crashed", "19")
    assert last(crashed, phase("Running", error="Kafka is away"), 20) == ("Kafka is away", "20")
    assert last(crashed, phase("Running"), 21) == ("Kafka is away", "20")
    assert last(replace(crashed, ended=2), None, 22) == ("it crashed", "22")


def test_epoch_and_watermark_are_shown() -> None:
    parts = {"counts": {"epoch": 12, "watermark": "2024-03-13T10:16:30Z"}, "copies": {"epoch": 7, "watermark": None}}
    status = status_of(facts(READY, phase("Running", subTopologies=parts)), "word-count", {}, {}, NOW)
    assert status["subTopologies"] == [
        {"name": "copies", "epoch": 7},
        {"name": "counts", "epoch": 12, "watermark": "2024-03-13T10:16:30Z"},
    ]
