# SPDX-License-Identifier: Apache-2.0
"""What to do about an app: pure, of what is observed. It compares what is wanted with what is there, and remembers
nothing, so that a missed or doubled event, or a restart at any moment, makes no difference."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from streamapp.errors import ManifestError
from streamapp_operator.app import App, read_app
from streamapp_operator.diff import differences
from streamapp_operator.facts import Facts
from streamapp_operator.names import driver_name, secret_name
from streamapp_operator.observe import LISTED, Observation
from streamapp_operator.pods import STOPPING, driver_state, is_lost, runs
from streamapp_operator.render import Credentials, render
from streamapp_operator.render.config import credentials_of
from streamapp_operator.render.meta import TEMPLATE_ANNOTATION, Object
from streamapp_operator.settings import Settings

PAUSE_ANNOTATION = "streamapp.dev/pause-reconciliation"
_MOST_DIFFERENCES = 3


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
    """Seconds it gets to end in order; None: what it asks for itself."""


Action = Apply | Delete


@dataclass(frozen=True)
class Decision:
    """What is true, and what to do."""

    facts: Facts
    target: Mapping[str, Any]
    """For the status: what we are about to bring about."""
    actions: tuple[Action, ...] = ()


def decide(seen: Observation, settings: Settings, fresh: Credentials, now: datetime) -> Decision:
    """
    Args:
        seen: everything that is there.
        settings: of the operator.
        fresh: credentials for an app that has none yet.
        now: the time.
    """
    body = seen.body
    paused = body["metadata"].get("annotations", {}).get(PAUSE_ANNOTATION) == "true"
    app, objects, problems = _wanted(seen, settings, fresh)
    actions: tuple[Action, ...] = ()
    if not paused and "deletionTimestamp" not in body["metadata"]:
        actions = (*_lost_pods(seen, now), *(_changes(app, seen, objects) if app is not None else ()))
    previous = (body.get("status") or {}).get("target", {})
    facts = Facts(
        generation=body["metadata"]["generation"],
        app=app,
        problems=problems,
        suspended=bool(body["spec"].get("suspend", False)),
        paused=paused,
        changes=tuple(action.why for action in actions),
        driver=driver_state(seen.driver),
        live=seen.status,
        silence=seen.silence,
        executors=sum(runs(pod) for pod in seen.executors),
    )
    target = _target(facts, objects) if actions else previous
    return Decision(facts, target, actions)


def _wanted(
    seen: Observation, settings: Settings, fresh: Credentials
) -> tuple[App | None, tuple[Object, ...], tuple[str, ...]]:
    try:
        app = read_app(seen.body)
        known = credentials_of(seen.children.get(("Secret", secret_name(app.base)), {}))
        return app, render(app, settings, known or fresh), ()
    except ManifestError as error:
        return None, (), tuple(str(problem) for problem in error.problems)


def _changes(app: App, seen: Observation, objects: tuple[Object, ...]) -> tuple[Action, ...]:
    """The difference between what is wanted and what is there."""
    actions: list[Action] = []
    names = set()
    for wanted in objects:
        kind, name = wanted["kind"], wanted["metadata"]["name"]
        names.add((kind, name))
        found = seen.children.get((kind, name))
        if found is None:
            actions.append(Apply(wanted, f"make {kind} {name}", is_new=True))
        elif different := list(differences(wanted, found)):
            fields = ", ".join(different[:_MOST_DIFFERENCES])
            actions.append(Apply(wanted, f"set {fields} of {kind} {name}", is_new=False))
    for (kind, name), found in seen.children.items():
        if (kind, name) not in names and kind in LISTED:
            actions.append(Delete(found, f"delete {kind} {name}, which is not needed any more"))
    if not actions:
        actions += _outdated_driver(app, seen, objects)
    return tuple(actions)


def _outdated_driver(app: App, seen: Observation, objects: tuple[Object, ...]) -> list[Action]:
    """A driver that was started with something else ends in order; its StatefulSet makes the next one."""
    state = driver_state(seen.driver)
    if seen.driver is None or state.state == STOPPING:
        return []
    name = driver_name(app.base)
    wanted = next(item for item in objects if (item["kind"], item["metadata"]["name"]) == ("StatefulSet", name))
    if state.template == wanted["spec"]["template"]["metadata"]["annotations"][TEMPLATE_ANNOTATION]:
        return []
    return [Delete(seen.driver, "restart the driver with the new plan")]


def _lost_pods(seen: Observation, now: datetime) -> tuple[Action, ...]:
    """Pods on a node that does not answer never end by themselves. That the driver may still run there does no harm:
    the next one fences it."""
    pods = [pod for pod in (seen.driver, *seen.executors) if pod is not None and is_lost(pod, now)]
    return tuple(Delete(pod, f"forget {pod['metadata']['name']}, whose node is lost", grace=0) for pod in pods)


def _target(facts: Facts, objects: tuple[Object, ...]) -> dict[str, Any]:
    marks = json.dumps([item["metadata"]["annotations"] for item in objects], sort_keys=True)
    return {
        "generation": facts.generation,
        "fingerprint": hashlib.sha256(marks.encode()).hexdigest()[:16],
        "changes": list(facts.changes),
    }
