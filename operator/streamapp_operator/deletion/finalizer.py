# SPDX-License-Identifier: Apache-2.0
"""Lets a deleted app go that waits for us (see observe/remains.py), step by step, each look a little further:

1  status    that it is being deleted
2  objects   that would make new drivers are deleted, and drivers with them
3  Kafka     internal topics and group, when no pod is left that may write
4  event     what was deleted, or is left             a crash here: it is written twice
5  finalizer is taken away: the resource goes, and Kubernetes collects the rest
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime

from streamapp.manifest import API_VERSION, KIND
from streamapp_operator.cluster.errors import KubeError
from streamapp_operator.cluster.kube import Kube
from streamapp_operator.cluster.lease import NotHolder
from streamapp_operator.cluster.recorder import Recorder
from streamapp_operator.decide.corrections import useless_pods
from streamapp_operator.deletion.kafka import Cleaner, Outcome
from streamapp_operator.driver.pods import driver_state
from streamapp_operator.observe.observation import Observation
from streamapp_operator.observe.remains import (
    FINALIZER,
    Remains,
    driver_makers,
    has_finalizer,
    is_late,
    remains_of,
    running,
)
from streamapp_operator.render.meta import Object
from streamapp_operator.status.events import NORMAL, WARNING, Event, to_object
from streamapp_operator.status.facts import Facts
from streamapp_operator.status.status import Status, status_of
from streamapp_operator.status.verdicts import DELETING

LOOK_SECONDS = 1.0
TRY_SECONDS = 5.0
"""Seconds from one try at Kafka to the next."""
_MOST_NAMES = 20
log = logging.getLogger("streamapp.operator")


def finalize(
    kube: Kube,
    seen: Observation,
    cleaner: Cleaner,
    now: datetime,
    set_finalizer: Callable[[Kube, Object, bool], None],
    recorder: Recorder,
) -> float | None:
    """
    Args:
        kube: the connection for all reads and writes.
        seen: the app, which is deleted.
        cleaner: deletes its topics and group.
        now: the time.
        set_finalizer: takes it away.
        recorder: of events.

    Returns:
        Seconds after which to look again; None when there is nothing left to do.

    Raises:
        KubeError: when the API server does not answer; try again later.
    """
    body = seen.body
    metadata = body["metadata"]
    if not has_finalizer(body):
        return None
    _say(kube, seen, now, recorder)
    late = is_late(body, now)
    if not late and (items := driver_makers(seen)):
        for item in items:
            _delete(kube, item)
        return LOOK_SECONDS
    for action in useless_pods(seen, now):
        _delete(kube, action.found, action.grace)
    pods, remains = running(seen), remains_of(seen)
    if pods and not late:
        return LOOK_SECONDS
    outcome = _clean(kube, cleaner, remains, pods, late)
    if outcome.left and not late:
        log.warning("%s/%s: %s", metadata["namespace"], metadata["name"], outcome.why)
        return TRY_SECONDS
    _tell(kube, recorder, body, outcome_event(remains, outcome), now)
    set_finalizer(kube, body, False)
    return None


def set_finalizer(kube: Kube, body: Object, on: bool) -> None:
    """Sets our finalizer, or takes it away; others stay as they are.

    Raises:
        KubeError: code 409 when the resource is changed at this very moment.
    """
    metadata = body["metadata"]
    found = kube.get(KIND, metadata["namespace"], metadata["name"])
    if found is None or found["metadata"]["uid"] != metadata["uid"] or has_finalizer(found) is on:
        return
    others = [name for name in found["metadata"].get("finalizers", ()) if name != FINALIZER]
    kube.set_finalizers({**found, "kind": KIND}, [*others, FINALIZER] if on else others)


def outcome_event(remains: Remains | None, outcome: Outcome) -> Event:
    """The event about the end of the app's topics.

    >>> outcome_event(None, Outcome()).reason
    'TopicsLeft'
    """
    if remains is None:
        return Event(WARNING, "TopicsLeft", f"internal topics are left, if there are any: {outcome.why}")
    if outcome.left:
        names = ", ".join(outcome.left[:_MOST_NAMES]) + (" and others" if len(outcome.left) > _MOST_NAMES else "")
        where = remains.kafka.bootstrap_servers
        return Event(WARNING, "TopicsLeft", f"left on Kafka at {where}, delete by hand: {names}. Why: {outcome.why}")
    group = f" and the consumer group {remains.application_id}" if outcome.group else ""
    deleted = f"deleted {', '.join(outcome.deleted[:_MOST_NAMES]) or 'no topic'}{group}"
    if outcome.why:
        return Event(WARNING, "TopicsLeft", f"{outcome.why}; {deleted}" if outcome.deleted else outcome.why)
    return Event(NORMAL, "Deleted", deleted)


def _clean(kube: Kube, cleaner: Cleaner, remains: Remains | None, pods: tuple[str, ...], late: bool) -> Outcome:
    if remains is None:
        return Outcome(why="the manifest cannot be run, and no plan of an earlier one is there")
    if pods:
        return Outcome(left=remains.topics, why=f"{pods[0]} does not end")
    before = cleaner.last.pop(remains.owner, None)
    if late and before is not None:  # the time for more tries is over
        return before
    try:
        outcome = cleaner.clean(remains, kube.may_write)
    except NotHolder:
        raise
    except Exception as error:  # a fault of ours, or of a library's, must not hold the resource for ever
        log.exception("%s: unexpected", remains.owner)
        outcome = Outcome(left=remains.topics, why=f"{type(error).__name__}: {error}")
    if outcome.left and not late:
        cleaner.last[remains.owner] = outcome
    return outcome


def _say(kube: Kube, seen: Observation, now: datetime, recorder: Recorder) -> None:
    body, previous = seen.body, seen.earlier_status
    if previous.get("phase") == "Deleting":
        return
    facts = Facts(
        generation=body["metadata"]["generation"],
        app=None,
        problems=(),
        suspended=False,
        paused=False,
        changes=(),
        driver=driver_state(seen.driver),
        live=None,
        silence="",
        executors=len(seen.executors),
        remaining=len(seen.executors),
        deleting=True,
    )
    metadata = body["metadata"]
    status: Status = status_of(facts, metadata["name"], previous.get("target", {}), previous, now)
    named = {"name": metadata["name"], "namespace": metadata["namespace"]}
    kube.apply_status({"apiVersion": API_VERSION, "kind": KIND, "metadata": named, "status": status})
    _tell(kube, recorder, body, Event(NORMAL, "Deleting", DELETING), now)


def _tell(kube: Kube, recorder: Recorder, body: Object, event: Event, now: datetime) -> None:
    metadata = body["metadata"]
    log.info("%s/%s: %s: %s", metadata["namespace"], metadata["name"], event.reason, event.message)
    try:
        recorder.record(kube, to_object(event, {"apiVersion": API_VERSION, "kind": KIND, **body}, now))
    except KubeError as error:  # as in a namespace that is being deleted
        log.warning("no event could be written: %s", error)


def _delete(kube: Kube, item: Object, grace: int | None = None) -> None:
    metadata = item["metadata"]
    kube.delete(item["kind"], metadata["namespace"], metadata["name"], metadata["uid"], grace)
