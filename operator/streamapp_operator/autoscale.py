# SPDX-License-Identifier: Apache-2.0
"""How many executors an app should have, by its lag. Pure: of what was measured, now and before, and the time.

At each moment there is a wish, the largest of

- what catches up within the time that the manifest allows, at the speed that a replica was seen to have,
- what leaves no replica more records of lag than the manifest allows,
- what keeps up with the input.

A wish counts when it has lasted: a short while for more replicas, a long one for fewer. Where something is not known,
nothing changes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

UP_SECONDS = 10.0
"""So long more replicas must have been wished for: one late answer of Kafka's is no reason."""
DOWN_SECONDS = 300.0
"""The same for fewer, unless the manifest says otherwise."""
CATCH_UP_SECONDS = 60.0
"""Where the manifest names no target at all."""
RATE_SECONDS = 30.0
"""Rates are taken over so long at most."""
LEAST_RATE_SECONDS = 5.0
"""And over so long at least: shorter, and single epochs would show."""
SETTLE_SECONDS = 20.0
"""After replicas have come or gone state is restored, which says nothing about their speed."""
SPEED_SECONDS = 6 * 3600.0
"""So long it is remembered how fast a replica was."""
BUSY_SECONDS = 3.0
"""A replica shows its speed while there is more lag than it does in so many seconds."""
TOLERANCE = 0.1
"""Replicas that are short by less than this share are enough."""

STEADY = "AsWanted"
UP, DOWN = "ScalingUp", "ScalingDown"
WAITING = "Stabilising"
LIMITED = "Limited"
UNKNOWN = "MetricsMissing"
REASONS = (STEADY, UP, DOWN, WAITING, LIMITED, UNKNOWN)


@dataclass(frozen=True)
class Policy:
    """What the manifest says. At least one of the two targets is there."""

    low: int
    high: int
    records_per_replica: int | None = None
    catch_up_seconds: float | None = None
    down_seconds: float = DOWN_SECONDS
    recommend_only: bool = False


@dataclass(frozen=True)
class Metrics:
    """What is known at one moment."""

    produced: int
    """Committed records of all source topics, since ever."""
    consumed: int
    """Those of them that the app has processed."""
    replicas: int
    """Executors that run."""
    useful: int
    """More replicas than this would find no partition to work on."""

    @property
    def lag(self) -> int:
        return max(0, self.produced - self.consumed)


@dataclass(frozen=True)
class Sample:
    """Metrics with their time, and what was wished for then."""

    at: datetime
    metrics: Metrics
    wish: int = 0


@dataclass(frozen=True)
class History:
    """What was measured and wished for, oldest first, and how fast a replica was when it was last busy."""

    samples: tuple[Sample, ...] = ()
    speed: float | None = None
    """Records per second."""
    speed_at: datetime | None = None


@dataclass(frozen=True)
class Decision:
    """So many replicas from now on, and why."""

    replicas: int
    reason: str
    words: str
    recommended: int | None = None
    """What would be done where only a recommendation is asked for."""


def decide(
    metrics: Metrics | None, policy: Policy, history: History, replicas: int, now: datetime
) -> tuple[Decision, History]:
    """
    Args:
        metrics: of now; None when they cannot be had.
        policy: what is asked for.
        history: what the last call returned; an empty one after a start, which only makes the next change later.
        replicas: wanted so far.
        now: the time.

    Returns:
        The decision, and the history for the next one.
    """
    held = min(max(replicas, policy.low), policy.high)
    if metrics is None:
        # Neither more nor fewer is safe. The wishes are forgotten, so that a change must last anew.
        words = f"the lag is not known, so it stays at {_count(held)}"
        return Decision(held, UNKNOWN, words), replace(history, samples=())
    history = _noted(history, policy, Sample(now, metrics))
    wish, why = _wish(history, policy, replicas)
    history = replace(history, samples=(*history.samples[:-1], Sample(now, metrics, wish)))
    decision = _decided(history.samples, policy, replicas, why)
    if policy.recommend_only:
        words = f"recommended: {_count(decision.replicas)}; {decision.words}"
        decision = Decision(held, decision.reason, words, recommended=decision.replicas)
    return decision, history


# --- what was measured --------------------------------------------------------------------------------------


def _noted(history: History, policy: Policy, sample: Sample) -> History:
    """The history with one more sample, without what is too old, and with the speed of a replica if it shows."""
    # One that is older than the longest look-back must stay, to show that it is covered.
    keep = max(policy.down_seconds, RATE_SECONDS + SETTLE_SECONDS) + RATE_SECONDS
    samples = (*(s for s in history.samples if s.at < sample.at and _seconds(s, sample) <= keep), sample)
    speed, at = history.speed, history.speed_at
    if at is not None and (sample.at - at).total_seconds() > SPEED_SECONDS:
        speed, at = None, None
    if (measured := _speed(samples)) is not None:
        speed, at = measured, sample.at
    return History(samples, speed, at)


