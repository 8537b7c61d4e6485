# SPDX-License-Identifier: Apache-2.0
"""An app that stops at the end of its input: the Job of one run, or the CronJob that makes one at each time."""

from __future__ import annotations

import hashlib

from streamapp.cron import Cron, parse_cron
from streamapp.errors import ManifestError, Problem
from streamapp_operator.manifest.app import App
from streamapp_operator.names import run_name, schedule_name
from streamapp_operator.render.config import Credentials
from streamapp_operator.render.driver import DRIVER, driver_template
from streamapp_operator.render.meta import APP_ANNOTATION, Object, labels, made
from streamapp_operator.settings import Settings

UNTIL_CAUGHT_UP = "untilCaughtUp"
_TRIES = 6
"""Tries after the first one, with pauses that double from ten seconds on."""
_HOPELESS = (1, 2)
"""Exit codes that say that the input or the data is wrong: another try would find the same."""
_STOPPED_EARLY = 143
"""Exit code of a driver that was asked to stop before the end."""
_KEPT_GOOD, _KEPT_BAD = 3, 1
"""Runs of a schedule that are kept for their logs."""


def is_bounded(app: App) -> bool:
    """Whether the app stops when it has caught up."""
    return app.manifest.spec.run == UNTIL_CAUGHT_UP


def run_of_app(app: App) -> str:
    """Name of the Job that runs this version of the manifest. Another version, or a restart that is asked for, is
    another run; another version of the operator does not run again what has been run."""
    return run_name(app.base, hashlib.sha256(app.attempt.encode()).hexdigest()[:8])


def job(app: App, settings: Settings, credentials: Credentials) -> Object:
    return made(app, "batch/v1", "Job", run_of_app(app), DRIVER, spec=_job_spec(app, settings, credentials))


def cron_job(app: App, settings: Settings, credentials: Credentials) -> Object:
    """
    Raises:
        ManifestError: when Kubernetes has no words for the times.
    """
    spec = app.manifest.spec
    assert spec.schedule is not None
    return made(
        app,
        "batch/v1",
        "CronJob",
        schedule_name(app.base),
        DRIVER,
        spec={
            "schedule": kubernetes_line(spec.schedule),
            "timeZone": "UTC",
            # Two runs at once would do no harm, as the second fences the first, but no good either. A time that comes
            # while a run is under way, or while Kubernetes does not look, is made up for once.
            "concurrencyPolicy": "Forbid",
            "suspend": spec.suspend,
            "successfulJobsHistoryLimit": _KEPT_GOOD,
            "failedJobsHistoryLimit": _KEPT_BAD,
            "jobTemplate": {
                "metadata": {"labels": labels(app.base, DRIVER), "annotations": {APP_ANNOTATION: app.name}},
                "spec": _job_spec(app, settings, credentials),
            },
        },
    )


def _job_spec(app: App, settings: Settings, credentials: Credentials) -> Object:
    def exits(action: str, *codes: int) -> Object:
        return {"action": action, "onExitCodes": {"containerName": DRIVER, "operator": "In", "values": list(codes)}}

    template = driver_template(app, settings, credentials)
    disrupted = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    return {
        # The default. It is written out so that a Job that somebody has suspended by hand differs from the wanted one.
        "suspend": False,
        "parallelism": 1,
        "completions": 1,
        "backoffLimit": _TRIES,
        # The next driver begins when the one before has ended, and not as soon as that is asked to.
        "podReplacementPolicy": "Failed",
        "podFailurePolicy": {
            "rules": [disrupted, exits("Ignore", _STOPPED_EARLY), exits("FailJob", *_HOPELESS)],
        },
        "template": {**template, "spec": {**template["spec"], "restartPolicy": "Never"}},
    }


def kubernetes_line(line: str) -> str:
    """A cron line of the manifest in the form that Kubernetes understands alike: it reads some lines otherwise.

    Raises:
        ManifestError: when there is no line for it.

    >>> kubernetes_line("*/20 8 * * 1-5,7")
    '0,20,40 8 * * 0,1,2,3,4,5'
    """
    cron: Cron = parse_cron(line)
    days, weekdays = _listed(cron.days), _listed(cron.weekdays)
    if not cron.either_day:
        # For Kubernetes, only a plain star leaves the choice to the other field.
        if len(cron.weekdays) < 7 and len(cron.days) < 31:
            raise ManifestError([_both_days(line)])
        weekdays = "*" if len(cron.weekdays) == 7 else weekdays
        days = "*" if len(cron.days) == 31 else days
    hours = "*" if len(cron.hours) == 24 else _listed(cron.hours)
    minutes = "*" if len(cron.minutes) == 60 else _listed(cron.minutes)
    months = "*" if len(cron.months) == 12 else _listed(cron.months)
    return f"{minutes} {hours} {days} {months} {weekdays}"


def _listed(values: frozenset[int]) -> str:
    return ",".join(str(value) for value in sorted(values))


def _both_days(line: str) -> Problem:
    return Problem(
        None,
        "schedule",
        line,
        "a step in one field of days narrows the other one down, and Kubernetes has no line for that",
        "restrict one of the two fields, and put * into the other",
    )
