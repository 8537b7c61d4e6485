# SPDX-License-Identifier: Apache-2.0
"""Decides what to do about an app. Pure, from the observation. It compares the wanted objects with the observed ones,
and remembers nothing, so that a missed or doubled event, or a restart at any moment, makes no difference."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from types import MappingProxyType
from typing import Any

from streamapp.errors import ManifestError
from streamapp.kafka.login import is_secured
from streamapp_operator.decide.additions import Path, additions
from streamapp_operator.decide.drift import differences
from streamapp_operator.decide.executors import outdated as outdated_executors
from streamapp_operator.decide.executors import to_replace
from streamapp_operator.decide.problems import mistakes_of
from streamapp_operator.decide.settled import Accepted, is_settled
from streamapp_operator.driver.answer import Answer
from streamapp_operator.driver.last_answer import AnswerNow, LastAnswer, answer_now
from streamapp_operator.driver.pods import RUNNING, STOPPING, driver_state, is_lost, is_over, runs
from streamapp_operator.driver.progress import waiting_of
from streamapp_operator.driver.restart_budget import Failures, count_failures
from streamapp_operator.driver.stall import StallClock, check_stall
from streamapp_operator.manifest.addresses import problems_of_addresses
from streamapp_operator.manifest.adoption import still_there
from streamapp_operator.manifest.app import App
from streamapp_operator.manifest.kafka_login import Login, UnusableSecret, login_of, open_secrets
from streamapp_operator.manifest.modules import with_modules
from streamapp_operator.manifest.versions import REJECTED, Verdict
from streamapp_operator.names import secret_name
from streamapp_operator.observe.observation import LISTED, Observation
from streamapp_operator.observe.remains import FINALIZER, has_finalizer, wants_finalizer
from streamapp_operator.observe.runs import last_run, may_begin, next_run_of, obsolete, set_right
from streamapp_operator.render import STARTERS, Credentials, render
from streamapp_operator.render.config import credentials_of
from streamapp_operator.render.executors import tried_pod
from streamapp_operator.render.meta import ATTEMPT_ANNOTATION, TEMPLATE_ANNOTATION, Object
from streamapp_operator.render.permits import permitting_all
from streamapp_operator.render.runs import UNTIL_CAUGHT_UP, is_bounded, run_of_app
from streamapp_operator.render.user_template import raise_for
from streamapp_operator.scaling import autoscaler as autoscale
from streamapp_operator.scaling.autoscaler import History
from streamapp_operator.scaling.scaling import scaled
from streamapp_operator.settings import Settings
from streamapp_operator.status.facts import Facts
from streamapp_operator.versions.health_gate import Look, Trial, judge
from streamapp_operator.versions.rollout import (
    Rollout,
    control_revisions,
    rollout_of,
    version_acted_upon,
    without,
)

PAUSE_ANNOTATION = "streamapp.dev/pause-reconciliation"
_MOST_DIFFERENCES = 3
_DRIVER_NEEDS = ("ConfigMap", "ControllerRevision", "Role", "RoleBinding", "Secret", "ServiceAccount", *STARTERS)
"""Kinds of objects that a driver needs to start. It is started anew when they are right, whatever there is to do about
others."""


@dataclass(frozen=True)
class Apply:
    """Make an object what it should be."""

    wanted: Object
    why: str
    is_new: bool


@dataclass(frozen=True)
class Delete:
    """Take an object away: this very one."""

    found: Object
    why: str
    grace: int | None = None
    """Seconds it gets to end in order; None: as many as it asks for itself."""


@dataclass(frozen=True)
class Scale:
    """Tell a running driver how many executors it is to have."""

    driver: Object
    replicas: int
    why: str


@dataclass(frozen=True)
class SetFinalizer:
    """Make the app wait for us when it is deleted, or not."""

    on: bool
    why: str


@dataclass(frozen=True)
class RemoveFields:
    """Take out of an object what somebody has added to it."""

    found: Object
    paths: tuple[Path, ...]
    why: str


Action = Apply | Delete | Scale | SetFinalizer | RemoveFields
Notes = Mapping[tuple[str, str], Accepted]
"""By kind and name of objects."""


def kind_of(action: Action) -> str:
    """The kind of the object that an action changes."""
    if isinstance(action, Apply):
        return str(action.wanted["kind"])
    return str(action.found["kind"]) if isinstance(action, Delete | RemoveFields) else "Pod"


@dataclass(frozen=True)
class Decision:
    """The facts about an app, and the actions to take."""

    facts: Facts
    target: Mapping[str, Any]
    """For the status: the state that the actions are to bring about."""
    actions: tuple[Action, ...] = ()
    doubtful: tuple[Object, ...] = ()
    """Objects that the API server must be ready to take before any of a new version is changed; a pod among them is
    one that Spark would make."""
    history: History | None = None
    """For the next decision."""
    trial: Trial | None = None
    """For the next decision, while a version has to prove itself."""
    answer: AnswerNow = field(default_factory=lambda: AnswerNow(None, "", None))
    """The answer of the driver; its last answer is for the next decision."""
    stall_clock: StallClock | None = None
    """For the next decision."""
    waits_for_turn: bool = False
    """Whether the driver is to be started anew for the operator's settings, as soon as there is a turn for it."""


