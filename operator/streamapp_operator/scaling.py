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
from streamapp_operator.app import App
from streamapp_operator.autoscale import (
    CATCH_UP_SECONDS,
    DOWN_SECONDS,
    UNKNOWN,
    Decision,
    History,
    Metrics,
    Policy,
    decide,
)
from streamapp_operator.observation import Position
from streamapp_operator.render.sizes import executor_size
from streamapp_operator.settings import Settings


def policy_of(spec: AutoscalingSpec, now: datetime) -> Policy:
    """What the manifest asks for at that time; without any target, to catch up soon."""
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
    history: History,
    now: datetime,
    paused: bool = False,
) -> tuple[App, Decision | None, History]:
    """The app with the number of replicas that is right for it now, and why; unchanged when it does not autoscale.

    Args:
        app: as its manifest says.
        settings: of the operator.
        status: of the resource: it remembers what was decided last.
        position: of the app in its input, None when that is not known.
        unknown: why it is not.
        running: executors.
        history: of earlier measurements.
        now: the time.
        paused: whether nothing may be done: the number stays, and wishes must last anew afterwards.
    """
    spec = app.manifest.spec.autoscaling
    if spec is None or app.manifest.spec.suspend:
        return app, None, History()
    replicas = int(status.get("desiredReplicas", spec.min_replicas))
    if paused:
        return replace(app, plan=replace(app.plan, replicas=replicas)), None, replace(history, samples=())
    metrics = None
    if position is not None:
        size = executor_size(app, settings)
        tasks = max(position.partitions, app.plan.max_parallelism if app.plan.stores else 1)
        metrics = Metrics(position.produced, position.consumed, running, math.ceil(tasks / size.processors))
    decision, history = decide(metrics, policy_of(spec, now), history, replicas, now)
    if decision.reason == UNKNOWN and unknown:
        decision = replace(decision, words=f"{decision.words}: {unknown}")
    return replace(app, plan=replace(app.plan, replicas=decision.replicas)), decision, history


def _bounds(spec: AutoscalingSpec, now: datetime) -> tuple[int, int]:
    """Those whose time came last; before any has come, and where they leave one out, the plain ones."""
    begun = [(since, bounds) for bounds in spec.schedule or () if (since := parse_cron(bounds.cron).latest(now))]
    if not begun:
        return spec.min_replicas, spec.max_replicas
    _, latest = max(begun, key=lambda each: each[0])
    low = spec.min_replicas if latest.min_replicas is None else latest.min_replicas
    return low, spec.max_replicas if latest.max_replicas is None else latest.max_replicas


def _seconds(duration: str | None) -> float | None:
    return None if duration is None else parse_duration(duration) / 1000
