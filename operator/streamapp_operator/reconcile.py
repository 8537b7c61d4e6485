# SPDX-License-Identifier: Apache-2.0
"""The one function: observe, decide, say so in status, act. It is level-based; whatever calls it, and however often, it
brings an app closer to what is wanted.

    1  observe   what the cache has, then, if there is          a crash here: nothing has happened
                 something to do, what it rests on is read anew
    2  decide    pure
    3  status    what we are about to do, if that is new        a crash here: the next one decides the same and does it
    4  act       each object by server-side apply, or a delete  a crash here: what is left over is still different
                 (of a new version all are tried before)        a crash here: nothing has happened
    5  status    what is true, if that has changed              a crash here: it is still to be written
    6  events    what has happened                              a crash here: one is missing; status has it all
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from streamapp.manifest import API_VERSION, KIND
from streamapp_operator.act import act
from streamapp_operator.cluster.cache import PartlyFresh
from streamapp_operator.cluster.errors import KubeError
from streamapp_operator.cluster.kube import Kube
from streamapp_operator.cluster.recorder import Recorder
from streamapp_operator.decide.actions import kind_of
from streamapp_operator.decide.decision import Decision, decide
from streamapp_operator.deletion.finalizer import finalize
from streamapp_operator.memory import Memory
from streamapp_operator.observe.observation import DECISIVE, EVERY_KIND, Observation
from streamapp_operator.observe.observer import Objects, observe
from streamapp_operator.observe.remains import is_deleted
from streamapp_operator.render import Credentials
from streamapp_operator.render.meta import MANAGER, Object
from streamapp_operator.settings import Settings
from streamapp_operator.status.events import events_between, to_object
from streamapp_operator.status.facts import Facts
from streamapp_operator.status.status import Status, numbers_moved, only_numbers_moved, status_of
from streamapp_operator.workqueue import Key

AFTER_ACTING_SECONDS = 1.0
UNDER_WAY_SECONDS = 2.0
RESYNC_SECONDS = 20.0
OFTEN_SECONDS = 5.0
"""Seconds between two looks at an app that autoscales, whose version has to prove itself, whose Secret is missing, or
that waits for its turn."""
_CLOCK_SECONDS = 2.0
"""Seconds by which the API server's time, and its times of writes, may be off."""
_SETTLED = ("Pending", "Running", "Suspended", "Stopped", "Scheduled", "Completed", "Invalid")
"""Phases that only change with something that is watched, or slowly."""
CONFLICT = 409
log = logging.getLogger("streamapp.operator")


def reconcile(
    kube: Kube,
    namespace: str,
    name: str,
    settings: Settings,
    new_credentials: Callable[[], Credentials],
    memory: Memory,
    clock: Callable[[], datetime] | None = None,
    cache: Objects | None = None,
) -> float | None:
    """Brings one app closer to what is wanted.

    Args:
        kube: the connection for all reads and writes.
        namespace: of the app.
        name: of the app.
        settings: of the operator.
        new_credentials: for an app that has none yet.
        memory: of earlier rounds.
        clock: the time; None: that of the API server, which has written most times that it is compared with.
        cache: objects as they were a moment ago. If all is well by them, the look ends there; otherwise the objects
            that a message or an action rests on are looked up anew, so that old ones lead to no wrong one. None: all
            objects are always looked up anew.

    Returns:
        Seconds after which to look again; None when there is no such app.

    Raises:
        KubeError: when the API server does not answer; try again later.
    """
    look = _Look(kube, (namespace, name), settings, new_credentials, memory, clock or kube.clock.now)
    # A changed Secret shows in no event. Where the next look comes soon, one that was read a moment ago will do.
    often = cache is not None and memory.pauses.get(look.key, RESYNC_SECONDS) <= OFTEN_SECONDS
    again = _look_by_cache(look, cache, often) if cache is not None else _Unsure(None, EVERY_KIND)
    if isinstance(again, _Unsure):
        again = _look_by_server(look, cache or kube, again)
    if again is None:
        memory.forget(namespace, name)
        return None
    memory.pauses[look.key] = again
    return min(again, OFTEN_SECONDS) if often else again  # the next look reads its Secrets, however long the pause


@dataclass(frozen=True)
class _Look:
    """The common part of both passes of a look at an app."""

    kube: Kube
    key: Key
    settings: Settings
    new_credentials: Callable[[], Credentials]
    memory: Memory
    clock: Callable[[], datetime]

    def observe(self, objects: Objects, earlier: Observation | None) -> Observation | None:
        seen = observe(objects, self.memory.lags, self.memory.drivers, *self.key, earlier)
        if seen is None:
            return None
        return replace(seen, trouble=self.memory.pod_events.of(self.kube, seen, self.clock()))


@dataclass(frozen=True)
class _Unsure:
    """By the objects that were looked at there is something to do or to write, or they have changed since. Objects of
    the needed kinds must be looked up before."""

    seen: Observation | None
    needed: frozenset[str]


def _look_by_cache(look: _Look, cache: Objects, often: bool) -> float | _Unsure | None:
    """The first pass: no action rests on the cache, and only numbers are written.

    Args:
        often: whether Secrets may be as they were a moment ago.
    """
    fresh = frozenset[str]() if often else frozenset({"Secret"})
    seen = look.observe(PartlyFresh(cache, look.kube, fresh), None)
    return _round(look, seen, fresh) if seen is not None else None