def decide(
    seen: Observation,
    settings: Settings,
    fresh: Credentials,
    now: datetime,
    history: History | None = None,
    trial: Trial | None = None,
    last_answer: LastAnswer | None = None,
    stall_clock: StallClock | None = None,
    notes: Notes = MappingProxyType({}),
    may_restart: bool = True,
) -> Decision:
    """
    Args:
        seen: everything that is there.
        settings: of the operator.
        fresh: credentials for an app that has none yet.
        now: the time.
        history: of the last decision; None: only what the status has is known, and an app is scaled a bit later.
        trial: of the last decision; None: a version that has to prove itself gets its time anew.
        last_answer: of the last decision; None: the driver has not answered yet.
        stall_clock: of the last decision; None: it begins to be watched now whether epochs are committed.
        notes: about objects that the API server has changed when they were applied; one without a note is applied once
            more.
        may_restart: whether the driver may be started anew now although its author has not asked for it.
    """
    body = seen.body
    paused = body["metadata"].get("annotations", {}).get(PAUSE_ANNOTATION) == "true"
    wanted = _wanted(seen, settings, fresh, now, history, paused)
    app, objects, failures, trial = _judged(wanted, seen, settings, None if paused else trial, now)
    actions: tuple[Action, ...] = ()
    doubtful: tuple[Object, ...] = ()
    if not paused and "deletionTimestamp" not in body["metadata"]:
        changes = _changes(app, seen, objects, notes, may_restart) if app is not None and objects else ()
        actions = (*_finalizer(body), *useless_pods(seen, now), *changes)
        tried = _tried_executor(app, seen, changes, settings) if app is not None else ()
        doubtful = (*tried, *_doubtful(seen, objects, changes))
    previous = seen.earlier_status.get("target", {})
    next_run = next_run_of(wanted.app, now)
    driver = driver_state(seen.driver, seen.trouble)
    answer = answer_now(seen.status, seen.silence, driver, last_answer, now)
    stalled, stall_clock = (
        check_stall(answer.live, app.plan, driver, stall_clock, now) if app is not None else ("", None)
    )
    facts = Facts(
        generation=body["metadata"]["generation"],
        app=app,
        problems=wanted.rollout.problems,
        # A manifest that cannot be run suspends nothing: the version before goes on.
        suspended=app is not None and app.manifest.spec.suspend,
        paused=paused,
        changes=tuple(action.why for action in actions),
        driver=driver,
        live=answer.live,
        silence=answer.silence,
        stalled=stalled,
        position=seen.position,
        before=seen.earlier_status.get("phase", ""),
        executors=_running(seen),
        remaining=len(seen.executors),
        scaling=wanted.scaling,
        run=last_run(seen.jobs, seen.drivers) if body["spec"].get("run") == UNTIL_CAUGHT_UP else None,
        next_run=next_run,
        rollout=wanted.rollout,
        outdated=not paused and app is not None and _is_outdated(app, seen, objects, actions),
        failures=failures,
        unusable_secret=wanted.unusable_secret,
    )
    target = _target(facts, objects) if actions else previous
    waits = not may_restart and facts.outdated and _is_for_settings(seen, objects)
    return Decision(facts, target, actions, doubtful, wanted.history, trial, answer, stall_clock, waits)


