# SPDX-License-Identifier: Apache-2.0
"""The actions that turn the observed objects of an app into the wanted ones. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime

from streamapp_operator.decide.actions import Action, Apply, Delete, RemoveFields, Scale, SetFinalizer, kind_of
from streamapp_operator.decide.additions import additions
from streamapp_operator.decide.drift import differences
from streamapp_operator.decide.executors import to_replace
from streamapp_operator.decide.settled import Accepted, is_settled
from streamapp_operator.decide.templates import driver_annotations, driver_template, executor_template
from streamapp_operator.driver.pods import RUNNING, STOPPING, driver_state, is_lost, is_over
from streamapp_operator.manifest.app import App
from streamapp_operator.observe.observation import LISTED, Observation
from streamapp_operator.observe.remains import FINALIZER, has_finalizer, wants_finalizer
from streamapp_operator.observe.runs import may_begin, obsolete, set_right
from streamapp_operator.render import STARTERS
from streamapp_operator.render.executors import tried_pod
from streamapp_operator.render.meta import ATTEMPT_ANNOTATION, TEMPLATE_ANNOTATION, Object
from streamapp_operator.render.runs import is_bounded, run_of_app
from streamapp_operator.settings import Settings
from streamapp_operator.versions.rollout import version_acted_upon

_MOST_DIFFERENCES = 3
_DRIVER_NEEDS = ("ConfigMap", "ControllerRevision", "Role", "RoleBinding", "Secret", "ServiceAccount", *STARTERS)
"""Kinds of objects that a driver needs to start. It is started anew when they are right, whatever there is to do about
others."""
Notes = Mapping[tuple[str, str], Accepted]
"""By kind and name of objects."""


def corrections(
    app: App, seen: Observation, objects: tuple[Object, ...], notes: Notes, may_restart: bool
) -> tuple[Action, ...]:
    """The actions for the difference between the wanted and the observed objects."""
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
    elif not may_restart and is_for_settings(seen, objects):
        actions += _other_replicas(app, seen)
    elif not any(isinstance(each, Apply | RemoveFields) and kind_of(each) in _DRIVER_NEEDS for each in actions):
        actions += restart
    return tuple(actions)


def doubtful_objects(seen: Observation, objects: tuple[Object, ...], changes: tuple[Action, ...]) -> tuple[Object, ...]:
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


def tried_executor(app: App, seen: Observation, changes: tuple[Action, ...], settings: Settings) -> tuple[Object, ...]:
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
    found = to_replace(seen.executors, executor_template(objects), app.plan.replicas, seen.status)
    return [Delete(pod, f"replace {pod['metadata']['name']} by one of the new pod template") for pod in found]


def _outdated_driver(seen: Observation, objects: tuple[Object, ...]) -> list[Action]:
    """Ends a driver in order that was started from another template; its StatefulSet makes the next one."""
    state = driver_state(seen.driver)
    if seen.driver is None or state.state == STOPPING:
        return []
    if driver_template(objects) in (None, state.template):
        return []
    return [Delete(seen.driver, "restart the driver with the new plan")]


def is_for_settings(seen: Observation, objects: tuple[Object, ...]) -> bool:
    """Whether a driver is outdated for the operator's settings alone: the app's author has asked for no other
    attempt."""
    template = driver_annotations(objects)
    return template is not None and driver_state(seen.driver).attempt in ("", template[ATTEMPT_ANNOTATION])


def is_outdated(app: App, seen: Observation, objects: tuple[Object, ...], actions: tuple[Action, ...]) -> bool:
    """Whether the driver that runs is not the one that is wanted now."""
    if not objects:  # it cannot be made anew as long as a Secret is not usable
        return version_acted_upon(seen.body, seen.children) != app.version_name
    ends = any(isinstance(action, Delete) and kind_of(action) == "Job" for action in actions)
    return ends or bool(_outdated_driver(seen, objects))


def finalizer(body: Object) -> tuple[SetFinalizer, ...]:
    """Sets or takes away the finalizer, first of all: the app makes topics on Kafka only after it."""
    if (wanted := wants_finalizer(body)) is has_finalizer(body):
        return ()
    return (
        SetFinalizer(
            wanted, f"{'set' if wanted else 'take away'} the finalizer {FINALIZER}, as spec.deletionPolicy says"
        ),
    )


def useless_pods(seen: Observation, now: datetime) -> tuple[Delete, ...]:
    """Deletes pods that would stay for ever. Pods on a node that does not answer never end by themselves. A driver that
    still runs there does no harm: the next one fences it. A driver clears its ended executors away, unless it has ended
    first."""
    pods = [pod for pod in (*seen.drivers, *seen.executors) if is_lost(pod, now)]
    lost = [Delete(pod, f"forget {pod['metadata']['name']}, whose node is lost", grace=0) for pod in pods]
    over = [pod for pod in seen.executors if is_over(pod, now)]
    return (*lost, *(Delete(pod, f"clear {pod['metadata']['name']} away, which has ended") for pod in over))
