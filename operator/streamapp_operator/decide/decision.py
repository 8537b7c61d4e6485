# SPDX-License-Identifier: Apache-2.0
"""Decides what to do about an app. Pure, from the observation. It compares the wanted objects with the observed ones,
and remembers nothing, so that a missed or doubled event, or a restart at any moment, makes no difference."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Any

from streamapp_operator.decide.actions import Action
from streamapp_operator.decide.corrections import (
    Notes,
    corrections,
    doubtful_objects,
    finalizer,
    is_for_settings,
    is_outdated,
    tried_executor,
    useless_pods,
)
from streamapp_operator.decide.executors import running
from streamapp_operator.decide.wanted import judged, wanted_of
from streamapp_operator.driver.last_answer import AnswerNow, LastAnswer, answer_now
from streamapp_operator.driver.pods import driver_state
from streamapp_operator.driver.stall import StallClock, check_stall
from streamapp_operator.observe.observation import Observation
from streamapp_operator.observe.runs import last_run, next_run_of
from streamapp_operator.render import Credentials
from streamapp_operator.render.meta import Object
from streamapp_operator.render.runs import UNTIL_CAUGHT_UP
from streamapp_operator.scaling.autoscaler import History
from streamapp_operator.settings import Settings
from streamapp_operator.status.facts import Facts
from streamapp_operator.versions.health_gate import Trial

PAUSE_ANNOTATION = "streamapp.dev/pause-reconciliation"


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
    wanted = wanted_of(seen, settings, fresh, now, history, paused)
    app, objects, failures, trial = judged(wanted, seen, settings, None if paused else trial, now)
    actions: tuple[Action, ...] = ()
    doubtful: tuple[Object, ...] = ()
    if not paused and "deletionTimestamp" not in body["metadata"]:
        changes = corrections(app, seen, objects, notes, may_restart) if app is not None and objects else ()
        actions = (*finalizer(body), *useless_pods(seen, now), *changes)
        tried = tried_executor(app, seen, changes, settings) if app is not None else ()
        doubtful = (*tried, *doubtful_objects(seen, objects, changes))
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
        executors=running(seen.executors),
        remaining=len(seen.executors),
        scaling=wanted.scaling,
        run=last_run(seen.jobs, seen.drivers) if body["spec"].get("run") == UNTIL_CAUGHT_UP else None,
        next_run=next_run,
        rollout=wanted.rollout,
        outdated=not paused and app is not None and is_outdated(app, seen, objects, actions),
        failures=failures,
        unusable_secret=wanted.unusable_secret,
    )
    target = _target(facts, objects) if actions else previous
    waits = not may_restart and facts.outdated and is_for_settings(seen, objects)
    return Decision(facts, target, actions, doubtful, wanted.history, trial, answer, stall_clock, waits)


def _target(facts: Facts, objects: tuple[Object, ...]) -> dict[str, Any]:
    marks = json.dumps([item["metadata"]["annotations"] for item in objects], sort_keys=True)
    return {
        "generation": facts.generation,
        "fingerprint": hashlib.sha256(marks.encode()).hexdigest()[:16],
        "changes": list(facts.changes),
    }