@dataclass(frozen=True)
class _Wanted:
    rollout: Rollout
    app: App | None = None
    """The app with the number of replicas that is right now."""
    objects: tuple[Object, ...] = ()
    """Empty also when an app cannot log in to Kafka: then its objects are left alone."""
    unusable_secret: str = ""
    credentials: Credentials | None = None
    scaling: autoscale.Decision | None = None
    history: History | None = None


def _wanted(
    seen: Observation, settings: Settings, fresh: Credentials, now: datetime, history: History | None, paused: bool
) -> _Wanted:
    found = _wanted_or_before(seen, settings, fresh, now, history, paused)
    if not found.rollout.problems:
        return found
    problems = mistakes_of(seen.body, seen.code, settings) or found.rollout.problems
    return replace(found, rollout=replace(found.rollout, problems=problems))


def _wanted_or_before(
    seen: Observation, settings: Settings, fresh: Credentials, now: datetime, history: History | None, paused: bool
) -> _Wanted:
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
            return _Wanted(replace(rollout, app=None))
    # It can be stopped all the same. Its objects keep what they had: a template that is refused gets into none.
    try:
        return _rendered(rollout, seen, permitting_all(settings), fresh, now, history, paused)
    except ManifestError:
        return _Wanted(replace(rollout, app=None))


