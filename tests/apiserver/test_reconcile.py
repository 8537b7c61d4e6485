# SPDX-License-Identifier: Apache-2.0
"""From any present state to the wanted one, on a real API server."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from lib.operator import CHILDREN, RUNNING, Apps, Crash, KubeError
from lib.wait import until
from streamapp_operator.cluster.lease import NotHolder
from streamapp_operator.crd.status import status_schema
from streamapp_operator.manifest.kafka_login import Secrets
from streamapp_operator.memory import Memory
from streamapp_operator.observe.lag import Lags
from streamapp_operator.observe.observation import Position
from streamapp_operator.reconcile import UNDER_WAY_SECONDS
from streamapp_operator.scaling.autoscaler import LONGEST_SETTLE_SECONDS

pytestmark = pytest.mark.cluster


def delete_app(apps: Apps) -> None:
    """Deletes the app and waits until the cluster has collected its objects."""
    uid = apps.get("StreamApp", "word-count")["metadata"]["uid"]
    apps.kube.delete("StreamApp", apps.namespace, "word-count", uid)
    until(
        lambda: not any(apps.kube.get(kind, apps.namespace, name) for kind, name in CHILDREN),
        60,
        "all objects are gone",
        every=0.2,
    )


def test_an_app_becomes_objects_and_then_nothing_is_written(apps: Apps) -> None:
    apps.create()
    apps.settle()
    assert set(apps.children()) == CHILDREN
    apps.await_driver()
    apps.settle()
    for _ in range(3):
        with apps.counting() as writes:
            apps.reconcile()
        assert writes == []


def test_what_is_about_to_be_done_is_in_status_before_it_is_done(apps: Apps) -> None:
    apps.create()
    with pytest.raises(Crash), apps.crashing_after(1):
        apps.reconcile()
    assert apps.children() == {}
    target = apps.status()["target"]
    assert target["generation"] == 1
    assert "make StatefulSet word-count-driver" in target["changes"]


def test_a_crash_after_any_write_makes_no_difference(apps: Apps) -> None:
    apps.create()
    with apps.counting() as writes:
        apps.reconcile()
    apps.settle()
    wanted = apps.essence()
    assert len(writes) > len(CHILDREN)
    for count in range(len(writes)):
        delete_app(apps)
        apps.create()
        with pytest.raises(Crash), apps.crashing_after(count):
            apps.reconcile()
        apps.settle()
        assert apps.essence() == wanted, f"after a crash at write {count}"


def test_a_field_that_is_no_longer_wanted_goes(apps: Apps) -> None:
    apps.create(executor={"podTemplate": {"spec": {"nodeSelector": {"disk": "fast"}}}})
    apps.settle()
    assert "disk: fast" in apps.get("ConfigMap", "word-count-config")["data"]["executor.yaml"]
    apps.change(executor=None, driver={"podTemplate": {"spec": {"nodeSelector": {"disk": "fast"}}}})
    apps.settle()
    assert apps.get("StatefulSet", "word-count-driver")["spec"]["template"]["spec"]["nodeSelector"] == {"disk": "fast"}
    apps.change(driver=None)
    apps.settle()
    assert "nodeSelector" not in apps.get("StatefulSet", "word-count-driver")["spec"]["template"]["spec"]


def test_another_plan_restarts_the_driver_once_and_another_number_of_replicas_does_not(apps: Apps) -> None:
    apps.create()
    apps.settle()
    first = apps.await_driver()["metadata"]["uid"]
    apps.change(replicas=3)
    apps.settle()
    assert apps.await_driver()["metadata"]["uid"] == first
    assert apps.get("PodDisruptionBudget", "word-count-executors")["spec"]["minAvailable"] == 2
    assert apps.status()["desiredReplicas"] == 3
    apps.change(epochInterval="1s")
    apps.settle()
    second = apps.await_driver(other_than=first)["metadata"]["uid"]
    apps.settle()
    assert apps.await_driver()["metadata"]["uid"] == second


def test_a_running_driver_is_told_another_number_of_replicas(apps: Apps, tmp_path: Path) -> None:
    apps.create()
    apps.settle()
    driver = apps.await_driver()["metadata"]["uid"]
    with apps.driver_says(RUNNING, tmp_path) as said:
        apps.settle()
        apps.change(replicas=3)
        apps.settle()
        assert said["replicas"]["wanted"] == 3
        assert "scale from 1 to 3 replicas" in apps.status()["target"]["changes"]
        assert apps.await_driver()["metadata"]["uid"] == driver
        with apps.counting() as writes:
            apps.reconcile()
        assert writes == []


def test_an_operator_that_has_lost_the_lease_tells_no_driver_what_to_do(apps: Apps, tmp_path: Path) -> None:
    apps.create()
    apps.settle()
    apps.await_driver()
    with apps.driver_says(RUNNING, tmp_path) as said:
        apps.settle()
        said["replicas"] = {"wanted": 5, "running": 1}
        with apps.losing_the_lease_after(1), pytest.raises(NotHolder):  # it may still say what it is about to do
            apps.reconcile()
        assert said["replicas"]["wanted"] == 5
        apps.settle()
        assert said["replicas"]["wanted"] == 1


def test_a_driver_that_does_not_answer_for_a_moment_is_what_it_was(apps: Apps, tmp_path: Path) -> None:
    apps.create()
    apps.settle()
    with apps.driver_says(RUNNING, tmp_path):
        apps.add_executor()
        apps.pass_time(20)
        driver = apps.await_driver()
        address, told = driver["status"]["podIP"], apps.events()
        apps.set_running(driver, "127.255.255.254")  # where no server listens
        with apps.counting() as writes:
            assert apps.reconcile() == UNDER_WAY_SECONDS
        assert writes == []
        apps.pass_time(20)
        assert apps.condition("Ready")["reason"] == "DriverSilent"
        assert "(since " in apps.condition("Ready")["message"]
        apps.set_running(driver, address)
        apps.settle()
        assert apps.condition("Ready")["reason"] == "Processing"
    assert sorted(apps.events()) == sorted([*told, "DriverSilent", "Recovered"])


def test_lag_is_at_most_ten_seconds_old_while_it_changes(apps: Apps, tmp_path: Path) -> None:
    apps.create()
    apps.settle()
    with apps.driver_says(RUNNING, tmp_path) as said:
        apps.add_executor()
        apps.settle()
        apps.now = apps.operators.clock.now()

        def lag_after(seconds: float, records: int) -> int:
            said["lag"] = {"text-lines/0": records}
            apps.now = (apps.now or apps.operators.clock.now()) + timedelta(seconds=seconds)
            again = apps.reconcile()
            assert again is not None
            assert again <= 10
            return int(apps.status()["lag"]["total"])

        assert lag_after(2, 100) == 7
        assert lag_after(8, 200) == 200
        for number in range(1000):  # the status of an app under load is written less often
            apps.memory.histories["others", f"app-{number}"] = ("", None)
        assert apps.memory.numbers_seconds > 30


def test_the_last_source_topic_goes_and_the_status_says_so(apps: Apps, tmp_path: Path) -> None:
    """An API server takes an empty object, in the place of one that has content, for no object."""
    apps.create()
    apps.settle()
    with apps.driver_says(RUNNING, tmp_path) as said:
        apps.settle()
        assert apps.status()["lag"] == {"total": 7, "topics": {"text-lines": 7}}
        said |= {"lag": {}, "totalLag": 0, "phase": "Restarting", "error": "topic 'text-lines' does not exist"}
        apps.pass_time(20)
        assert apps.status()["lag"] == {"total": 0}
        said |= {"lag": {"text-lines/0": 2}, "totalLag": 2}
        apps.pass_time(20)
        assert apps.status()["lag"] == {"total": 2, "topics": {"text-lines": 2}}


class KnownLag(Lags):
    """A lag that the test sets, as if Kafka had reported it."""

    def __init__(self) -> None:
        super().__init__()
        self.position: Position | None = Position(produced=0, consumed=0, partitions=8)

    def of(self, body: Mapping[str, Any], secrets: Secrets) -> tuple[Position | None, str]:
        return self.position, "Kafka is silent"


def test_lag_scales_an_app_and_missing_lag_does_not(apps: Apps, tmp_path: Path) -> None:
    lags = apps.memory.lags = KnownLag()
    apps.create(autoscaling={"maxReplicas": 4, "lag": {"recordsPerReplica": 100}, "stabilisation": "1 minute"})
    apps.settle()
    driver = apps.await_driver()["metadata"]["uid"]
    with apps.driver_says(RUNNING, tmp_path) as said:
        apps.add_executor(1)
        apps.settle()
        assert apps.status()["desiredReplicas"] == 1

        lags.position = Position(produced=350, consumed=0, partitions=8)
        apps.pass_time(20)
        assert apps.status()["desiredReplicas"] == 2
        apps.add_executor(2)
        apps.pass_time(LONGEST_SETTLE_SECONDS + 15)
        assert apps.status()["desiredReplicas"] == 4
        assert said["replicas"]["wanted"] == 4
        active = apps.condition("ScalingActive")
        assert (active["status"], active["reason"]) == ("True", "AsWanted")
        assert "350 records of lag, 100 for each replica" in active["message"]
        for number in (3, 4):
            apps.add_executor(number)

        lags.position = None
        apps.pass_time(300)
        assert apps.status()["desiredReplicas"] == 4
        active = apps.condition("ScalingActive")
        assert (active["status"], active["reason"]) == ("Unknown", "MetricsMissing")
        assert "Kafka is silent" in active["message"]

        lags.position = Position(produced=350, consumed=350, partitions=8)
        apps.pass_time(40)
        assert apps.status()["desiredReplicas"] == 4
        apps.memory = Memory(lags)  # an operator that starts anew only waits anew
        apps.pass_time(70)
        assert apps.status()["desiredReplicas"] == 3
        last = apps.status()["autoscaling"]["lastChange"]
        assert (last["from"], last["to"]) == (4, 3)
        apps.pass_time(140)
        assert apps.status()["desiredReplicas"] == 1
        assert said["replicas"]["wanted"] == 1
        assert apps.await_driver()["metadata"]["uid"] == driver
    assert apps.events().count("Scaling") == 5


def test_an_app_that_is_resumed_gets_the_replicas_that_it_had(apps: Apps, tmp_path: Path) -> None:
    lags = apps.memory.lags = KnownLag()
    apps.create(autoscaling={"maxReplicas": 4, "lag": {"recordsPerReplica": 100}})
    apps.settle()
    apps.await_driver()
    with apps.driver_says(RUNNING, tmp_path) as said:
        apps.add_executor(1)
        lags.position = Position(produced=350, consumed=0, partitions=8)
        apps.pass_time(20)
        assert said["replicas"]["wanted"] == 2
    apps.change(suspend=True)
    apps.settle()
    assert apps.status()["desiredReplicas"] == 0
    apps.memory = Memory(lags)
    apps.change(suspend=False)
    apps.settle()
    assert apps.status()["desiredReplicas"] == 2


def test_what_is_only_recommended_is_in_status(apps: Apps) -> None:
    lags = apps.memory.lags = KnownLag()
    lags.position = Position(produced=350, consumed=0, partitions=8)
    autoscaling = {"maxReplicas": 4, "lag": {"recordsPerReplica": 100}, "mode": "Recommend"}
    apps.create(autoscaling=autoscaling)
    apps.settle()
    apps.await_driver()
    apps.add_executor()
    apps.pass_time(60)
    assert apps.status()["desiredReplicas"] == 1
    assert apps.status()["recommendedReplicas"] == 2
    active = apps.condition("ScalingActive")
    assert (active["status"], active["reason"]) == ("False", "RecommendOnly")


def test_suspend_stops_the_driver_and_resume_starts_it(apps: Apps) -> None:
    apps.create()
    apps.settle()
    apps.await_driver()
    apps.change(suspend=True)
    apps.settle()
    until(
        lambda: apps.kube.get("Pod", apps.namespace, "word-count-driver-0") is None, 30, "the driver stops", every=0.1
    )
    apps.settle()
    assert apps.status()["phase"] == "Suspended"
    assert apps.condition("Paused")["reason"] == "Suspended"
    assert apps.status()["desiredReplicas"] == 0
    apps.change(suspend=False)
    apps.settle()
    apps.await_driver()


def test_a_bad_manifest_leaves_the_app_running_and_a_good_one_recovers(apps: Apps, tmp_path: Path) -> None:
    apps.create()
    apps.settle()
    wanted = apps.essence()
    with apps.driver_says(RUNNING, tmp_path):
        apps.add_executor()
        apps.settle()
        good = apps.get("StreamApp", "word-count")["spec"]["topology"]
        bad = [*good[:1], {**good[1], "flatMap": {"word": "splitt(value)"}}, *good[2:]]
        apps.change(topology=bad)
        apps.settle()
        valid = apps.condition("TopologyValid")
        assert (valid["status"], valid["reason"], valid["observedGeneration"]) == ("False", "Invalid", 2)
        assert "node 'words'" in valid["message"]
        assert "did you mean `split`?" in valid["message"]
        assert apps.essence() == wanted
        assert apps.condition("Ready")["reason"] == "UpdateRefused"
        apps.change(topology=good)
        apps.settle()
        assert apps.condition("Ready")["status"] == "True"
        assert apps.condition("TopologyValid")["status"] == "True"
    assert {"TopologyInvalid", "TopologyValid"} <= set(apps.events())


def test_an_app_that_was_never_good_is_invalid(apps: Apps) -> None:
    apps.create(driver={"resources": {"limits": {"memory": "64Mi"}}})
    apps.settle()
    assert apps.status()["phase"] == "Invalid"
    assert apps.children() == {}
    assert "memory of 64Mi is too little; at least 928Mi" in apps.condition("TopologyValid")["message"]


def test_somebody_elses_object_is_not_taken_over(apps: Apps) -> None:
    theirs = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "word-count-config", "namespace": apps.namespace},
        "data": {"mine": "1"},
    }
    apps.kube.create(theirs)
    apps.create()
    with pytest.raises(KubeError, match="does not belong to this app"):
        apps.reconcile()
    assert apps.get("ConfigMap", "word-count-config")["data"] == {"mine": "1"}
    degraded = apps.condition("Degraded")
    assert (degraded["status"], degraded["reason"]) == ("True", "Refused")
    with pytest.raises(KubeError):
        apps.reconcile()  # says what is left to do
    with pytest.raises(KubeError), apps.counting() as writes:
        apps.reconcile()
    assert writes == []
    assert apps.events().count("Refused") == 1
    found = apps.get("ConfigMap", "word-count-config")
    apps.kube.delete("ConfigMap", apps.namespace, "word-count-config", found["metadata"]["uid"])
    apps.settle()
    assert set(apps.children()) == CHILDREN
    assert apps.condition("Degraded")["status"] == "False"


def test_a_pod_template_that_kubernetes_refuses_is_told(apps: Apps) -> None:
    apps.create(driver={"podTemplate": {"spec": {"restartPolicy": "Perhaps"}}})
    with pytest.raises(KubeError, match="Perhaps"):
        apps.reconcile()
    assert "Perhaps" in apps.condition("Degraded")["message"]
    assert "Perhaps" in apps.status()["lastError"]["message"]
    apps.change(driver=None)
    apps.settle()
    assert set(apps.children()) == CHILDREN


def test_with_the_app_goes_everything(apps: Apps) -> None:
    apps.create()
    apps.settle()
    apps.await_driver()
    delete_app(apps)
    assert apps.reconcile() is None


def test_all_of_the_status_is_in_its_schema(apps: Apps, tmp_path: Path) -> None:
    """The API server silently drops fields that the schema does not have."""
    apps.create()
    apps.settle()
    with apps.driver_says(
        {
            **RUNNING,
            "error": "node 'lines': bad",
            "restore": {"s": {"restoring": 1, "done": 1, "total": 4, "etaSeconds": 2.0}},
        },
        tmp_path,
    ):
        apps.settle()
        # Fields of apps of other kinds.
        elsewhere = {"autoscaling", "recommendedReplicas", "plan", "healthyVersion", "failures", "run"}
        assert set(apps.status()) == set(status_schema()["properties"]) - elsewhere
