# SPDX-License-Identifier: Apache-2.0
"""Runs to the end of the input: the result of the last one, and whether there must be another. Pure.

The Job of a run is its record: it stays after its end, and while it is there, its version of the manifest is not run
again. When it is deleted, by hand or by a changed manifest, the app runs again, from where it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from streamapp.cron import parse_cron
from streamapp.plain import read_json
from streamapp_operator.driver.pods import driver_state, has_ended, newest
from streamapp_operator.manifest.app import App
from streamapp_operator.render.meta import Object, is_owned_by

_CHANGEABLE = ("suspend", "parallelism", "backoffLimit")
"""Fields that we set in a Job, and that Kubernetes lets anybody change once it is made."""
RUNNING, COMPLETED, FAILED = "Running", "Completed", "Failed"
JOB_LABEL = "batch.kubernetes.io/job-name"


@dataclass(frozen=True)
class Run:
    """One run. Times are as Kubernetes writes them."""

    job: str
    result: str
    """Running, Completed or Failed."""
    started: str | None = None
    ended: str | None = None
    records: int | None = None
    """Records of its sources that it has processed; None when its driver's last words are gone."""
    lag: int | None = None
    """Records that had come in behind it by its end."""
    error: str = ""


def last_run(jobs: Iterable[Object], drivers: Iterable[Object]) -> Run | None:
    """The run of the youngest of the Jobs; None when there is none.

    Args:
        jobs: of the app.
        drivers: pods of drivers, of whatever run.
    """
    job = newest(jobs)
    if job is None:
        return None
    name, status = job["metadata"]["name"], job.get("status", {})
    pod = newest(pod for pod in drivers if pod["metadata"].get("labels", {}).get(JOB_LABEL) == name)
    report = _report_of(pod)
    if complete := _condition(job, "Complete"):
        ended = status.get("completionTime") or complete.get("lastTransitionTime")
        return Run(name, COMPLETED, status.get("startTime"), ended, report.get("records"), report.get("lag"))
    if failed := _condition(job, "Failed"):
        error = driver_state(pod).error or failed.get("message") or "the run has failed"
        return Run(name, FAILED, status.get("startTime"), failed.get("lastTransitionTime"), error=error)
    return Run(name, RUNNING, status.get("startTime"))


def obsolete(jobs: Iterable[Object], uid: str, wanted: str | None, suspended: bool) -> Iterator[tuple[Object, str]]:
    """Jobs that must go, each with the reason.

    Args:
        jobs: of the app.
        uid: of the app. A Job that its CronJob has made is not its own, and goes with the CronJob.
        wanted: name of the Job of this version of the manifest; None where the app has none of its own.
        suspended: whether nothing may run.
    """
    for job in jobs:
        name = job["metadata"]["name"]
        if "deletionTimestamp" in job["metadata"]:
            continue
        if is_owned_by(job, uid) and name != wanted:
            yield job, f"delete Job {name}, the run of another version"
        elif suspended and not is_over(job):
            yield job, f"delete Job {name}: a suspended app does not run"


def may_begin(jobs: Iterable[Object], wanted: str, drivers: Iterable[Object]) -> bool:
    """Whether the Job is to be made now: it is not there, and no driver of an earlier run or version is left."""
    return all(job["metadata"]["name"] != wanted for job in jobs) and all(has_ended(pod) for pod in drivers)


def set_right(wanted: Object, found: Object) -> Object:
    """The Job of a run as it is to be, after somebody has changed it. A field that cannot be changed stays as it was
    made, by an earlier operator perhaps; and a run that is over, or is about to go, stays as it is."""
    if is_over(found) or "deletionTimestamp" in found["metadata"]:
        return found
    changed = {field: wanted["spec"][field] for field in _CHANGEABLE}
    return {**wanted, "spec": {**found["spec"], **changed}}


def next_run_of(app: App | None, now: datetime) -> datetime | None:
    """When the next run begins; None where no schedule says, or the app is suspended."""
    if app is None or app.manifest.spec.schedule is None or app.manifest.spec.suspend:
        return None
    return parse_cron(app.manifest.spec.schedule).following(now)


def is_over(job: Object) -> bool:
    return bool(_condition(job, "Complete") or _condition(job, "Failed"))


def _condition(job: Object, kind: str) -> Mapping[str, Any]:
    """The condition of that kind; empty unless it is true."""
    conditions = job.get("status", {}).get("conditions", ())
    return next((c for c in conditions if c["type"] == kind and c["status"] == "True"), {})


def _report_of(pod: Object | None) -> Mapping[str, Any]:
    """The report of a driver that has caught up, which is its termination message; empty when there is none."""
    containers = pod.get("status", {}).get("containerStatuses", ()) if pod is not None else ()
    for container in containers:
        try:
            report = read_json(container.get("state", {}).get("terminated", {}).get("message") or "")
        except ValueError:
            continue
        if isinstance(report, dict) and report.get("caughtUp"):
            return report
    return {}
