# SPDX-License-Identifier: Apache-2.0
"""Runs to the end of the input as a cluster sees them: Jobs, times, and conditions."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
import yaml

from lib.operator import WORD_COUNT
from streamapp.cron import parse_cron
from streamapp.errors import ManifestError
from streamapp_operator.driver.pods import driver_state
from streamapp_operator.manifest.app import App, read_app
from streamapp_operator.observe.runs import Run, last_run, may_begin, obsolete, set_right
from streamapp_operator.render import Credentials, render
from streamapp_operator.render.meta import Object
from streamapp_operator.render.runs import kubernetes_line, run_of_app
from streamapp_operator.settings import Settings
from streamapp_operator.status.conditions import conditions
from streamapp_operator.status.facts import Facts
from streamapp_operator.status.status import status_of
from streamapp_operator.versions.changes import DRIVER, changes_between

NOW = datetime(2024, 3, 13, 10, 17, tzinfo=UTC)
CREDENTIALS = Credentials("token", "secret")


def app(**spec: Any) -> App:
    body = yaml.safe_load(WORD_COUNT)
    body["metadata"] |= {"namespace": "shop", "uid": "app-uid", "generation": 1}
    body["spec"] |= {"run": "untilCaughtUp", **spec}
    return read_app(body)


def job(name: str, owner: str = "app-uid", made: str = "2024-03-13T10:00:00Z", **condition: str) -> Object:
    conditions = [{"type": kind, "status": "True", **json.loads(rest)} for kind, rest in condition.items()]
    return {
        "kind": "Job",
        "metadata": {"name": name, "uid": name, "creationTimestamp": made, "ownerReferences": [{"uid": owner}]},
        "status": {"startTime": "2024-03-13T10:00:01Z", "conditions": conditions},
    }


def pod(job: str, phase: str, message: str = "", code: int = 0) -> Object:
    ended = {"terminated": {"exitCode": code, "message": message}}
    state = ended if phase in ("Succeeded", "Failed") else {"running": {}}
    return {
        "metadata": {
            "name": f"{job}-x",
            "creationTimestamp": "2024-03-13T10:00:02Z",
            "labels": {"batch.kubernetes.io/job-name": job},
        },
        "status": {"phase": phase, "containerStatuses": [{"name": "driver", "started": True, "state": state}]},
    }


COMPLETE = '{"lastTransitionTime": "2024-03-13T10:05:00Z"}'
FAILED = '{"lastTransitionTime": "2024-03-13T10:05:00Z", "message": "BackoffLimitExceeded"}'
WORD = '{"caughtUp": true, "records": 12, "lag": 3}'


def kinds(app: App) -> set[str]:
    return {item["kind"] for item in render(app, Settings(), CREDENTIALS)} & {"StatefulSet", "Job", "CronJob"}


def test_what_makes_the_driver() -> None:
    assert kinds(app()) == {"Job"}
    assert kinds(app(suspend=True)) == set()
    assert kinds(app(schedule="0 8 * * *")) == {"CronJob"}
    assert kinds(app(schedule="0 8 * * *", suspend=True)) == {"CronJob"}
    assert kinds(app(run="continuous")) == {"StatefulSet"}


def test_a_cron_job_is_never_two_at_once_and_in_utc() -> None:
    (made,) = [o for o in render(app(schedule="0 8 * * *"), Settings(), CREDENTIALS) if o["kind"] == "CronJob"]
    spec = made["spec"]
    assert (spec["concurrencyPolicy"], spec["timeZone"], spec["suspend"]) == ("Forbid", "UTC", False)
    assert len(made["metadata"]["name"]) <= 52
    template = spec["jobTemplate"]["spec"]["template"]["spec"]
    assert template["restartPolicy"] == "Never"


@pytest.mark.parametrize("name", ["a", "a" * 40, "very.long.name." * 10 + "x"])
def test_names_are_short_enough_for_what_kubernetes_appends(name: str) -> None:
    body = yaml.safe_load(WORD_COUNT)
    body["metadata"] = {"name": name}
    body["spec"] |= {"run": "untilCaughtUp", "applicationId": "words"}
    assert len(run_of_app(read_app(body))) <= 63 - len("-abcde")


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("* * * * *", "* * * * *"),
        ("*/20 0-23 * * *", "0,20,40 * * * *"),
        ("0 8 * * 7", "0 8 * * 0"),
        ("0 8 * * 5-7", "0 8 * * 0,5,6"),
        ("0 8 */10 * *", "0 8 1,11,21,31 * *"),
        ("0 8 1 * 1", "0 8 1 * 1"),
        ("0 8 1 * */1", "0 8 1 * *"),
        ("0 8 * */6 */3", "0 8 * 1,7 0,3,6"),
    ],
)
def test_times_as_kubernetes_is_told_them(line: str, told: str) -> None:
    assert kubernetes_line(line) == told
    # If Kubernetes' reading and ours agree on a line, it means the same to us as the original.
    assert parse_cron(told).latest(NOW) == parse_cron(line).latest(NOW)


def test_times_that_kubernetes_would_read_otherwise_are_refused() -> None:
    with pytest.raises(ManifestError, match=r"`schedule`: .* restrict one of the two fields"):
        kubernetes_line("0 8 */2 * 1")


def test_another_version_is_another_run_and_another_scale_is_not() -> None:
    name = run_of_app(app())
    assert name.startswith("word-count-run-")
    same = ({"replicas": 3}, {"suspend": True}, {"deletionPolicy": "Delete"}, {"autoscaling": {"maxReplicas": 2}})
    assert {run_of_app(app(**spec)) for spec in same} == {name}
    elsewhere = {"kafka": {"bootstrapServers": "k:1"}}
    others = ({"image": "other"}, {"maxParallelism": 4}, {"onBadRecord": "Drop"}, elsewhere)
    names = {run_of_app(app(**spec)) for spec in others} | {run_of_app(replace(app(), restart_at="now"))}
    assert len({name, *names}) == len(others) + 2


def test_the_last_run() -> None:
    assert last_run([], []) is None
    jobs = [job("old", made="2024-03-12T10:00:00Z", Failed=FAILED), job("new", Complete=COMPLETE)]
    found = last_run(jobs, [pod("old", "Failed", "boom", 3), pod("new", "Succeeded", WORD)])
    assert found == Run("new", "Completed", "2024-03-13T10:00:01Z", "2024-03-13T10:05:00Z", 12, 3)
    assert last_run(jobs[1:], []) == Run("new", "Completed", "2024-03-13T10:00:01Z", "2024-03-13T10:05:00Z")
    failed = last_run(jobs[:1], [pod("old", "Failed", "boom", 3)])
    assert failed is not None
    assert (failed.result, failed.error) == ("Failed", "the driver ended with code 3 (no reason is given): boom")
    gone = last_run(jobs[:1], [])
    assert gone is not None
    assert gone.error == "BackoffLimitExceeded"
    assert last_run([job("new")], []) == Run("new", "Running", "2024-03-13T10:00:01Z")


def test_jobs_that_must_go() -> None:
    mine, other, scheduled = job("mine"), job("other"), job("scheduled", owner="cron-uid")
    done = job("done", owner="cron-uid", Complete=COMPLETE)

    def gone(wanted: str | None, suspended: bool = False) -> list[str]:
        jobs = [mine, other, scheduled, done]
        return [item["metadata"]["name"] for item, _ in obsolete(jobs, "app-uid", wanted, suspended)]

    assert gone("mine") == ["other"]
    assert gone(None) == ["mine", "other"]
    assert gone("mine", suspended=True) == ["mine", "other", "scheduled"]
    mine["metadata"]["deletionTimestamp"] = "2024-03-13T10:00:00Z"
    assert gone(None) == ["other"]


def test_a_run_begins_when_no_other_driver_is_left() -> None:
    assert may_begin([], "new", [])
    assert may_begin([job("old")], "new", [pod("old", "Succeeded")])
    assert not may_begin([job("old")], "new", [pod("old", "Running")])
    assert not may_begin([job("new")], "new", [])


def test_only_a_run_that_is_under_way_is_set_right_and_only_in_what_can_be_changed() -> None:
    (wanted,) = [item for item in render(app(), Settings(), CREDENTIALS) if item["kind"] == "Job"]
    older = {**wanted["spec"], "suspend": True, "template": "of an earlier operator"}
    found = {**job("mine"), "spec": older}
    assert set_right(wanted, found)["spec"] == {**older, "suspend": False}
    assert set_right(wanted, found)["metadata"] == wanted["metadata"]
    over = {**job("mine", Complete=COMPLETE), "spec": older}
    ending = {**found, "metadata": {**found["metadata"], "deletionTimestamp": "2024-03-13T10:00:00Z"}}
    for other in (over, ending):
        assert set_right(wanted, other) == other


def facts(run: Run | None, pod: Object | None = None, **more: Any) -> Facts:
    return Facts(
        generation=1,
        app=more.pop("app", app()),
        problems=(),
        suspended=more.pop("suspended", False),
        paused=False,
        changes=(),
        driver=driver_state(pod),
        live=None,
        silence="",
        executors=0,
        remaining=more.pop("remaining", 0),
        run=run,
        **more,
    )


DONE = Run("j", "Completed", "2024-03-13T10:00:01Z", "2024-03-13T10:05:00Z", 12, 3)
BROKEN = Run("j", "Failed", "2024-03-13T10:00:01Z", "2024-03-13T10:05:00Z", error="node 'lines': bad")


@pytest.mark.parametrize(
    ("seen", "phase", "ready"),
    [
        (facts(None), "Pending", "DriverPending"),
        (facts(Run("j", "Running")), "Pending", "DriverPending"),
        (facts(Run("j", "Running"), pod("j", "Succeeded", WORD)), "Pending", "DriverStopping"),
        (facts(DONE, pod("j", "Succeeded", WORD)), "Completed", "Completed"),
        (facts(DONE), "Completed", "Completed"),
        (facts(DONE, next_run=NOW), "Scheduled", "Scheduled"),
        (facts(None, next_run=NOW), "Scheduled", "Scheduled"),
        (facts(BROKEN, pod("j", "Failed", "boom", 1)), "Failed", "DriverFailed"),
        (facts(BROKEN, next_run=NOW), "Failed", "DriverFailed"),
        (facts(DONE, suspended=True), "Suspended", "Suspended"),
        (facts(BROKEN, pod("j", "Failed", "boom", 1), suspended=True), "Suspended", "Suspended"),
        (facts(DONE, suspended=True, remaining=1), "Suspending", "Suspended"),
        (facts(DONE, app=None), "Invalid", "TopologyInvalid"),
        (facts(None, pod("j", "Running"), deleting=True), "Deleting", "Deleting"),
    ],
)
def test_phase_and_reason(seen: Facts, phase: str, ready: str) -> None:
    assert seen.phase == phase
    found = {c["type"]: c for c in conditions(seen, (), NOW)}
    assert (found["Ready"]["status"], found["Ready"]["reason"]) == ("False", ready)
    at_rest = phase in ("Completed", "Scheduled", "Failed")
    if at_rest:
        assert seen.wanted_executors == 0
        assert found["Progressing"]["reason"] == "Settled"
    assert found["Degraded"]["status"] == str(phase == "Failed")


def test_what_is_said_of_a_run_stays_when_its_pod_is_gone() -> None:
    first = status_of(facts(DONE), "word-count", {}, {}, NOW)
    assert first["run"] == {
        "job": "j",
        "result": "Completed",
        "startedAt": "2024-03-13T10:00:01Z",
        "endedAt": "2024-03-13T10:05:00Z",
        "records": 12,
    }
    assert first["lag"] == {"total": 3}
    later = status_of(facts(Run("j", "Completed", DONE.started, DONE.ended)), "word-count", {}, first, NOW)
    assert later["run"] == first["run"]
    assert later["lag"] == first["lag"]
    other = status_of(facts(Run("k", "Completed", DONE.started, DONE.ended)), "word-count", {}, first, NOW)
    assert "records" not in other["run"]


def test_the_next_run_is_told() -> None:
    found = status_of(facts(DONE, next_run=NOW), "word-count", {}, {}, NOW)
    assert found["run"]["nextAt"] == "2024-03-13T10:17:00Z"
    ready = next(c for c in found["conditions"] if c["type"] == "Ready")
    assert ready["message"] == (
        "caught up at 2024-03-13T10:05:00Z: 12 records; the next run begins at 2024-03-13T10:17:00Z"
    )


@pytest.mark.parametrize(
    ("before", "after", "restarts"),
    [
        ({}, {"replicas": 3}, False),
        ({}, {"epochInterval": "1s"}, True),
        ({}, {"run": "continuous"}, True),
        ({}, {"schedule": "0 8 * * *"}, True),
        ({"schedule": "0 8 * * *"}, {"schedule": "0 9 * * *"}, False),
        ({"schedule": "0 8 * * *"}, {"schedule": "0 8 * * *", "epochInterval": "1s"}, False),
        ({"suspend": True}, {"epochInterval": "1s"}, False),
    ],
)
def test_what_a_change_restarts(before: dict[str, Any], after: dict[str, Any], restarts: bool) -> None:
    assert (changes_between(app(**before), app(**after), Settings()).restarts == DRIVER) is restarts
