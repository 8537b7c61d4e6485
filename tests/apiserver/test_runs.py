# SPDX-License-Identifier: Apache-2.0
"""Apps that stop at the end of their input, on a real API server with the real controllers of Jobs and CronJobs."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from lib.nodes import DRIVER, Nodes, run_on
from lib.operator import Apps, Object
from lib.wait import until
from streamapp_operator.manifest.app import RESTART_ANNOTATION
from streamapp_operator.render.executors import EXECUTOR
from streamapp_operator.render.meta import selector_text

pytestmark = pytest.mark.cluster

BOUNDED = {"run": "untilCaughtUp"}
WORD = {"caughtUp": True, "records": 12, "lag": 0}


def jobs(apps: Apps) -> list[Object]:
    return apps.kube.list("Job", apps.namespace, selector_text("word-count"))


def drivers(apps: Apps) -> list[Object]:
    pods = apps.kube.list("Pod", apps.namespace, selector_text("word-count", "driver"))
    return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]


def await_driver(apps: Apps, other_than: str = "") -> Object:
    """Waits for the pod that a Job's controller makes."""

    def there() -> Object | None:
        found = [pod for pod in drivers(apps) if pod["metadata"]["uid"] != other_than]
        return found[-1] if found else None

    found = until(there, 30, "the driver's pod is made", every=0.1)
    assert found is not None
    return found


