# SPDX-License-Identifier: Apache-2.0
"""The verdict of each condition: its status, reason and message. Pure, from the facts."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from streamapp_operator.driver.answer import Answer
from streamapp_operator.driver.pods import ABSENT, ENDED, FAILED, PENDING, RUNNING, STOPPING
from streamapp_operator.driver.progress import lag_of, restore_of
from streamapp_operator.driver.restart_budget import STATE
from streamapp_operator.manifest.change_classes import FORBIDDEN, NEEDS_STATE_MIGRATION
from streamapp_operator.observe.runs import FAILED as RUN_FAILED
from streamapp_operator.scaling import autoscaler as autoscale
from streamapp_operator.status.facts import LEADS_NOWHERE, Facts
from streamapp_operator.times import seconds_since, stamp
from streamapp_operator.versions.rollout import INVALID, PAUSED, ROLLED_BACK

Verdict = tuple[str, str, str]
"""Status, reason, message."""

TRUE, FALSE, UNKNOWN = "True", "False", "Unknown"
LONGEST_MESSAGE = 32_000
"""The definition takes 32,768 characters."""
EXECUTORS_SECONDS = 30.0
"""Seconds that executors may take to come: one that is lost, or wanted in addition, is there within ten. The driver's
pod may take as long: volumes that come a moment after it are no trouble."""
DELETING = "the driver stops, then the internal topics are deleted, as spec.deletionPolicy says"


def verdicts_of(facts: Facts, progressing: Mapping[str, Any] | None, now: datetime) -> dict[str, Verdict]:
    """The verdicts of all conditions that hold, by type.

    Args:
        facts: of now.
        progressing: the condition Progressing so far; None: there was none.
        now: the time.
    """
    return {
        "Ready": _ready(facts),
        "Progressing": _progressing(facts),
        "Degraded": _degraded(facts, _under_way(progressing, now)),
        "TopologyValid": _topology_valid(facts),
        "StateRestored": _state_restored(facts),
        "ScalingActive": _scaling_active(facts),
        "Paused": _paused(facts),
        **_for_tools(facts),
    }


def _ready(facts: Facts) -> Verdict:
    driver = facts.driver
    if facts.deleting:
        return FALSE, "Deleting", DELETING
    if facts.app is None and facts.is_stopped:
        return FALSE, "TopologyInvalid", "the manifest cannot be run: see the condition TopologyValid"
    if facts.suspended:
        return FALSE, "Suspended", "spec.suspend is true"
    if facts.rest is not None:
        return FALSE, "DriverFailed" if facts.rest == "Failed" else facts.rest, _run_words(facts)
    if facts.halted:
        return FALSE, "RestartsUsedUp", facts.halted_words
    if facts.unusable_secret and facts.is_stopped:
        return FALSE, "SecretUnusable", facts.unusable_secret
    waiting = {
        ABSENT: "DriverPending",
        PENDING: "DriverPending",
        ENDED: "DriverStopping",
        STOPPING: "DriverStopping",
        FAILED: "DriverFailed",
    }
    if driver.state in waiting:
        return FALSE, waiting[driver.state], driver.message
    if facts.is_silent:
        return UNKNOWN, "DriverSilent", facts.silence
    if facts.live is None:
        return FALSE, "DriverStarting", driver.message
    phases = {
        "Starting": ("DriverStarting", "the driver starts"),
        "Restoring": ("Restoring", _restore_words(facts)),
        "Restarting": ("QueryRestarting", _error_of(facts) or "a query failed and is tried again"),
        "Stopped": ("Stopped", "the app has come to the end of its input"),
        "Failed": ("DriverFailed", _error_of(facts) or "the app has failed"),
    }
    if facts.live_phase in phases:
        return FALSE, *phases[facts.live_phase]
    if not facts.live_phase:
        return (
            UNKNOWN,
            "DriverSilent",
            "the driver reports no phase that this operator knows",
        )
    if facts.executors == 0 and facts.wanted_executors > 0:
        return FALSE, "NoExecutors", f"none of {facts.wanted_executors} executors runs"
    if words := _waiting_without_executors(facts):
        return FALSE, "ScaledToZero", words
    if not driver.ready:
        return FALSE, "DriverStarting", "the driver runs, and its pod is not ready yet"
    if facts.stalled:
        return FALSE, "Stalled", facts.stalled
    return _not_yet(facts) or (TRUE, "Processing", "records are processed")


def _waiting_without_executors(facts: Facts) -> str:
    """How many records wait for executors that nobody asks for, and what to do; empty when none does."""
    waiting = (lag_of(facts.live or Answer()) or {}).get("total", 0)
    if facts.app is None or facts.wanted_executors > 0 or facts.executors > 0 or not waiting:
        return ""
    if facts.app.manifest.spec.autoscaling is not None:
        return f"{waiting:,} records wait; autoscaling took the last executor away, and asks for one at its next look"
    return f"{waiting:,} records wait, and spec.replicas is 0: kubectl scale streamapp {facts.app.name} --replicas=1"


def _not_yet(facts: Facts) -> Verdict | None:
    """Why an app that processes records is not what its resource asks for; None when it is."""
    if held := _held(facts):
        return FALSE, *held
    if facts.rollout.held == PAUSED:
        return FALSE, "UpdatePaused", f"records are processed as before; {facts.rollout.why}"
    if facts.outdated:
        return FALSE, "Updating", "an earlier driver processes records, and is about to be replaced"
    if facts.rollout.on_trial and facts.rollout.can_go_back:
        return UNKNOWN, "Proving", _trial_words(facts)
    return None


def _held(facts: Facts) -> tuple[str, str] | None:
    """Why the wanted version does not come to run until somebody changes something: reason and message; None when
    nothing speaks against it."""
    if facts.rollout.held == INVALID or facts.problems:
        words = f"the manifest cannot be run: {_lines(facts.problems)}"
        if facts.app is None:
            return "TopologyInvalid", words
        return "UpdateRefused", f"{words}\nThe running version goes on"
    if facts.rollout.held in (NEEDS_STATE_MIGRATION, FORBIDDEN):
        return "UpdateRefused", f"{facts.rollout.why}. The running version goes on"
    if facts.rollout.held == ROLLED_BACK:
        return "RolledBack", facts.rollout.why
    if facts.refusal:
        return "Refused", facts.refusal
    return None


def _for_tools(facts: Facts) -> dict[str, Verdict]:
    """The conditions that kstatus, and with it Flux and Helm, looks for in a resource of any kind: `Stalled` where the
    wanted state does not come by itself, else `Reconciling` while something is under way."""
    if not facts.deleting:
        if held := _held(facts):
            return {"Stalled": (TRUE, *held)}
        if facts.halted:
            return {"Stalled": (TRUE, "RestartsUsedUp", facts.halted_words)}
        if facts.rest == "Failed":
            return {"Stalled": (TRUE, "DriverFailed", _run_words(facts))}
    progressing = _progressing(facts)
    return {"Reconciling": progressing} if progressing[0] == TRUE else {}


def _progressing(facts: Facts) -> Verdict:
    if facts.deleting:
        return TRUE, "Deleting", DELETING
    if facts.changes:
        return TRUE, "Applying", "; ".join(facts.changes)
    if facts.rest is not None:
        return FALSE, "Settled", "nothing is under way"
    if facts.suspended:
        if facts.is_gone:
            return FALSE, "Settled", "nothing is under way"
        return TRUE, "Stopping", "the driver stops"
    if facts.halted:
        return FALSE, "Settled", "nothing is under way"
    if facts.driver.state in (ABSENT, PENDING, STOPPING) and facts.app is not None:
        return TRUE, "Starting", facts.driver.message
    if facts.driver.state == RUNNING and facts.live_phase == "Restoring":
        return TRUE, "Restoring", _restore_words(facts)
    if facts.driver.state not in (ABSENT, FAILED) and facts.live_phase in ("", "Starting") and not facts.is_silent:
        return TRUE, "Starting", "the driver starts"
    if facts.live_phase == "Running" and facts.executors != facts.wanted_executors and facts.app is not None:
        return TRUE, "Scaling", f"{facts.executors} executors run, {facts.wanted_executors} are wanted"
    if facts.live_phase == "Running" and facts.rollout.on_trial and facts.rollout.can_go_back:
        return TRUE, "Proving", _trial_words(facts)
    return FALSE, "Settled", "nothing is under way"


def _degraded(facts: Facts, under_way: float) -> Verdict:
    """`under_way`: for how many seconds the app has been Progressing."""
    if facts.suspended:
        return FALSE, "AsExpected", "spec.suspend is true"
    if facts.rest == "Failed":
        return TRUE, "DriverFailed", _run_words(facts)
    if facts.halted:
        return TRUE, "RestartsUsedUp", facts.halted_words
    if facts.driver.trouble and under_way > EXECUTORS_SECONDS:
        return TRUE, "DriverPending", facts.driver.message
    if facts.driver.cause == STATE and facts.live_phase != "Running":
        return TRUE, "StateLost", facts.driver.error
    if facts.driver.state == FAILED or facts.live_phase == "Failed":
        return TRUE, "DriverFailed", _error_of(facts) or facts.driver.message
    if facts.live_phase == "Restarting":
        return TRUE, "QueryRestarting", _error_of(facts) or "a query failed and is tried again"
    if facts.is_silent:
        return TRUE, "DriverSilent", facts.silence
    if facts.unusable_secret:
        return TRUE, "SecretUnusable", facts.unusable_secret
    if facts.refusal:
        return TRUE, "Refused", facts.refusal
    if facts.live_phase in ("Running", "Restoring") and facts.live is not None and facts.live.error:
        return TRUE, "KafkaTrouble", facts.live.error
    missing = facts.live_phase == "Running" and facts.executors < facts.wanted_executors
    if missing and under_way > EXECUTORS_SECONDS:
        return TRUE, "ExecutorsMissing", f"{facts.executors} of {facts.wanted_executors} executors run"
    if facts.stalled:
        return TRUE, "Stalled", facts.stalled
    if facts.rollout.held == ROLLED_BACK:
        return TRUE, "RolledBack", facts.rollout.why
    return FALSE, "AsExpected", "nothing is amiss"


def _under_way(progressing: Mapping[str, Any] | None, now: datetime) -> float:
    if progressing is None or progressing["status"] != TRUE:
        return 0.0
    return seconds_since(progressing["lastTransitionTime"], now)


def _topology_valid(facts: Facts) -> Verdict:
    if facts.problems:
        return FALSE, "Invalid", _lines(facts.problems)
    if facts.rollout.held in (NEEDS_STATE_MIGRATION, FORBIDDEN):
        return FALSE, facts.rollout.held, f"{facts.rollout.why}. The running version goes on"
    if facts.app is not None and facts.app.dead_ends:
        return TRUE, LEADS_NOWHERE, _lines(("the manifest can be run, but:", *facts.app.dead_ends))
    return TRUE, "Valid", "the manifest can be run"


def _lines(lines: tuple[str, ...]) -> str:
    """As many lines as there is room for, and how many are left out."""
    kept: list[str] = []
    room = LONGEST_MESSAGE - len(f"\nand {len(lines)} more")
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            return "\n".join([*kept, f"and {len(lines) - len(kept)} more"])
        kept.append(line)
    return "\n".join(kept)


def _state_restored(facts: Facts) -> Verdict:
    if facts.app is not None and not facts.app.plan.stores:
        return TRUE, "NoState", "the app keeps no state"
    if facts.live is None or facts.live_phase in ("Starting", "Failed", "Stopped"):
        return UNKNOWN, "DriverNotRunning", "the driver does not run"
    if facts.live_phase == "Restoring":
        return FALSE, "Restoring", _restore_words(facts)
    return TRUE, "Restored", "every store is there"


def _scaling_active(facts: Facts) -> Verdict:
    if facts.app is None:
        return FALSE, "TopologyInvalid", "the manifest cannot be run: see the condition TopologyValid"
    if facts.app.manifest.spec.autoscaling is None:
        return FALSE, "AutoscalingOff", "spec.autoscaling is not there"
    if facts.suspended:
        return FALSE, "Suspended", "spec.suspend is true"
    if facts.scaling is None:
        return FALSE, "ReconciliationPaused", "reconciliation is paused, so the number of executors stays as it is"
    reason, words = facts.scaling.reason, facts.scaling.words
    if reason == autoscale.UNKNOWN:
        return UNKNOWN, reason, words
    if facts.scaling.recommended is not None:
        return FALSE, "RecommendOnly", words
    return TRUE, reason, words


def _paused(facts: Facts) -> Verdict:
    if facts.paused:
        return TRUE, "ReconciliationPaused", "the annotation streamapp.dev/pause-reconciliation is true"
    if facts.suspended:
        return TRUE, "Suspended", "spec.suspend is true"
    return FALSE, "Active", "the operator acts"


def _error_of(facts: Facts) -> str:
    error = facts.live.error if facts.live is not None else ""
    return error or facts.driver.error


def _trial_words(facts: Facts) -> str:
    app, healthy = facts.rollout.app, facts.rollout.healthy
    assert app is not None
    assert healthy is not None
    return (
        "the new version has to commit epochs and bring its lag down; "
        f"when it does not for {app.progress_deadline:.0f} s, generation {healthy.number} comes back"
    )


def _restore_words(facts: Facts) -> str:
    restore = restore_of(facts.live or Answer())
    return f"stores are restored: {restore['progress']}" if restore else "stores are restored"


def _run_words(facts: Facts) -> str:
    """The result of the last run to the end of the input, and when the next one begins."""
    run = facts.run
    if run is None:
        words = "there has been no run yet"
    elif run.result == RUN_FAILED:
        words = run.error
    else:
        words = f"caught up at {run.ended}" + ("" if run.records is None else f": {run.records} records")
    return words if facts.next_run is None else f"{words}; the next run begins at {stamp(facts.next_run)}"