def _speed(samples: Sequence[Sample]) -> float | None:
    """Records per second that one replica does, if all of them have been busy lately."""
    latest = samples[-1]
    count = latest.metrics.replicas
    changed = next((sample for sample in reversed(samples) if sample.metrics.replicas != count), None)
    settled = [s for s in samples if changed is None or _seconds(changed, s) >= SETTLE_SECONDS]
    recent = [sample for sample in settled if _seconds(sample, latest) <= RATE_SECONDS]
    for first in recent:  # the longest time first
        if count == 0 or _seconds(first, latest) < LEAST_RATE_SECONDS:
            return None
        rate = (latest.metrics.consumed - first.metrics.consumed) / _seconds(first, latest)
        between = [sample for sample in recent if sample.at >= first.at]
        if rate > 0 and all(sample.metrics.lag > rate * BUSY_SECONDS for sample in between):
            return rate / count
    return None


def _income(samples: Sequence[Sample]) -> float | None:
    """Records per second that come in; None before that can be said."""
    latest = samples[-1]
    first = next(sample for sample in samples if _seconds(sample, latest) <= RATE_SECONDS)
    seconds = _seconds(first, latest)
    if seconds < LEAST_RATE_SECONDS:
        return None
    return max(0.0, (latest.metrics.produced - first.metrics.produced) / seconds)


# --- what would be right ------------------------------------------------------------------------------------


def _wish(history: History, policy: Policy, replicas: int) -> tuple[int, str]:
    """How many replicas would be right if things stayed as they are, and why."""
    lag, speed, income = history.samples[-1].metrics.lag, history.speed, _income(history.samples)
    needs: list[tuple[int, str]] = []
    if policy.records_per_replica is not None:
        need = math.ceil(lag / policy.records_per_replica)
        needs.append((need, f"{lag} records of lag, {policy.records_per_replica} for each replica"))
    if speed is not None and income is not None:
        coming = f"{income:.0f} records/s come in and a replica does {speed:.0f}"
        needs.append((_enough(income / speed, replicas), coming))
        if policy.catch_up_seconds is not None:
            rate = income + lag / policy.catch_up_seconds
            words = f"{lag} records of lag to catch up with within {policy.catch_up_seconds:.0f} s, {coming}"
            needs.append((_enough(rate / speed, replicas), words))
    elif policy.catch_up_seconds is not None:
        # How fast a replica is shows only when it is busy. While none is, one less may well do.
        idle = income is not None and lag <= income * BUSY_SECONDS
        words = "no replica is busy" if idle else "how fast a replica is shows when all have been busy for a while"
        needs.append((replicas - 1 if idle else replicas, f"{lag} records of lag; {words}"))
    need, why = max(needs, key=lambda each: each[0])
    # Without any replica nothing is processed; only an app with nothing to do may have none.
    least = 0 if lag == 0 and income == 0 else 1
    return max(need, least), why


def _enough(share: float, replicas: int) -> int:
    """Whole replicas; as many as there are when they are short by next to nothing."""
    return replicas if replicas < share <= replicas * (1 + TOLERANCE) else math.ceil(share)


# --- what is done about it ----------------------------------------------------------------------------------


def _decided(samples: Sequence[Sample], policy: Policy, replicas: int, why: str) -> Decision:
    metrics, wish = samples[-1].metrics, samples[-1].wish
    high = max(policy.low, min(policy.high, metrics.useful))
    limit = f"maxReplicas is {policy.high}" if policy.high <= metrics.useful else f"{high} have work at most"
    if not policy.low <= replicas <= high:
        bounded = min(max(replicas, policy.low), high)
        return Decision(bounded, LIMITED, limit if bounded == high else f"minReplicas is {policy.low}")
    if wish > replicas:
        if replicas == high:
            return Decision(replicas, LIMITED, f"{_count(wish)} would be right, but {limit}: {why}")
        if metrics.replicas < replicas:
            return Decision(replicas, WAITING, f"{metrics.replicas} of {_count(replicas)} run so far; {why}")
        wishes = _wishes(samples, UP_SECONDS)
        if not wishes or min(wishes) <= replicas:
            return Decision(replicas, WAITING, f"{_count(wish)} if this lasts: {why}")
        return Decision(min(min(wishes), high), UP, why)
    if wish < replicas > policy.low:
        wishes = _wishes(samples, policy.down_seconds)
        if not wishes or max(wishes) >= replicas:
            words = f"{_count(max(wish, policy.low))} if this lasts {policy.down_seconds:.0f} s: {why}"
            return Decision(replicas, WAITING, words)
        return Decision(max(*wishes, policy.low), DOWN, why)
    return Decision(replicas, STEADY, why)


def _wishes(samples: Sequence[Sample], seconds: float) -> list[int]:
    """What was wished for in that time; nothing when it was not looked at for so long."""
    latest = samples[-1]
    if _seconds(samples[0], latest) < seconds:
        return []
    return [sample.wish for sample in samples if _seconds(sample, latest) <= seconds]


def _seconds(earlier: Sample, later: Sample) -> float:
    return (later.at - earlier.at).total_seconds()


def _count(replicas: int) -> str:
    return "1 replica" if replicas == 1 else f"{replicas} replicas"