def end(apps: Apps, pod: Object, code: int, message: str) -> None:
    """The kubelet's part: the container has ended."""
    name = pod["spec"]["containers"][0]["name"]
    ended = {"exitCode": code, "message": message, "finishedAt": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")}
    container = {"name": name, "ready": False, "restartCount": 0, "image": "x", "imageID": "x"}
    apps.set_pod_status(
        pod,
        phase="Failed" if code else "Succeeded",
        conditions=[{"type": "Ready", "status": "False"}],
        containerStatuses=[{**container, "started": False, "state": {"terminated": ended}}],
    )


def await_phase(apps: Apps, phase: str) -> None:
    def settled() -> bool:
        apps.settle()
        return bool(apps.status()["phase"] == phase)

    until(settled, 30, f"the phase is {phase}", every=0.2)


def test_a_run_is_a_job_and_its_end_is_told_with_what_it_has_done(apps: Apps) -> None:
    apps.create(**BOUNDED)
    apps.settle()
    assert {kind for kind, _ in apps.children()} >= {"Job", "ConfigMap", "Service"}
    assert "StatefulSet" not in {kind for kind, _ in apps.children()}
    pod = await_driver(apps)
    apps.set_running(pod, "127.0.0.1", ready=False)
    apps.settle()
    assert apps.status()["phase"] == "Starting"
    assert apps.status()["run"]["result"] == "Running"
    end(apps, pod, 0, json.dumps(WORD))
    await_phase(apps, "Completed")
    run = apps.status()["run"]
    assert (run["result"], run["records"]) == ("Completed", 12)
    assert run["startedAt"] <= run["endedAt"]
    assert apps.status()["lag"] == {"total": 0}
    assert apps.status()["desiredReplicas"] == 0
    assert (apps.condition("Ready")["reason"], apps.condition("Degraded")["status"]) == ("Completed", "False")
    assert "Completed" in apps.events()
    with apps.counting() as writes:
        apps.reconcile()
    assert writes == []


def test_a_changed_spec_runs_again_another_scale_and_a_resume_do_not(apps: Apps) -> None:
    apps.create(**BOUNDED)
    apps.settle()
    end(apps, await_driver(apps), 0, json.dumps(WORD))
    await_phase(apps, "Completed")
    (first,) = jobs(apps)
    for change in ({"replicas": 3}, {"suspend": True}, {"suspend": False}):
        apps.change(**change)
        apps.settle()
        assert [job["metadata"]["uid"] for job in jobs(apps)] == [first["metadata"]["uid"]]
    assert apps.status()["phase"] == "Completed"
    apps.change(epochInterval="1s")
    apps.settle()
    (second,) = jobs(apps)
    assert second["metadata"]["name"] != first["metadata"]["name"]
    end(apps, await_driver(apps), 0, json.dumps({**WORD, "records": 5}))
    await_phase(apps, "Completed")
    assert apps.status()["run"]["records"] == 5


def test_who_deletes_the_job_runs_the_app_again(apps: Apps) -> None:
    apps.create(**BOUNDED)
    apps.settle()
    pod = await_driver(apps)
    end(apps, pod, 0, json.dumps(WORD))
    await_phase(apps, "Completed")
    (job,) = jobs(apps)
    apps.kube.delete("Job", apps.namespace, job["metadata"]["name"], job["metadata"]["uid"])
    until(lambda: not jobs(apps), 30, "the Job is gone", every=0.1)
    apps.settle()
    await_driver(apps, other_than=pod["metadata"]["uid"])


def test_a_restart_that_is_asked_for_is_another_run(apps: Apps) -> None:
    apps.create(**BOUNDED)
    apps.settle()
    pod = await_driver(apps)
    end(apps, pod, 0, json.dumps(WORD))
    await_phase(apps, "Completed")
    asked = {"metadata": {"annotations": {RESTART_ANNOTATION: "now"}}}
    apps.kube.merge("StreamApp", apps.namespace, "word-count", asked)
    apps.settle()
    await_driver(apps, other_than=pod["metadata"]["uid"])


def test_a_suspended_run_stops_and_is_begun_again_where_it_was(apps: Apps) -> None:
    apps.create(**BOUNDED)
    apps.settle()
    pod = await_driver(apps)
    apps.set_running(pod, "127.0.0.1", ready=False)
    apps.change(suspend=True)
    until(lambda: settled(apps) and not drivers(apps), 30, "the driver stops", every=0.1)
    await_phase(apps, "Suspended")
    assert jobs(apps) == []
    apps.change(suspend=False)
    apps.settle()
    await_driver(apps, other_than=pod["metadata"]["uid"])


def settled(apps: Apps) -> bool:
    apps.settle()
    return True


def test_a_run_that_another_try_cannot_mend_fails_at_once_and_says_why(apps: Apps) -> None:
    apps.create(**BOUNDED)
    apps.settle()
    end(apps, await_driver(apps), 1, "node 'lines': topic 'text-lines' does not exist")
    until(lambda: settled(apps) and apps.status()["run"]["result"] == "Failed", 30, "the run has failed", every=0.2)
    assert apps.status()["phase"] == "Failed"
    assert len(drivers(apps)) == 1
    degraded = apps.condition("Degraded")
    assert (degraded["status"], degraded["reason"]) == ("True", "DriverFailed")
    assert "'text-lines' does not exist" in degraded["message"]
    assert "'text-lines' does not exist" in apps.status()["lastError"]["message"]
    apps.change(epochInterval="1s")
    apps.settle()
    await_driver(apps)
    await_phase(apps, "Pending")


@pytest.mark.parametrize(("code", "counted"), [(143, 0), (3, 1)], ids=["told to stop", "failed"])
def test_a_driver_that_ended_before_the_end_is_followed_by_another(apps: Apps, code: int, counted: int) -> None:
    """A driver that was asked to stop, as by a node's drain, does not count among the tries of a run."""
    apps.create(**BOUNDED)
    apps.settle()
    pod = await_driver(apps)
    end(apps, pod, code, "")
    await_driver(apps, other_than=pod["metadata"]["uid"])
    (job,) = jobs(apps)
    assert job["status"].get("failed", 0) == counted


def test_the_next_driver_waits_for_the_one_before(apps: Apps, nodes: Nodes) -> None:
    """However the driver is started: two at once would fence each other."""
    apps.create()
    apps.settle()
    before = run_on(apps, nodes.make())
    apps.change(**BOUNDED)
    apps.settle()
    assert jobs(apps) == []
    assert "StatefulSet" not in {kind for kind, _ in apps.children()}
    apps.kube.delete("Pod", apps.namespace, DRIVER, before["metadata"]["uid"], grace=0)
    until(lambda: settled(apps) and jobs(apps), 30, "the Job is made", every=0.2)


def test_a_schedule_is_a_cron_job_and_its_runs_are_the_apps(apps: Apps) -> None:
    """The real controller makes the first run: the next minute is never far."""
    apps.create(**BOUNDED, schedule="* * * * *")
    apps.settle()
    assert ("CronJob", "word-count-run") in apps.children()
    assert apps.status()["phase"] == "Scheduled"
    assert "Scheduled" in apps.events()
    assert datetime.fromisoformat(apps.status()["run"]["nextAt"]) - datetime.now(UTC) <= timedelta(minutes=1)
    pod = until(lambda: next(iter(drivers(apps)), None), 90, "the schedule's first run", every=0.5)
    assert pod is not None
    apps.settle()
    assert apps.status()["phase"] == "Pending"
    assert apps.status()["run"]["result"] == "Running"
    end(apps, pod, 0, json.dumps(WORD))
    await_phase(apps, "Scheduled")
    run = apps.status()["run"]
    assert (run["result"], run["records"]) == ("Completed", 12)
    assert run["nextAt"] > run["endedAt"]
    assert "12 records; the next run begins at" in apps.condition("Ready")["message"]

    apps.change(suspend=True)
    await_phase(apps, "Suspended")
    assert apps.get("CronJob", "word-count-run")["spec"]["suspend"] is True
    assert "nextAt" not in apps.status()["run"]

    apps.change(schedule=None, suspend=False)
    apps.settle()
    assert ("CronJob", "word-count-run") not in apps.children()
    until(lambda: settled(apps) and jobs(apps), 30, "one run of its own", every=0.2)
    apps.change(run="continuous")
    apps.settle()
    assert "Job" not in {kind for kind, _ in apps.children()}
    apps.await_driver()


@pytest.mark.parametrize(
    ("schedule", "wrong"),
    [("0 25 * * *", "its hour is `25`"), ("0 8 */2 * 1", "restrict one of the two fields")],
)
def test_times_that_cannot_be_are_told(apps: Apps, schedule: str, wrong: str) -> None:
    apps.create(**BOUNDED, schedule=schedule)
    apps.settle()
    assert apps.status()["phase"] == "Invalid"
    assert wrong in apps.condition("TopologyValid")["message"]


def test_with_the_app_go_its_runs_and_their_pods(apps: Apps) -> None:
    apps.create(**BOUNDED)
    apps.settle()
    await_driver(apps)
    uid = apps.get("StreamApp", "word-count")["metadata"]["uid"]
    apps.kube.delete("StreamApp", apps.namespace, "word-count", uid)
    until(lambda: not jobs(apps) and not drivers(apps), 60, "all is gone", every=0.2)


def test_executors_of_a_run_that_has_ended_hard_are_cleared_away(apps: Apps) -> None:
    apps.create(**BOUNDED)
    apps.settle()
    pod = await_driver(apps)
    executor = apps.add_executor()
    end(apps, pod, 0, json.dumps(WORD))
    end(apps, executor, 137, "")
    await_phase(apps, "Completed")
    apps.pass_time(60)
    assert apps.kube.list("Pod", apps.namespace, selector_text("word-count", EXECUTOR)) == []
