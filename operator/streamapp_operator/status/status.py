# SPDX-License-Identifier: Apache-2.0
"""The status of a resource. Pure, from the facts, the status so far, and the time."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from streamapp.plain import plain
from streamapp_operator.driver.answer import Answer
from streamapp_operator.driver.progress import lag_of, restore_of, sub_topologies_of
from streamapp_operator.names import base_name
from streamapp_operator.observe.runs import COMPLETED, Run
from streamapp_operator.render.executors import EXECUTOR
from streamapp_operator.render.meta import selector_text
from streamapp_operator.scaling.scaling import to_status
from streamapp_operator.status.conditions import conditions
from streamapp_operator.status.facts import Facts
from streamapp_operator.times import seconds_since, stamp
from streamapp_operator.versions.rollout import ROLLED_BACK
from streamapp_operator.versions.update_plan import plan_of

Status = dict[str, Any]

_VOLATILE = ("lag", "subTopologies", "restore")
"""Numbers that move all the time. They are written with what else changes, or when they are some seconds old."""
_NODE = re.compile(r"node '([^']+)'")
_RECORD = re.compile(r"topic [^,]+, partition \d+, offset \d+")
_LONGEST_ERROR = 2000
_OVER_SECONDS = 600.0
"""Seconds after which an error goes from the status, if the app is well then."""


def status_of(facts: Facts, name: str, target: Mapping[str, Any], previous: Status, now: datetime) -> Status:
    """The status that is true now.

    Args:
        facts: the wanted and the observed state.
        name: of the resource.
        target: the state that the operator is about to bring about.
        previous: the status so far, for what it remembers: times, and the last error.
        now: the time.
    """
    live = facts.live or Answer()
    found = conditions(facts, previous.get("conditions", ()), now)
    status: Status = {
        "observedGeneration": facts.generation,
        "phase": facts.phase,
        "conditions": found,
        "target": dict(target),
        "plan": plan_of(facts.rollout, facts.generation, previous.get("plan")),
        "version": facts.rollout.app.version_name if facts.rollout.app is not None else None,
        "healthyVersion": facts.rollout.healthy.name if facts.rollout.healthy is not None else None,
        "failures": facts.failures.to_status() if facts.failures is not None else previous.get("failures"),
        "replicas": facts.executors,
        "desiredReplicas": facts.wanted_executors,
        "recommendedReplicas": facts.scaling.recommended if facts.scaling is not None else None,
        "autoscaling": _autoscaling(facts, previous),
        "selector": selector_text(base_name(name), EXECUTOR),
        "restarts": facts.driver.restarts,
        "run": _run(facts, previous),
        "lag": _lag(facts, previous),
        "subTopologies": sub_topologies_of(live) or previous.get("subTopologies"),
        "restore": restore_of(live),
        "lastError": _last_error(facts, previous, found, now),
    }
    return {key: value for key, value in status.items() if value is not None}


def _autoscaling(facts: Facts, previous: Status) -> Status | None:
    """The memory of an app that autoscales, also while it is suspended or paused."""
    if facts.app is not None and facts.app.manifest.spec.autoscaling is None:
        return None
    return to_status(facts.scaling.record) if facts.scaling is not None else previous.get("autoscaling")


def _run(facts: Facts, previous: Status) -> Status | None:
    """The last run to the end of the input, and the next one. The facts that are known of a run stay when its pod is
    gone."""
    run = facts.run
    if run is None and facts.next_run is None:
        return None
    found: Status = {"nextAt": stamp(facts.next_run) if facts.next_run is not None else None}
    if run is not None:
        kept = previous["run"].get("records") if _is_of(previous, run) else None
        found |= {"job": run.job, "result": run.result, "startedAt": run.started, "endedAt": run.ended}
        found["records"] = run.records if run.records is not None else kept
    return {key: value for key, value in found.items() if value is not None}


def _is_of(previous: Status, run: Run) -> bool:
    """Whether the status so far is about that run."""
    return (previous.get("run") or {}).get("job") == run.job


def _lag(facts: Facts, previous: Status) -> Status | None:
    """The lag now; none while it is not known. A run that has come to its end has left the last number."""
    if facts.rest is not None and facts.run is not None and facts.run.result == COMPLETED:
        kept = previous.get("lag") if _is_of(previous, facts.run) else None
        return {"total": facts.run.lag} if facts.run.lag is not None else kept
    found = lag_of(facts.live or Answer())
    if found is None and facts.position is not None:
        return {"total": facts.position.produced - facts.position.consumed}
    return found


def only_numbers_moved(previous: Status, status: Status) -> bool:
    """Whether the two differ in nothing but numbers that move all the time."""
    return _without_numbers(previous) == _without_numbers(status)


def numbers_moved(previous: Status, status: Status) -> bool:
    """Whether one of the numbers that move all the time has changed."""
    return any(previous.get(name) != status.get(name) for name in _VOLATILE)


def _without_numbers(status: Status) -> Status:
    kept = {key: value for key, value in status.items() if key not in _VOLATILE}
    # Messages of conditions quote the numbers.
    quoting = [{**c, "message": ""} for c in status.get("conditions", ()) if _quotes_numbers(c)]
    others = [c for c in status.get("conditions", ()) if not _quotes_numbers(c)]
    return {**kept, "conditions": [*others, *quoting]}


def _quotes_numbers(condition: Mapping[str, Any]) -> bool:
    return bool(condition["reason"] in ("Restoring", "Stalled") or condition["type"] == "ScalingActive")


def _is_well(conditions: Iterable[Mapping[str, Any]]) -> bool:
    """Whether the app does what is asked for, and nothing is amiss."""
    found = {condition["type"]: condition["status"] for condition in conditions}
    return (found["Ready"], found["Degraded"]) == ("True", "False")


def _last_error(
    facts: Facts, previous: Status, conditions: Iterable[Mapping[str, Any]], now: datetime
) -> Status | None:
    """The last error; it stays for a while when it is over. Some sources repeat an error: it counts as new when its own
    source says something else than before."""
    old: Status | None = previous.get("lastError")
    before: Mapping[str, str] = (old or {}).get("told", {})
    errors = _errors(facts, conditions)
    reported = {source: mark for source, mark in before.items() if source not in errors}
    news = ""
    for source, (message, count) in errors.items():
        if message:
            reported[source] = hashlib.sha256(f"{count} {message}".encode()).hexdigest()[:10]
            if reported[source] != before.get(source):
                news = news or plain(message)[:_LONGEST_ERROR]
    error = {} if old is None else {key: value for key, value in old.items() if key != "told"}
    if news:
        node, record = _NODE.search(news), _RECORD.search(news)
        error = {"message": news, "time": stamp(now)}
        error |= ({"node": node[1]} if node else {}) | ({"record": record[0]} if record else {})
    if _is_well(conditions) and ("time" not in error or seconds_since(error["time"], now) > _OVER_SECONDS):
        error = {}
    return (error | ({"told": reported} if reported else {})) or None


def _errors(facts: Facts, conditions: Iterable[Mapping[str, Any]]) -> dict[str, tuple[str, str]]:
    """The error of each source now, empty for none, and a text that tells it from the same error of another time. A
    source that cannot be asked now is left out."""
    driver = facts.driver
    found = {"version": (facts.rollout.why if facts.rollout.held == ROLLED_BACK else "", "")}
    if facts.live is not None:
        found["driver"] = facts.live.error, ""
        found["executors"] = facts.live.last_loss, str(facts.live.lost)
    found["pod"] = driver.error, f"{driver.uid} {driver.ended}"
    degraded = next(condition for condition in conditions if condition["type"] == "Degraded")
    found["cluster"] = degraded["message"] if degraded["reason"] == "DriverPending" else "", ""
    found["apiServer"] = facts.refusal, ""
    found["manifest"] = "; ".join(facts.problems), ""
    return found
