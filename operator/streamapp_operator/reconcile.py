# SPDX-License-Identifier: Apache-2.0
"""The one function: observe, decide, say so in status, act. It is level-based; whatever calls it, and however often, it
brings an app closer to what is wanted.

    1  observe   what the cache has, then, if there is          a crash here: nothing has happened
                 something to do, what it rests on is read anew
    2  decide    pure
    3  status    what we are about to do, if that is new        a crash here: the next one decides the same and does it
    4  act       each object by server-side apply, or a delete  a crash here: what is left over is still different
                 (of a new version all are tried before)        a crash here: nothing has happened
    5  status    what is true, if that has changed              a crash here: it is still to be said
    6  events    what has happened                              a crash here: one is missing; status has it all
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, MutableMapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

from streamapp.manifest import API_VERSION, KIND
from streamapp_operator.cluster.cache import PartlyFresh
from streamapp_operator.cluster.kube import Kube, KubeError
from streamapp_operator.cluster.recorder import Recorder
from streamapp_operator.cluster.refusals import is_of_the_moment, is_refusal
from streamapp_operator.decide.decision import Action, Apply, Decision, Delete, Hold, Scale, TakeAway, decide, kind_of
from streamapp_operator.decide.settled import Accepted, accepted
from streamapp_operator.deletion.finalizer import let_go
from streamapp_operator.deletion.kafka import Cleaner
from streamapp_operator.deletion.rights import Rights
from streamapp_operator.driver import client as live
from streamapp_operator.driver.last_answer import Words
from streamapp_operator.driver.stall import Pace
from streamapp_operator.observe.lag import Lags
from streamapp_operator.observe.observation import ALWAYS_FRESH, DECISIVE, EVERY_KIND, Observation
from streamapp_operator.observe.observer import Objects, observe
from streamapp_operator.observe.remains import is_deleted
from streamapp_operator.observe.trouble import Troubles
from streamapp_operator.render import STARTERS, Credentials
from streamapp_operator.render.meta import MANAGER, Object, is_orphan_of, is_owned_by
from streamapp_operator.scaling.autoscaler import History
from streamapp_operator.settings import Settings
from streamapp_operator.status.events import events_between, to_object
from streamapp_operator.status.status import Status, numbers_moved, only_numbers_moved, status_of
from streamapp_operator.versions.health_gate import Trial
from streamapp_operator.workqueue import Key

AFTER_ACTING_SECONDS = 1.0
UNDER_WAY_SECONDS = 2.0
RESYNC_SECONDS = 20.0
OFTEN_SECONDS = 5.0
"""So often an app is looked at that autoscales, whose version has to prove itself, or whose Secret is missing."""
NUMBERS_SECONDS = 9.0
"""Numbers that move all the time are written no more often than this, for each app,"""
NUMBERS_PER_SECOND = 33.0
"""and for all apps together."""
_CLOCK_SECONDS = 2.0
"""So exactly the API server tells the time, and when something was written."""
GENERATION_ANNOTATION = "streamapp.dev/generation"
"""On each object: the generation of the resource that it was last changed for."""

_SETTLED = ("Pending", "Running", "Suspended", "Stopped", "Scheduled", "Completed", "Invalid")
"""Phases that only change with something that is watched, or slowly."""
CONFLICT = 409
_OF_A_VERSION = ("ConfigMap", "ControllerRevision", *STARTERS)
"""Kinds of objects that a driver runs by, or is known by."""
Notes = MutableMapping[tuple[str, str], Accepted]
T = TypeVar("T")
K = TypeVar("K")
log = logging.getLogger("streamapp.operator")


@dataclass
class Memory:
    """What is remembered from round to round. Losing it costs connections, and makes autoscaling wait anew."""

    lags: Lags = field(default_factory=Lags)
    cleaner: Cleaner = field(default_factory=Cleaner)
    rights: Rights = field(default_factory=Rights)
    recorder: Recorder = field(default_factory=Recorder)
    drivers: live.Drivers = field(default_factory=live.Drivers)
    histories: MutableMapping[Key, tuple[str, History | None]] = field(default_factory=dict)
    """By namespace and name: the uid of the resource that it is about, and what was measured."""

    trials: MutableMapping[Key, Trial] = field(default_factory=dict)
    """By namespace and name: what was seen of a version that has to prove itself."""

    words: MutableMapping[Key, Words] = field(default_factory=dict)
    """By namespace and name: what the driver said last."""

    paces: MutableMapping[Key, Pace] = field(default_factory=dict)
    """By namespace and name: since when which sub-topology has committed no epoch."""

    accepted: MutableMapping[Key, dict[tuple[str, str], Accepted]] = field(default_factory=dict)
    """By namespace and name: what the API server made of objects, by their kind and name, if it was not as wanted."""

    troubles: Troubles = field(default_factory=Troubles)

    @property
    def numbers_seconds(self) -> float:
        """So often the numbers of one app may be written that move all the time."""
        return max(NUMBERS_SECONDS, len(self.histories) / NUMBERS_PER_SECOND)

    def history(self, body: Object) -> History | None:
        metadata = body["metadata"]
        uid, history = self.histories.get((metadata["namespace"], metadata["name"]), ("", None))
        return history if uid == metadata["uid"] else None

    def keep(self, body: Object, decision: Decision) -> None:
        """What a decision leaves for the next one."""
        metadata = body["metadata"]
        key = metadata["namespace"], metadata["name"]
        self.histories[key] = metadata["uid"], decision.history
        _note(self.trials, key, decision.trial)
        _note(self.words, key, decision.heard.words)
        _note(self.paces, key, decision.pace)

    def forget(self, namespace: str, name: str) -> None:
        """There is no such app any more."""
        self.histories.pop((namespace, name), None)
        self.trials.pop((namespace, name), None)
        self.words.pop((namespace, name), None)
        self.paces.pop((namespace, name), None)
        self.accepted.pop((namespace, name), None)
        self.lags.forget(namespace, name)
        self.troubles.forget(namespace, name)


def _note(notes: MutableMapping[K, T], key: K, what: T | None) -> None:
    if what is None:
        notes.pop(key, None)
    else:
        notes[key] = what


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
        kube: what is done is done here.
        namespace: of the app.
        name: of the app.
        settings: of the operator.
        new_credentials: for an app that has none yet.
        memory: of earlier rounds.
        clock: the time; None: that of the API server, which has written most times that it is held against.
        cache: objects as they were a moment ago. If by them all is well, that is that; otherwise what a word or action
            rests on is looked up anew, so that what is old leads to no wrong one. None: everything always is.

    Returns:
        Seconds after which to look again; None when there is no such app.

    Raises:
        KubeError: when the API server does not answer; try again later.
    """
    fresh = EVERY_KIND if cache is None else ALWAYS_FRESH
    seen: Observation | None = None
    clock = clock or kube.clock.now
    while True:
        objects = kube if cache is None else PartlyFresh(cache, kube, fresh)
        seen = observe(objects, memory.lags, memory.drivers, namespace, name, seen)
        if seen is not None:
            seen = replace(seen, trouble=memory.troubles.of(kube, seen, clock()))
        try:
            again = _round(kube, seen, settings, new_credentials(), memory, clock, fresh) if seen is not None else None
        except _NotCertain as found:
            fresh |= found.needed
            continue
        if again is None:
            memory.forget(namespace, name)
        return again


