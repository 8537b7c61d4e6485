# SPDX-License-Identifier: Apache-2.0
"""The operator as a process of its own, with no more rights than it is installed with."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from lib.operator import RUNNING, Apps
from lib.operator_process import Operators
from lib.traces import LOST_RECORDS
from lib.wait import until
from streamapp.cli.driver import _leave_word
from streamapp.spark.failure import diagnose
from streamapp_operator.kube import Kube
from streamapp_operator.reconcile import RESYNC_SECONDS

pytestmark = pytest.mark.cluster


def await_budget(apps: Apps, least: int, seconds: float = 30) -> None:
    def there() -> bool:
        found = apps.kube.get("PodDisruptionBudget", apps.namespace, "word-count-executors")
        return found is not None and found["spec"]["minAvailable"] == least

    until(there, seconds, f"a budget of {least}", every=0.2)


def test_it_makes_and_heals_what_somebody_applies(apps: Apps, operators: Operators) -> None:
    operator = operators.start(apps.namespace)
    apps.create(replicas=2)
    await_budget(apps, 1)
    until(lambda: apps.get("StreamApp", "word-count").get("status", {}).get("observedGeneration") == 1, 10, "a status")
    apps.change(replicas=5)
    await_budget(apps, 4)
    before = apps.get("PodDisruptionBudget", "word-count-executors")["metadata"]["uid"]
    apps.kube.delete("PodDisruptionBudget", apps.namespace, "word-count-executors", before)
    await_budget(apps, 4)
    assert "Applying" in apps.events()
    operator.stop()
    assert apps.lease_holder() == ""


def test_of_two_one_acts_and_the_other_takes_over_from_one_that_is_frozen_or_killed(
    apps: Apps, operators: Operators
) -> None:
    """R16: within 30 seconds."""
    first = operators.start(apps.namespace).process
    identity = until(lambda: apps.lease_holder(), 30, "the first operator has the Lease", every=0.2)
    second = operators.start(apps.namespace)
    apps.create(replicas=2)
    await_budget(apps, 1)
    assert apps.lease_holder() == identity
    first.send_signal(signal.SIGSTOP)
    apps.change(replicas=3)
    await_budget(apps, 2)
    second_identity = apps.lease_holder()
    assert second_identity != identity
    first.send_signal(signal.SIGCONT)
    apps.change(replicas=4)
    await_budget(apps, 3)
    assert apps.lease_holder() == second_identity
    second.kill()
    apps.change(replicas=5)
    await_budget(apps, 4)
    assert apps.lease_holder() == identity


def test_that_no_executor_is_left_is_in_status_at_once(apps: Apps, operators: Operators, tmp_path: Path) -> None:
    """It is told by what the API server says of the pod, long before the app would be looked at anyway. An event comes
    only when none has come instead, see the unit tests."""

    def is_ready(status: str, reason: str) -> bool:
        found = apps.condition("Ready")
        return (found["status"], found["reason"]) == (status, reason)

    operators.start(apps.namespace)
    apps.create()
    await_budget(apps, 0)
    apps.await_driver()
    with apps.driver_says(RUNNING, tmp_path):
        executor = apps.add_executor()
        until(lambda: is_ready("True", "Processing"), 30, "the app is ready", every=0.1)
        apps.kube.delete("Pod", apps.namespace, executor["metadata"]["name"], executor["metadata"]["uid"])
        until(lambda: is_ready("False", "NoExecutors"), RESYNC_SECONDS / 2, "the status says so", every=0.1)
    assert "ExecutorsMissing" not in apps.events()


def test_that_input_was_gone_before_it_was_read_is_in_status(
    apps: Apps, operators: Operators, tmp_path: Path
) -> None:
    """R10, from what Spark says to what people see. That Spark says it so, tests/kafka/test_source_loss.py proves."""
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


def test_with_the_rights_of_the_whole_cluster_it_looks_after_every_namespace(
    kube: Kube, new_namespace: Callable[[], str], operators: Operators
) -> None:
    home, *others = (Apps(kube, new_namespace()) for _ in range(3))
    operator = operators.start_cluster_wide(home.namespace)
    for apps in others:
        apps.create(replicas=2)
    for apps in others:
        await_budget(apps, 1)
        until(lambda apps=apps: "Applying" in apps.events(), 10, "an event", every=0.2)  # type: ignore[misc]
        assert apps.status()["observedGeneration"] == 1
    new = Apps(kube, new_namespace())  # that was not there when the operator began
    new.create(replicas=3)
    await_budget(new, 2)
    assert home.lease_holder() != ""
    assert {apps.lease_holder() for apps in (*others, new)} == {""}
    operator.stop()
    assert "forbidden" not in operator.said.lower(), operator.said
