# SPDX-License-Identifier: Apache-2.0
"""While reconciliation is paused, the operator does nothing, and the status shows the actual state and the work that
waits; afterwards the operator does that work."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from lib.operator import CHILDREN, RUNNING, Apps
from streamapp_operator.decide.decision import PAUSE_ANNOTATION
from streamapp_operator.manifest.kafka_login import Secrets
from streamapp_operator.observe.lag import Lags
from streamapp_operator.observe.observation import Position

pytestmark = pytest.mark.cluster

AT_REST = {**RUNNING, "lag": {"text-lines/0": 0, "text-lines/1": 0}, "totalLag": 0}
AUTOSCALING = {"maxReplicas": 4, "lag": {"recordsPerReplica": 100}, "stabilisation": "20s"}


class MuchLag(Lags):
    def of(self, body: Mapping[str, Any], secrets: Secrets) -> tuple[Position | None, str]:
        return Position(produced=350, consumed=0, partitions=8), ""


def pause(apps: Apps, on: bool = True) -> None:
    change = {"metadata": {"annotations": {PAUSE_ANNOTATION: "true" if on else None}}}
    apps.kube.merge("StreamApp", apps.namespace, "word-count", change)


def uid(apps: Apps, kind: str) -> str | None:
    found = apps.kube.get(kind, apps.namespace, "word-count-driver")
    return None if found is None else found["metadata"]["uid"]


def reasons(apps: Apps, *kinds: str) -> tuple[str, ...]:
    return tuple(apps.condition(kind)["reason"] for kind in kinds)


def test_what_is_deleted_or_changed_waits(apps: Apps, tmp_path: Path) -> None:
    apps.create()
    apps.settle()
    driver = apps.await_driver()["metadata"]["uid"]
    with apps.driver_says(AT_REST, tmp_path) as said:
        apps.add_executor()
        apps.settle()
        pause(apps)
        apps.settle()
        service = uid(apps, "Service")
        assert service is not None
        apps.kube.delete("Service", apps.namespace, "word-count-driver", service)
        before, version = apps.essence(), apps.status()["version"]
        apps.change(epochInterval="7s", replicas=3)
        apps.pass_time(120)
        assert apps.essence() == before
        assert said["replicas"]["wanted"] == 1
        assert apps.await_driver()["metadata"]["uid"] == driver
        status = apps.status()
        assert (status["phase"], status["desiredReplicas"], status["version"]) == ("Running", 1, version)
        assert reasons(apps, "Paused", "Degraded", "Ready") == ("ReconciliationPaused", "AsExpected", "UpdatePaused")
        assert status["plan"]["outcome"] == "Paused"
        assert "reconciliation is paused" in status["plan"]["why"]
        assert {change["field"] for change in status["plan"]["changes"]} == {"epochInterval", "replicas"}

        pause(apps, False)
        apps.settle()
        status = apps.status()
        assert (status["desiredReplicas"], status["plan"]["outcome"]) == (3, "Applied")
        assert "why" not in status["plan"]
        assert status["version"] != version
        assert uid(apps, "Service") not in (None, service)
        assert apps.await_driver(other_than=driver)["metadata"]["uid"] != driver


def test_suspending_waits(apps: Apps) -> None:
    apps.create()
    apps.settle()
    apps.await_driver()
    pause(apps)
    apps.change(suspend=True)
    apps.settle()
    assert apps.get("StatefulSet", "word-count-driver")["spec"]["replicas"] == 1
    assert (apps.status()["phase"], *reasons(apps, "Paused")) == ("Pending", "ReconciliationPaused")
    pause(apps, False)
    apps.settle()
    assert apps.get("StatefulSet", "word-count-driver")["spec"]["replicas"] == 0
    assert apps.condition("Paused")["reason"] == "Suspended"


def test_scaling_waits(apps: Apps, tmp_path: Path) -> None:
    apps.memory.lags = MuchLag()
    apps.create(autoscaling=AUTOSCALING)
    apps.settle()
    with apps.driver_says(AT_REST, tmp_path) as said:
        apps.add_executor()
        pause(apps)
        apps.pass_time(120)
        assert (apps.status()["desiredReplicas"], said["replicas"]["wanted"]) == (1, 1)
        assert reasons(apps, "ScalingActive", "Degraded") == ("ReconciliationPaused", "AsExpected")
        assert not {"Scaling", "ExecutorsMissing", "MetricsKnown"} & set(apps.events())
        pause(apps, False)
        apps.pass_time(20)
        assert (apps.status()["desiredReplicas"], said["replicas"]["wanted"]) == (2, 2)
        assert "Scaling" in apps.events()


def test_an_app_that_is_paused_from_the_beginning_is_not_made(apps: Apps) -> None:
    apps.create()
    pause(apps)
    apps.settle()
    assert apps.children() == {}
    assert (apps.status()["phase"], *reasons(apps, "Paused")) == ("Pending", "ReconciliationPaused")
    pause(apps, False)
    apps.settle()
    assert set(apps.children()) == CHILDREN
