# SPDX-License-Identifier: Apache-2.0
"""The version of an app that is to run, and its objects. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from streamapp.errors import ManifestError
from streamapp.kafka.login import is_secured
from streamapp_operator.decide.executors import outdated as outdated_executors
from streamapp_operator.decide.executors import running
from streamapp_operator.decide.problems import mistakes_of
from streamapp_operator.decide.templates import driver_template, executor_template
from streamapp_operator.driver.answer import Answer
from streamapp_operator.driver.pods import driver_state
from streamapp_operator.driver.progress import waiting_of
from streamapp_operator.driver.restart_budget import Failures, count_failures
from streamapp_operator.manifest.addresses import problems_of_addresses
from streamapp_operator.manifest.adoption import still_there
from streamapp_operator.manifest.app import App
from streamapp_operator.manifest.kafka_login import Login, UnusableSecret, login_of, open_secrets
from streamapp_operator.manifest.modules import with_modules
from streamapp_operator.manifest.versions import REJECTED, Verdict
from streamapp_operator.names import secret_name
from streamapp_operator.observe.observation import Observation
from streamapp_operator.render import Credentials, render
from streamapp_operator.render.config import credentials_of
from streamapp_operator.render.meta import Object
from streamapp_operator.render.permits import permitting_all
from streamapp_operator.render.user_template import raise_for
from streamapp_operator.scaling import autoscaler as autoscale
from streamapp_operator.scaling.autoscaler import History
from streamapp_operator.scaling.scaling import scaled
from streamapp_operator.settings import Settings
from streamapp_operator.versions.health_gate import Look, Trial, judge
from streamapp_operator.versions.rollout import Rollout, control_revisions, rollout_of, without


@dataclass(frozen=True)
class Wanted:
    """The version that is to run, with its app and objects."""

    rollout: Rollout
    app: App | None = None
    """The app with the number of replicas that is right now."""
    objects: tuple[Object, ...] = ()
    """Empty also when an app cannot log in to Kafka: then its objects are left alone."""
    unusable_secret: str = ""
    credentials: Credentials | None = None
    scaling: autoscale.Decision | None = None
    history: History | None = None


def wanted_of(
    seen: Observation, settings: Settings, fresh: Credentials, now: datetime, history: History | None, paused: bool
) -> Wanted:
    """The version that is to run. Where the manifest cannot be run, its problems are all of its mistakes."""
    found = _wanted_or_before(seen, settings, fresh, now, history, paused)
    if not found.rollout.problems:
        return found
    problems = mistakes_of(seen.body, seen.code, settings) or found.rollout.problems
    return replace(found, rollout=replace(found.rollout, problems=problems))


def _wanted_or_before(
    seen: Observation, settings: Settings, fresh: Credentials, now: datetime, history: History | None, paused: bool
) -> Wanted:
    """The app and the objects that the resource asks for or, where those cannot be run, the ones that ran before."""
    try:
        body = with_modules(seen.body, seen.code)
    except ManifestError as error:
        rollout = without(seen.body, seen.children, error)
    else:
        rollout = rollout_of(body, seen.children, settings, paused)
    try:
        return _rendered(rollout, seen, settings, fresh, now, history, paused)
    except ManifestError as error:
        rollout = without(seen.body, seen.children, error)
    try:
        return _rendered(rollout, seen, settings, fresh, now, history, paused)
    except ManifestError:  # the app that runs cannot be rendered either, as the operator's settings have changed
        if rollout.app is None or not rollout.app.manifest.spec.suspend:
            return Wanted(replace(rollout, app=None))
    # It can be stopped all the same. Its objects keep what they had: a template that is refused gets into none.
    try:
        return _rendered(rollout, seen, permitting_all(settings), fresh, now, history, paused)
    except ManifestError:
        return Wanted(replace(rollout, app=None))


def _rendered(
    rollout: Rollout,
    seen: Observation,
    settings: Settings,
    fresh: Credentials,
    now: datetime,
    history: History | None,
    paused: bool,
) -> Wanted:
    """
    Raises:
        ManifestError: when it cannot be made into objects.
    """
    if rollout.app is None:
        return Wanted(rollout)
    raise_for(problems_of_addresses(rollout.app.plan.kafka, settings))
    raise_for(still_there(rollout.app.owner, rollout.app.adopts, seen.predecessor))
    status = seen.earlier_status
    app, scaling, history = scaled(
        rollout.app,
        settings,
        status,
        seen.position,
        seen.unknown,
        running(seen.executors),
        history,
        now,
        paused,
        seen.status,
        on_trial=rollout.on_trial and rollout.can_go_back,
    )
    known = credentials_of(seen.children.get(("Secret", secret_name(app.base)), {})) or fresh
    try:
        app = replace(app, login=_login(app, seen, known))
    except UnusableSecret as error:
        return Wanted(rollout, app, unusable_secret=str(error), scaling=scaling, history=history)
    return Wanted(rollout, app, render(app, settings, known), credentials=known, scaling=scaling, history=history)


def judged(
    wanted: Wanted, seen: Observation, settings: Settings, trial: Trial | None, now: datetime
) -> tuple[App | None, tuple[Object, ...], Failures | None, Trial | None]:
    """App and objects after a look at how the version that runs is doing: it may have proved itself, be taken back, or
    have failed too often."""
    rollout, app, objects = wanted.rollout, wanted.app, wanted.objects
    if app is None or wanted.credentials is None:
        return app, objects, None, None
    template = driver_template(objects)
    if template is None:  # a run to the end of the input is judged by its Job
        return app, (*control_revisions(rollout, seen.body["metadata"]["generation"], None), *objects), None, None
    driver, live = driver_state(seen.driver, seen.trouble), seen.status
    outdated = seen.driver is not None and driver.template != template
    well = not outdated and live is not None and live.phase == "Running"
    before = seen.earlier_status.get("failures", {})
    failures = count_failures(before, driver, app.attempt, outdated=outdated, well=well, now=now)
    if app.manifest.spec.suspend:
        failures = replace(failures, counts={})
    verdict = None
    if rollout.on_trial:
        behind = len(outdated_executors(seen.executors, executor_template(objects)))
        look = Look(outdated, driver, behind, live, waiting_of(live or Answer(), app.plan))
        verdict, trial = judge(look, trial, app.attempt, app.progress_deadline, now)
        if failures.used_up and (verdict is None or verdict.word != REJECTED):
            verdict = Verdict(REJECTED, failures.message)
        if verdict is not None and verdict.word == REJECTED:
            verdict = replace(verdict, attempt=app.verdict_attempt) if rollout.can_go_back else None
    if failures.used_up and verdict is None:
        app = replace(app, halted=True)
        objects = render(app, settings, wanted.credentials)
    kept = control_revisions(rollout, seen.body["metadata"]["generation"], verdict)
    return app, (*kept, *objects), failures, trial if rollout.on_trial else None


def _login(app: App, seen: Observation, credentials: Credentials) -> Login | None:
    if not is_secured(app.plan.kafka):
        return None
    try:
        keys = open_secrets(app.plan.kafka, seen.secrets, app.namespace)
    except UnusableSecret:
        if app.manifest.spec.suspend:  # which must not depend on them
            return None
        raise
    return login_of(app.plan.kafka, keys, credentials.rpc_secret)