def _rendered(
    rollout: Rollout,
    seen: Observation,
    settings: Settings,
    fresh: Credentials,
    now: datetime,
    history: History | None,
    paused: bool,
) -> _Wanted:
    """
    Raises:
        ManifestError: when it cannot be made into objects.
    """
    if rollout.app is None:
        return _Wanted(rollout)
    raise_for(problems_of_addresses(rollout.app.plan.kafka, settings))
    raise_for(still_there(rollout.app.owner, rollout.app.adopts, seen.predecessor))
    status = seen.earlier_status
    app, scaling, history = scaled(
        rollout.app,
        settings,
        status,
        seen.position,
        seen.unknown,
        _running(seen),
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
        return _Wanted(rollout, app, unusable_secret=str(error), scaling=scaling, history=history)
    return _Wanted(rollout, app, render(app, settings, known), credentials=known, scaling=scaling, history=history)


def _judged(
    wanted: _Wanted, seen: Observation, settings: Settings, trial: Trial | None, now: datetime
) -> tuple[App | None, tuple[Object, ...], Failures | None, Trial | None]:
    """App and objects after a look at how the version that runs is doing: it may have proved itself, be taken back, or
    have failed too often."""
    rollout, app, objects = wanted.rollout, wanted.app, wanted.objects
    if app is None or wanted.credentials is None:
        return app, objects, None, None
    template = _template(objects)
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
        behind = len(outdated_executors(seen.executors, _executor_template(objects)))
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


def _running(seen: Observation) -> int:
    return sum(runs(pod) for pod in seen.executors)


def _changes(
    app: App, seen: Observation, objects: tuple[Object, ...], notes: Notes, may_restart: bool
) -> tuple[Action, ...]:
    """The difference between what is wanted and what is there."""
    actions: list[Action] = []
    names = set()
    for wanted in objects:
        kind, name = wanted["kind"], wanted["metadata"]["name"]
        if kind == "Job":
            continue  # most of what one run is made of cannot be changed: see `_runs`
        names.add((kind, name))
        found = seen.children.get((kind, name))
        if found is None:
            actions.append(Apply(wanted, f"make {kind} {name}", is_new=True))
        elif (different := list(differences(wanted, found))) and not is_settled(notes.get((kind, name)), wanted, found):
            actions.append(Apply(wanted, _set(different, wanted), is_new=False))
        elif added := additions(wanted, found):
            paths = ", ".join(".".join(map(str, path)) for path in added[:_MOST_DIFFERENCES])
            actions.append(RemoveFields(found, added, f"take {paths} out of {kind} {name}"))
    for (kind, name), found in seen.children.items():
        if (kind, name) not in names and kind in LISTED and kind != "Job":
            actions.append(Delete(found, f"delete {kind} {name}, which is not needed any more"))
    actions += _runs(app, seen, objects, notes)
    restart = _outdated_driver(seen, objects)
    if not restart:
        actions += _other_replicas(app, seen)
        actions += [] if actions or app.stopped else _earlier_executors(app, seen, objects)
    elif not may_restart and _is_for_settings(seen, objects):
        actions += _other_replicas(app, seen)
    elif not any(isinstance(each, Apply | RemoveFields) and kind_of(each) in _DRIVER_NEEDS for each in actions):
        actions += restart
    return tuple(actions)


def _doubtful(seen: Observation, objects: tuple[Object, ...], changes: tuple[Action, ...]) -> tuple[Object, ...]:
    """The objects of a version that follows another one. If the last of them were refused when the first is there, the
    next driver would be the old one with the new plan. A Job that only comes when the one before is gone counts too.

    Empty where no driver is made anew, and where only one object changes: it is taken or not.
    """
    if not changes or not any(kind in STARTERS for kind, _ in seen.children):
        return ()
    known = {job["metadata"]["name"] for job in seen.jobs}
    coming = [item for item in objects if item["kind"] == "Job" and item["metadata"]["name"] not in known]
    applied = [action.wanted for action in changes if isinstance(action, Apply)]
    found = [*applied, *(item for item in coming if item not in applied)]
    if not any(item["kind"] in STARTERS for item in found) or len(changes) == len(found) == 1:
        return ()
    return tuple(found)


def _tried_executor(app: App, seen: Observation, changes: tuple[Action, ...], settings: Settings) -> tuple[Object, ...]:
    """An executor's pod where its template changes: otherwise a refusal by the API server would only show when Spark
    makes one."""
    config = next((each.wanted for each in changes if isinstance(each, Apply) and kind_of(each) == "ConfigMap"), None)
    if config is None:
        return ()
    found = seen.children.get(("ConfigMap", config["metadata"]["name"]), {"metadata": {}})
    had, gets = (item["metadata"].get("annotations", {}).get(TEMPLATE_ANNOTATION) for item in (found, config))
    return (tried_pod(app, settings),) if had != gets else ()


def _set(different: list[str], wanted: Object) -> str:
    return f"set {', '.join(different[:_MOST_DIFFERENCES])} of {wanted['kind']} {wanted['metadata']['name']}"


def _runs(app: App, seen: Observation, objects: tuple[Object, ...], notes: Notes) -> Iterator[Action]:
    """Deletes Jobs that are not needed any more, makes the one that is needed as soon as it may begin, and sets it
    right while it runs."""
    spec = app.manifest.spec
    wanted = run_of_app(app) if is_bounded(app) and spec.schedule is None else None
    for job, why in obsolete(seen.jobs, app.uid, wanted, spec.suspend):
        yield Delete(job, why)
    for job in (item for item in objects if item["kind"] == "Job"):
        name = job["metadata"]["name"]
        found = next((each for each in seen.jobs if each["metadata"]["name"] == name), None)
        if may_begin(seen.jobs, name, seen.drivers):
            yield Apply(job, f"make Job {name}", is_new=True)
        elif found is not None:
            right = set_right(job, found)
            different = list(differences(right, found))
            if different and not is_settled(notes.get(("Job", name)), right, found):
                yield Apply(right, _set(different, job), is_new=False)


def _other_replicas(app: App, seen: Observation) -> list[Action]:
    """Scales a running driver: it takes another number of executors without a restart."""
    was, wanted = seen.status.wanted if seen.status is not None else None, app.plan.replicas
    if seen.driver is None or driver_state(seen.driver).state != RUNNING or was is None:
        return []
    return [Scale(seen.driver, wanted, f"scale from {was} to {wanted} replicas")] if was != wanted else []


def _earlier_executors(app: App, seen: Observation, objects: tuple[Object, ...]) -> list[Action]:
    """Ends executors of an earlier pod template in order, one after the other; the driver makes the next ones."""
    found = to_replace(seen.executors, _executor_template(objects), app.plan.replicas, seen.status)
    return [Delete(pod, f"replace {pod['metadata']['name']} by one of the new pod template") for pod in found]


def _outdated_driver(seen: Observation, objects: tuple[Object, ...]) -> list[Action]:
    """Ends a driver in order that was started from another template; its StatefulSet makes the next one."""
    state = driver_state(seen.driver)
    if seen.driver is None or state.state == STOPPING:
        return []
    if _template(objects) in (None, state.template):
        return []
    return [Delete(seen.driver, "restart the driver with the new plan")]


def _is_for_settings(seen: Observation, objects: tuple[Object, ...]) -> bool:
    """Whether a driver is outdated for the operator's settings alone: the app's author has asked for no other
    attempt."""
    template = _driver_annotations(objects)
    return template is not None and driver_state(seen.driver).attempt in ("", template[ATTEMPT_ANNOTATION])


def _is_outdated(app: App, seen: Observation, objects: tuple[Object, ...], actions: tuple[Action, ...]) -> bool:
    """Whether the driver that runs is not the one that is wanted now."""
    if not objects:  # it cannot be made anew as long as a Secret is not usable
        return version_acted_upon(seen.body, seen.children) != app.version_name
    ends = any(isinstance(action, Delete) and kind_of(action) == "Job" for action in actions)
    return ends or bool(_outdated_driver(seen, objects))


def _finalizer(body: Object) -> tuple[SetFinalizer, ...]:
    """Sets or takes away the finalizer, first of all: the app makes topics on Kafka only after it."""
    if (wanted := wants_finalizer(body)) is has_finalizer(body):
        return ()
    return (
        SetFinalizer(
            wanted, f"{'set' if wanted else 'take away'} the finalizer {FINALIZER}, as spec.deletionPolicy says"
        ),
    )


def _template(objects: tuple[Object, ...]) -> str | None:
    """The fingerprint of the template that the driver's pod is to be made from; None where no StatefulSet makes it."""
    found = _driver_annotations(objects)
    return found[TEMPLATE_ANNOTATION] if found is not None else None


def _driver_annotations(objects: tuple[Object, ...]) -> Mapping[str, str] | None:
    """The annotations of the pod that a StatefulSet is to make; None where there is none."""
    wanted = next((item for item in objects if item["kind"] == "StatefulSet"), None)
    return wanted["spec"]["template"]["metadata"]["annotations"] if wanted is not None else None


def _executor_template(objects: tuple[Object, ...]) -> str:
    """The fingerprint of the template that executors are to be made from."""
    config = next(item for item in objects if item["kind"] == "ConfigMap")
    return str(config["metadata"]["annotations"][TEMPLATE_ANNOTATION])


def useless_pods(seen: Observation, now: datetime) -> tuple[Delete, ...]:
    """Deletes pods that would stay for ever. Pods on a node that does not answer never end by themselves. A driver that
    still runs there does no harm: the next one fences it. A driver clears its ended executors away, unless it has ended
    first."""
    pods = [pod for pod in (*seen.drivers, *seen.executors) if is_lost(pod, now)]
    lost = [Delete(pod, f"forget {pod['metadata']['name']}, whose node is lost", grace=0) for pod in pods]
    over = [pod for pod in seen.executors if is_over(pod, now)]
    return (*lost, *(Delete(pod, f"clear {pod['metadata']['name']} away, which has ended") for pod in over))


def _target(facts: Facts, objects: tuple[Object, ...]) -> dict[str, Any]:
    marks = json.dumps([item["metadata"]["annotations"] for item in objects], sort_keys=True)
    return {
        "generation": facts.generation,
        "fingerprint": hashlib.sha256(marks.encode()).hexdigest()[:16],
        "changes": list(facts.changes),
    }
