# SPDX-License-Identifier: Apache-2.0
"""A change of an app's pods is in its status as soon as the API server reports it, if the operator watches."""

from __future__ import annotations

from pathlib import Path

import pytest

from lib.operator import RUNNING, Apps
from lib.operator_process import Operators
from lib.traces import LOST_RECORDS
from lib.wait import until
from streamapp.cli.driver import _leave_word
from streamapp.spark.failure import diagnose
from streamapp_operator.reconcile import RESYNC_SECONDS

pytestmark = pytest.mark.cluster


def test_that_no_executor_is_left_is_in_status_at_once(apps: Apps, operators: Operators, tmp_path: Path) -> None:
    """The operator learns it from the API server's events about the pod, long before it would look at the app anyway.
    An Event object is made only if there is no other one instead, see the unit tests."""

    def is_ready(status: str, reason: str) -> bool:
        found = apps.condition("Ready")
        return (found["status"], found["reason"]) == (status, reason)

    operators.start(apps.namespace)
    apps.create()
    apps.await_driver()
    with apps.driver_says(RUNNING, tmp_path):
        executor = apps.add_executor()
        until(lambda: is_ready("True", "Processing"), 30, "the app is ready", every=0.1)
        apps.kube.delete("Pod", apps.namespace, executor["metadata"]["name"], executor["metadata"]["uid"])
        until(lambda: is_ready("False", "NoExecutors"), RESYNC_SECONDS / 2, "the status says so", every=0.1)
    assert "ExecutorsMissing" not in apps.events()


def test_that_input_was_gone_before_it_was_read_is_in_status(apps: Apps, operators: Operators, tmp_path: Path) -> None:
    """R10, from Spark's message to the status that people see. tests/kafka/test_source_loss.py proves that Spark
    reports it so."""
    operators.start(apps.namespace)
    apps.create()
    driver = apps.await_driver()
    _leave_word(tmp_path / "termination-log", diagnose("counts", LOST_RECORDS, "word-count").error)
    apps.set_failed(driver, (tmp_path / "termination-log").read_text())

    def is_told() -> bool:
        degraded = apps.condition("Degraded")
        return (degraded["status"], degraded["reason"]) == ("True", "DriverFailed")

    until(is_told, 60, "the app is Degraded", every=0.1)
    for said in (apps.condition("Degraded"), apps.status()["lastError"]):
        assert "topic text-lines, partition 1, among offsets 3 to 5" in said["message"]
        assert "set onSourceLoss: Earliest or Latest" in said["message"]
    assert apps.status()["phase"] == "Failed"
    assert "Failed" in apps.events()