def _look_by_server(look: _Look, objects: Objects, before: _Unsure) -> float | None:
    """The second pass: a message or an action rests on answers of the API server. They may show that it rests on more
    kinds."""
    fresh = before.needed
    seen = before.seen
    while True:
        seen = look.observe(PartlyFresh(objects, look.kube, fresh), seen)
        again = _round(look, seen, fresh) if seen is not None else None
        if not isinstance(again, _Unsure):
            return again
        fresh |= again.needed


def _round(look: _Look, seen: Observation, fresh: frozenset[str]) -> float | _Unsure | None:
    """Decides, writes the status and acts. The API server has just answered with the objects of the `fresh` kinds."""
    kube, memory, clock = look.kube, look.memory, look.clock
    if is_deleted(seen.body):
        if not fresh >= EVERY_KIND:
            return _Unsure(seen, EVERY_KIND)
        return finalize(kube, seen, memory.cleaner, clock(), memory.rights.set_finalizer, memory.recorder)
    key, name = look.key, look.key[1]
    decision = _decide(look, seen)
    previous: Status = seen.earlier_status
    needed = DECISIVE | {kind_of(action) for action in decision.actions}
    may_be_old = decision.facts.unusable_secret and "Secret" not in fresh
    if not needed <= fresh and (may_be_old or not _leaves_all_but_numbers(decision, previous, name, clock())):
        return _Unsure(seen, needed)
    memory.keep(seen.body, decision)
    written, version = previous, seen.body["metadata"]["resourceVersion"]
    if decision.target != previous.get("target", {}):
        written = _status(decision, name, previous, clock())
        version = _write_status(kube, seen.body, version, written)
    refusal = act(kube, seen, decision, memory.accepted.setdefault(key, {}), memory.rights)
    facts = replace(decision.facts, refusal=refusal)
    status = _status(replace(decision, facts=facts), name, written, clock())
    if status != written and not (
        only_numbers_moved(written, status)
        and _seconds_since_written(seen.body, clock()) < memory.numbers_seconds - _CLOCK_SECONDS
    ):
        try:
            _write_status(kube, seen.body, version, status)
        except KubeError as error:
            if error.code == CONFLICT and not needed <= fresh:
                return _Unsure(seen, needed)
            raise
        written = status
    _record_events(kube, memory.recorder, seen.body, previous, written, clock())
    if refusal:
        raise KubeError(422, refusal)
    return _again(memory, decision, facts, numbers_moved(previous, status))


def _decide(look: _Look, seen: Observation) -> Decision:
    """Decides what to do. A driver that is to be started anew for the operator's settings waits for its turn, and has
    it until the app is well, or is stopped."""
    memory, key = look.memory, look.key
    past = memory.history(seen.body), memory.trials.get(key), memory.last_answers.get(key), memory.stall_clocks.get(key)
    notes = memory.accepted.setdefault(key, {})

    def decided(may_restart: bool) -> Decision:
        return decide(seen, look.settings, look.new_credentials(), look.clock(), *past, notes, may_restart)

    decision = decided(memory.turns.has(key))
    if decision.waits_for_turn and memory.turns.take(key):
        decision = decided(True)
    facts = decision.facts
    runs = facts.phase == "Running" and facts.driver.ready and decision.trial is None
    if not facts.outdated and (runs or facts.suspended or facts.halted):
        memory.turns.give(key)
    return decision


def _again(memory: Memory, decision: Decision, facts: Facts, moves: bool) -> float:
    """Seconds after which to look again."""
    if decision.actions:
        return AFTER_ACTING_SECONDS
    if decision.answer.is_silent or (facts.phase not in _SETTLED and not facts.halted):
        return UNDER_WAY_SECONDS
    proves = decision.trial is not None and facts.phase == "Running"
    if facts.scaling is not None or proves or facts.unusable_secret or decision.waits_for_turn:
        return OFTEN_SECONDS
    return min(memory.numbers_seconds, RESYNC_SECONDS) if moves else RESYNC_SECONDS


def _leaves_all_but_numbers(decision: Decision, previous: Status, name: str, now: datetime) -> bool:
    return not decision.actions and only_numbers_moved(previous, _status(decision, name, previous, now))


def _status(decision: Decision, name: str, previous: Status, now: datetime) -> Status:
    return status_of(decision.facts, name, decision.target, previous, now)


def _write_status(kube: Kube, body: Object, version: str, status: Status) -> str:
    """Writes the status, unless the resource has another version by now. Returns the version that the resource has
    then."""
    metadata = body["metadata"]
    written = kube.apply_status(
        {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {
                "name": metadata["name"],
                "namespace": metadata["namespace"],
                "resourceVersion": version,
            },
            "status": status,
        }
    )
    return str(written["metadata"]["resourceVersion"])


def _record_events(
    kube: Kube, recorder: Recorder, body: Object, previous: Status, status: Status, now: datetime
) -> None:
    if status is previous:
        return
    for event in events_between(previous, status):
        try:
            recorder.record(kube, to_object(event, {"apiVersion": API_VERSION, "kind": KIND, **body}, now))
        except KubeError as error:
            log.warning("no event could be written: %s", error)


def _seconds_since_written(body: Object, now: datetime) -> float:
    """Seconds since the status was last written. The API server keeps the time for us."""
    fields: list[dict[str, Any]] = body["metadata"].get("managedFields", [])
    ours = [f for f in fields if (f.get("manager"), f.get("subresource")) == (MANAGER, "status")]
    times = [f["time"] for f in ours if "time" in f]
    if not times:
        return RESYNC_SECONDS
    return (now - datetime.fromisoformat(max(times))).total_seconds()
