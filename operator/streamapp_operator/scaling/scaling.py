# SPDX-License-Identifier: Apache-2.0
"""An app's autoscaling: from manifest and position to a decision. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from streamapp.cron import parse_cron
from streamapp.durations import parse_duration
from streamapp.manifest.model import AutoscalingSpec
from streamapp_operator.driver.answer import Answer
from streamapp_operator.driver.progress import restore_of
from streamapp_operator.manifest.app import App
from streamapp_operator.observe.observation import Position
from streamapp_operator.render.sizes import executor_size
from streamapp_operator.scaling.autoscaler import (
    CATCH_UP_SECONDS,
    DOWN_SECONDS,
    UNKNOWN,
    Decision,
    History,
    Policy,
    decide,
)
from streamapp_operator.scaling.measurement import Change, Metrics, Record
from streamapp_operator.settings import Settings
from streamapp_operator.times import stamp

_LEAST_SPEED = 0.001
"""Records per second: a status has no slower one."""


def policy_of(spec: AutoscalingSpec, now: datetime) -> Policy:
    """The policy that the manifest asks for at that time; without any target, to catch up soon."""
    lag = spec.lag
    low, high = _bounds(spec, now)
    records = lag.records_per_replica if lag is not None else None
    within = _seconds(lag.catch_up_within if lag is not None else None)
    return Policy(
        low=low,
        high=high,
        records_per_replica=records,
        catch_up_seconds=CATCH_UP_SECONDS if within is None and records is None else within,
        down_seconds=_seconds(spec.stabilisation) or DOWN_SECONDS,
        recommend_only=spec.mode == "Recommend",
    )


def scaled(
    app: App,
    settings: Settings,
    status: Mapping[str, Any],
    position: Position | None,
    unknown: str,
    running: int,
    history: History | None,
    now: datetime,
    paused: bool = False,
    live: Answer | None = None,
    on_trial: bool = False,
) -> tuple[App, Decision | None, History | None]:
    """The app with the number of replicas that is right for it now, and why; unchanged when it does not autoscale.

    Args:
        app: as its manifest says.
        settings: of the operator.
        status: of the resource: it has the last decision.
        position: of the app in its input, None when that is not known.
        unknown: why it is not.
        running: executors.
        history: of earlier measurements; None: there are none, as after a start of the operator.
        now: the time.
        paused: whether nothing may be done: the number stays, and wishes must last anew afterwards.
        live: the driver's answer; None when it does not answer.
        on_trial: whether a version that follows on another one has to prove itself.
    """
    spec = app.manifest.spec.autoscaling
    if spec is None or app.manifest.spec.suspend:
        return app, None, None
    history = history or History()
    if "autoscaling" in status:  # another operator may have decided since we did
        history = replace(history, record=record_of(status["autoscaling"]))
    wanted = history.record.wanted
    replicas = status.get("desiredReplicas", spec.min_replicas) if wanted is None else wanted
    if paused:
        return replace(app, plan=replace(app.plan, replicas=replicas)), None, replace(history, samples=())
    metrics = None
    if position is not None:
        size = executor_size(app, settings)
        tasks = max(position.partitions, app.plan.max_parallelism if app.plan.stores else 1)
        useful = math.ceil(tasks / size.processors)
        metrics = Metrics(
            position.produced,
            position.consumed,
            running,
            useful,
            busy=_busy(live or Answer()),
            topics=position.topics,
            processed=None if live is None else live.processed,
        )
    hold = _hold(live or Answer(), on_trial)
    decision, history = decide(metrics, policy_of(spec, now), history, replicas, now, hold)
    if decision.reason == UNKNOWN and unknown:
        decision = replace(decision, words=f"{decision.words}: {unknown}")
    return replace(app, plan=replace(app.plan, replicas=decision.replicas)), decision, history


def _busy(live: Answer) -> dict[str, float] | None:
    """Seconds of work by sub-topology; None where the driver does not say, as with an older version."""
    known = {name: part.busy_seconds for name, part in live.parts.items() if part.busy_seconds is not None}
    return known if known and len(known) == len(live.parts) else None


def _hold(live: Answer, on_trial: bool) -> str:
    """Why this is no moment to change the number of replicas; empty: it is one."""
    if on_trial:
        return "a new version proves itself"
    # A short restore is no phase of its own.
    return "state is being restored" if live.phase == "Restoring" or restore_of(live) else ""


# --- the record in the status -------------------------------------------------------------------------------


def to_status(record: Record) -> dict[str, Any]:
    """The record as the status has it; `record_of` reads it back."""
    change = record.change
    last = None
    if change is not None:
        last = {"time": stamp(change.at), "from": change.was, "to": change.replicas, "why": change.why}
        last |= {} if change.capacity is None else {"capacity": round(change.capacity)}
    found = {
        "wantedReplicas": record.wanted,
        "recordsPerSecond": None if record.speed is None else round(record.speed, 3),
        "lastChange": last,
        "mostReplicas": record.most,
        "mostUntil": stamp(record.most_until) if record.most_until is not None else None,
    }
    return {name: value for name, value in found.items() if value is not None}


def record_of(status: Mapping[str, Any]) -> Record:
    """The record that the status has. A value that cannot be read, as from another version of the operator, is not
    known.

    >>> record_of({"wantedReplicas": 3, "recordsPerSecond": 20.5, "lastChange": "?"})
    Record(wanted=3, speed=20.5, change=None, most=None, most_until=None)
    """
    speed = _number(status, "recordsPerSecond")
    last = status.get("lastChange")
    change = None
    if isinstance(last, dict):
        at, was, replicas = _moment(last, "time"), _whole(last, "from"), _whole(last, "to")
        if at is not None and was is not None and replicas is not None:
            change = Change(at, was, replicas, str(last.get("why", "")), _number(last, "capacity"))
    most, until = _whole(status, "mostReplicas"), _moment(status, "mostUntil")
    known = most is not None and until is not None
    return Record(
        _whole(status, "wantedReplicas"),
        speed if speed is not None and speed >= _LEAST_SPEED else None,
        change,
        most if known else None,
        until if known else None,
    )


def _number(found: Mapping[str, Any], name: str) -> float | None:
    value = found.get(name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _whole(found: Mapping[str, Any], name: str) -> int | None:
    value = found.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _moment(found: Mapping[str, Any], name: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(str(found.get(name)))
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else None


def _bounds(spec: AutoscalingSpec, now: datetime) -> tuple[int, int]:
    """The bounds whose time came last; before any has come, and where they leave one out, the plain ones."""
    begun = [(since, bounds) for bounds in spec.schedule or () if (since := parse_cron(bounds.cron).latest(now))]
    if not begun:
        return spec.min_replicas, spec.max_replicas
    _, latest = max(begun, key=lambda each: each[0])
    low = spec.min_replicas if latest.min_replicas is None else latest.min_replicas
    return low, spec.max_replicas if latest.max_replicas is None else latest.max_replicas


def _seconds(duration: str | None) -> float | None:
    return None if duration is None else parse_duration(duration) / 1000