class _NotCertain(Exception):
    """By what is in the cache there is something to do or to say, or what is in the cache is not so any more. Objects
    of the needed kinds must be looked up before."""

    def __init__(self, needed: frozenset[str]) -> None:
        super().__init__()
        self.needed = needed


def _round(
    kube: Kube,
    seen: Observation,
    settings: Settings,
    new: Credentials,
    memory: Memory,
    clock: Callable[[], datetime],
    fresh: frozenset[str],
) -> float | None:
    """What was seen of the kinds that are fresh is what the API server said just now."""
    if is_deleted(seen.body):
        if not fresh >= EVERY_KIND:
            raise _NotCertain(EVERY_KIND)
        return let_go(kube, seen, memory.cleaner, clock(), memory.rights.hold, memory.recorder)
    _, name = key = seen.body["metadata"]["namespace"], seen.body["metadata"]["name"]
    past = memory.history(seen.body), memory.trials.get(key), memory.words.get(key), memory.paces.get(key)
    notes = memory.accepted.setdefault(key, {})
    decision = decide(seen, settings, new, clock(), *past, notes)
    previous: Status = seen.earlier_status
    needed = DECISIVE | {kind_of(action) for action in decision.actions}
    if not needed <= fresh and not _leaves_all_but_numbers(decision, previous, name, clock()):
        raise _NotCertain(needed)
    memory.keep(seen.body, decision)
    said, version = previous, seen.body["metadata"]["resourceVersion"]

    def say(status: Status) -> None:
        nonlocal said, version
        try:
            version = _say(kube, seen.body, version, status)
        except KubeError as error:
            if error.code == CONFLICT and not needed <= fresh:
                raise _NotCertain(needed) from None
            raise
        said = status

    if decision.target != previous.get("target", {}):
        say(_status(decision, name, previous, clock()))
    refusal = _act(kube, seen, decision, notes, memory.rights)
    facts = replace(decision.facts, refusal=refusal)
    status = _status(replace(decision, facts=facts), name, said, clock())
    if status != said and not (
        only_numbers_moved(said, status)
        and _seconds_since_said(seen.body, clock()) < memory.numbers_seconds - _CLOCK_SECONDS
    ):
        say(status)
    _tell(kube, memory.recorder, seen.body, previous, said, clock())
    if refusal:
        raise KubeError(422, refusal)
    if decision.actions:
        return AFTER_ACTING_SECONDS
    if decision.heard.is_silent or (facts.phase not in _SETTLED and not facts.halted):
        return UNDER_WAY_SECONDS
    proves = decision.trial is not None and facts.phase == "Running"
    often = facts.scaling is not None or proves or facts.unusable_secret
    moves = min(memory.numbers_seconds, RESYNC_SECONDS) if numbers_moved(previous, status) else RESYNC_SECONDS
    return OFTEN_SECONDS if often else moves


def _leaves_all_but_numbers(decision: Decision, previous: Status, name: str, now: datetime) -> bool:
    return not decision.actions and only_numbers_moved(previous, _status(decision, name, previous, now))


def _status(decision: Decision, name: str, previous: Status, now: datetime) -> Status:
    return status_of(decision.facts, name, decision.target, previous, now)


def _act(kube: Kube, seen: Observation, decision: Decision, notes: Notes, rights: Rights) -> str:
    """Does what was decided, and notes what became of it. Returns why something was refused; empty when nothing was."""
    if refusal := _refusal(lambda: _try(kube, seen.body, decision.doubtful)):
        return _do_each(kube, seen, filter(_suits_every_version, decision.actions), notes, rights) or refusal
    return _do_each(kube, seen, decision.actions, notes, rights)


def _try(kube: Kube, body: Object, doubtful: Iterable[Object]) -> None:
    """Asks the API server what it would say to each of these.

    Raises:
        KubeError: it would not take one.
    """
    for wanted in doubtful:
        if wanted["kind"] == "Pod":
            _try_executor(kube, wanted)
        else:
            _require_free(kube, body, wanted)
            kube.try_apply(wanted)


def _try_executor(kube: Kube, pod: Object) -> None:
    """
    Raises:
        KubeError: the API server would not take it.
    """
    try:
        kube.try_create(pod)
    except KubeError as error:
        if not is_of_the_moment(error):
            raise KubeError(error.code, f"the template of executors is refused: {error}") from None


def _suits_every_version(action: Action) -> bool:
    """Whether it is right also for the version that runs on, as the one that follows is refused."""
    if isinstance(action, Apply):
        return action.is_new and action.wanted["kind"] not in _OF_A_VERSION
    return isinstance(action, Hold) or (isinstance(action, Delete) and kind_of(action) == "Pod")


def _do_each(kube: Kube, seen: Observation, actions: Iterable[Action], notes: Notes, rights: Rights) -> str:
    """One after the other. After the first that is refused, only what does not depend on it. Returns why it was
    refused; empty when none was."""
    refusal = ""
    for action in actions:
        if refusal and not _suits_every_version(action):
            continue
        log.info("%s/%s: %s", seen.body["metadata"]["namespace"], seen.body["metadata"]["name"], action.why)
        refused = _refusal(partial(_do, kube, seen, action, notes, rights))
        refusal = refusal or refused
    return refusal


def _refusal(act: Callable[[], None]) -> str:
    """Why the API server has refused it; empty when it has not.

    Raises:
        KubeError: it has not answered, or has trouble of its own.
    """
    try:
        act()
    except KubeError as error:
        if not is_refusal(error):
            raise
        return str(error)
    return ""


def _do(kube: Kube, seen: Observation, action: Action, notes: Notes, rights: Rights) -> None:
    body = seen.body
    if isinstance(action, Hold):
        rights.hold(kube, body, action.on)
    elif isinstance(action, Scale):
        kube.may_write()
        if problem := live.scale(action.driver, seen.token, action.replicas):
            log.warning("%s/%s: %s", body["metadata"]["namespace"], body["metadata"]["name"], problem)
    elif isinstance(action, Apply):
        if action.is_new:
            _require_free(kube, body, action.wanted)
        wanted = action.wanted
        metadata = wanted["metadata"]
        mark = {GENERATION_ANNOTATION: str(body["metadata"]["generation"])}
        annotations = {**metadata["annotations"], **mark}
        made = kube.apply({**wanted, "metadata": {**metadata, "annotations": annotations}})
        _note(notes, (wanted["kind"], metadata["name"]), accepted(wanted, made))
    elif isinstance(action, TakeAway):
        kube.take_away(action.found, action.paths)
    else:
        found = action.found["metadata"]
        kube.delete(action.found["kind"], found["namespace"], found["name"], found["uid"], action.grace)


def _require_free(kube: Kube, body: Object, wanted: Object) -> None:
    """An object of somebody else's that has the name is not taken over; one that nobody owns any more is."""
    kind, namespace, name = wanted["kind"], wanted["metadata"]["namespace"], wanted["metadata"]["name"]
    found, app = kube.get(kind, namespace, name), body["metadata"]
    if found is not None and not is_owned_by(found, app["uid"]) and not is_orphan_of(found, app["name"]):
        raise KubeError(
            422, f"there is already a {kind} '{name}' that does not belong to this app; delete it, or rename the app"
        )


def _say(kube: Kube, body: Object, version: str, status: Status) -> str:
    """Writes the status, unless the resource is not any more of that version; returns the version it is of then."""
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


def _tell(kube: Kube, recorder: Recorder, body: Object, previous: Status, status: Status, now: datetime) -> None:
    if status is previous:
        return
    for event in events_between(previous, status):
        try:
            recorder.record(kube, to_object(event, {"apiVersion": API_VERSION, "kind": KIND, **body}, now))
        except KubeError as error:
            log.warning("no event could be written: %s", error)


def _seconds_since_said(body: Object, now: datetime) -> float:
    """Since the status was last written. The API server keeps the time for us."""
    fields: list[dict[str, Any]] = body["metadata"].get("managedFields", [])
    ours = [f for f in fields if (f.get("manager"), f.get("subresource")) == (MANAGER, "status")]
    times = [f["time"] for f in ours if "time" in f]
    if not times:
        return RESYNC_SECONDS
    return (now - datetime.fromisoformat(max(times))).total_seconds()
