# SPDX-License-Identifier: Apache-2.0
"""How many executors an app should have, by its lag. Pure: from the measurements, now and before, and the time.

At each moment there is a wish, the largest of

- the number that catches up within the time that the manifest allows, at the speed that a replica was seen to have,
- the number that leaves no replica more records of lag than the manifest allows,
- the number that keeps up with the input.

A wish counts when it has lasted: a short while for more replicas, a long one for fewer. One change is a step of limited
size, and the next one waits until the app has settled. Where something is not known, nothing changes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from streamapp_operator.scaling.measurement import (
    LEAST_RATE_SECONDS,
    RATE_SECONDS,
    SETTLE_SECONDS,
    Change,
    Metrics,
    Record,
    Sample,
    busy_seconds,
    has_all_it_can_take,
    income_of,
    processed,
    seconds_between,
    settled,
    speed_of,
)

UP_SECONDS = 10.0
"""More replicas must have been wished for during so many seconds: one late answer of Kafka's is no reason."""
DOWN_SECONDS = 300.0
"""The same for fewer replicas, unless the manifest says otherwise."""
CATCH_UP_SECONDS = 60.0
"""Seconds in which to catch up where the manifest names no target at all."""
LONGEST_SETTLE_SECONDS = 120.0
"""An app that processes nothing after a change has settled after so many seconds."""
RECOVER_SECONDS = 600.0
"""For so many seconds after a scale-down, lag that falls is the cost of the change: no reason for more replicas."""
FROZEN_SECONDS = 3600.0
"""A number of replicas that was no faster than a smaller one is not tried again for so many seconds."""
BUSY_SHARE = 0.8
"""An app that is at work for this share of the time shows what it can do."""
TOLERANCE = 0.1
"""Replicas that are short by less than this share are enough."""
MOST_UP = 2.0
"""One change multiplies the replicas by no more than this."""
MOST_DOWN = 0.4
"""One change takes away no larger share of the replicas than this, but always one."""
LEAST_GAIN = 0.1
"""More replicas must bring this share of the speed that they should add; else they are taken back."""
NEWS = 0.2
"""A speed that differs from the remembered one by less than this share is not worth remembering."""

STEADY = "AsWanted"
UP, DOWN = "ScalingUp", "ScalingDown"
WAITING = "Stabilising"
LIMITED = "Limited"
INEFFECTIVE = "IneffectiveScaling"
UNKNOWN = "MetricsMissing"
REASONS = (STEADY, UP, DOWN, WAITING, LIMITED, INEFFECTIVE, UNKNOWN)


@dataclass(frozen=True)
class Policy:
    """The targets and bounds of the manifest. At least one of the two targets is there."""

    low: int
    high: int
    records_per_replica: int | None = None
    catch_up_seconds: float | None = None
    down_seconds: float = DOWN_SECONDS
    recommend_only: bool = False


@dataclass(frozen=True)
class History:
    """The measurements and wishes, oldest first, and the record."""

    samples: tuple[Sample, ...] = ()
    record: Record = field(default_factory=Record)


@dataclass(frozen=True)
class Decision:
    """So many replicas from now on, and why."""

    replicas: int
    reason: str
    words: str
    recommended: int | None = None
    """The replicas to recommend, where only a recommendation is asked for."""
    record: Record = field(default_factory=Record)
    """The record to remember."""


def decide(
    metrics: Metrics | None, policy: Policy, history: History, replicas: int, now: datetime, hold: str = ""
) -> tuple[Decision, History]:
    """
    Args:
        metrics: of now; None when they cannot be had.
        policy: of the manifest.
        history: the one that the last call returned; after a start one without samples, which only makes the next
            change later.
        replicas: wanted so far.
        now: the time.
        hold: why this is no moment to change anything or to measure; empty: it is one.

    Returns:
        The decision, and the history for the next one.
    """
    held = min(max(replicas, policy.low), policy.high)
    if metrics is None or hold:
        # Neither more nor fewer is safe. The wishes are forgotten, so that a change must last anew.
        words = f"{hold or 'the lag is not known'}, so it stays at {_count(held)}"
        record = replace(history.record, wanted=held)
        return Decision(held, WAITING if hold else UNKNOWN, words, record=record), History((), record)
    history = _noted(history, policy, Sample(now, metrics))
    wish, why = _wish(history, policy, replicas)
    samples = (*history.samples[:-1], Sample(now, metrics, wish))
    decision = _decided(samples, history.record, policy, replicas, why, now)
    record = history.record
    if policy.recommend_only:
        words = f"recommended: {_count(decision.replicas)}; {decision.words}"
        decision = Decision(held, decision.reason, words, recommended=decision.replicas)
    elif decision.replicas != replicas:
        if decision.reason == INEFFECTIVE:
            record = replace(record, most=decision.replicas, most_until=now + timedelta(seconds=FROZEN_SECONDS))
        capacity = record.speed * replicas if record.speed is not None and decision.reason == UP else None
        record = replace(record, change=Change(now, replicas, decision.replicas, decision.words, capacity))
        samples = ()
    record = replace(record, wanted=decision.replicas)
    return replace(decision, record=record), History(samples, record)


# --- the history --------------------------------------------------------------------------------------------


def _noted(history: History, policy: Policy, sample: Sample) -> History:
    """The history with one more sample, without what is too old, and with the speed of a replica if it shows."""
    # One that is older than the longest look-back must stay, to show that it is covered.
    keep = max(policy.down_seconds, RATE_SECONDS + LONGEST_SETTLE_SECONDS) + RATE_SECONDS
    samples = (*(s for s in history.samples if s.at < sample.at and seconds_between(s, sample) <= keep), sample)
    record = history.record
    if record.most_until is not None and record.most_until <= sample.at:
        record = replace(record, most=None, most_until=None)
    measured = speed_of(samples, record)
    if measured is not None and (record.speed is None or abs(measured - record.speed) > NEWS * record.speed):
        record = replace(record, speed=float(f"{measured:.3g}"))
    return History(samples, record)


# --- the wish -----------------------------------------------------------------------------------------------


def _wish(history: History, policy: Policy, replicas: int) -> tuple[int, str]:
    """How many replicas would be right if things stayed as they are, and why."""
    lag, speed, income = history.samples[-1].metrics.lag, history.record.speed, income_of(history.samples)
    idle = lag == 0 and income == 0
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
    elif policy.catch_up_seconds is not None or not idle:
        words = "nothing comes in" if idle else "the speed of a replica and the rate of the input are not known yet"
        needs.append((1 if idle else replicas, f"{lag} records of lag; {words}"))
    need, why = max(needs, key=lambda each: each[0])
    # Without any replica nothing is processed; only an app with nothing to do may have none.
    return max(need, 0 if idle else 1), why


def _enough(share: float, replicas: int) -> int:
    """Whole replicas; as many as there are when they are short by next to nothing."""
    return replicas if replicas < share <= replicas * (1 + TOLERANCE) else math.ceil(share)


# --- the decision -------------------------------------------------------------------------------------------


def _decided(
    samples: Sequence[Sample], record: Record, policy: Policy, replicas: int, why: str, now: datetime
) -> Decision:
    metrics, wish = samples[-1].metrics, samples[-1].wish
    high, limit = _limit(metrics, record, policy)
    if not policy.low <= replicas <= high:
        bounded = min(max(replicas, policy.low), high)
        return Decision(bounded, LIMITED, limit if bounded == high else f"minReplicas is {policy.low}")
    if (settling := _settling(samples, record, now)) and wish != replicas:
        return Decision(replicas, WAITING, f"{settling}; {why}")
    if (change := _in_vain(samples, record, policy)) is not None:
        return Decision(change.was, INEFFECTIVE, f"{_count(change.replicas)} were no faster than {change.was}")
    if wish > replicas:
        if replicas == high:
            return Decision(replicas, LIMITED, f"{_count(wish)} would be right, but {limit}: {why}")
        if metrics.replicas < replicas:
            return Decision(replicas, WAITING, f"{metrics.replicas} of {_count(replicas)} run so far; {why}")
        if _recovers(samples, record, now):
            return Decision(replicas, WAITING, f"the lag falls after the last change; {why}")
        wishes = _wishes(samples, UP_SECONDS)
        if not wishes or min(wishes) <= replicas:
            return Decision(replicas, WAITING, f"{_count(wish)} if this lasts: {why}")
        return Decision(min(*wishes, high, max(1, int(replicas * MOST_UP))), UP, why)
    if wish < replicas > policy.low:
        wishes = _wishes(samples, policy.down_seconds)
        if not wishes or max(wishes) >= replicas:
            words = f"{_count(max(wish, policy.low))} if this lasts {policy.down_seconds:.0f} s: {why}"
            return Decision(replicas, WAITING, words)
        least = min(replicas - 1, math.ceil(replicas * (1 - MOST_DOWN)))
        return Decision(max(*wishes, policy.low, least), DOWN, why)
    return Decision(replicas, STEADY, why)


def _limit(metrics: Metrics, record: Record, policy: Policy) -> tuple[int, str]:
    """The most replicas that there may be, and why no more."""
    limits = [(policy.high, f"maxReplicas is {policy.high}"), (metrics.useful, f"{metrics.useful} have work at most")]
    if record.most is not None:
        limits.append((record.most, f"more than {record.most} were no faster"))
    high, words = min(limits, key=lambda each: each[0])
    return max(policy.low, high), words


def _settling(samples: Sequence[Sample], record: Record, now: datetime) -> str:
    """Why the app has not settled since the last change; empty: it has."""
    if record.change is None:
        return ""
    seconds = (now - record.change.at).total_seconds()
    recent = settled(samples, record)
    works = bool(recent) and (samples[-1].metrics.lag == 0 or seconds_between(recent[0], samples[-1]) >= UP_SECONDS)
    if seconds < SETTLE_SECONDS or (seconds < LONGEST_SETTLE_SECONDS and not works):
        return f"the change from {record.change.was} to {_count(record.change.replicas)} settles"
    return ""


def _in_vain(samples: Sequence[Sample], record: Record, policy: Policy) -> Change | None:
    """The last change, if it was a scale-up that has made the app no faster."""
    change, speed = record.change, record.speed
    if change is None or change.capacity is None or speed is None or change.was < policy.low:
        return None
    recent = settled(samples, record)
    if not recent or recent[-1].metrics.replicas != change.replicas:
        return None
    seconds, busy = seconds_between(recent[0], recent[-1]), busy_seconds(recent)
    if seconds < LEAST_RATE_SECONDS or busy is None or busy < BUSY_SHARE * seconds:
        return None
    # An app whose epochs are small is at work all the time too, with whatever comes in.
    if not has_all_it_can_take(recent):
        return None
    does = processed(recent) / busy
    expected = change.capacity * (change.replicas / change.was - 1) if change.was else 0.0
    return change if does - change.capacity < LEAST_GAIN * expected else None


def _recovers(samples: Sequence[Sample], record: Record, now: datetime) -> bool:
    """Whether the app works off the lag that a scale-down has cost."""
    change = record.change
    if change is None or change.replicas > change.was or (now - change.at).total_seconds() > RECOVER_SECONDS:
        return False
    recent = settled(samples, record)
    return bool(recent) and recent[-1].metrics.lag < recent[0].metrics.lag


def _wishes(samples: Sequence[Sample], seconds: float) -> list[int]:
    """The wishes in that time; empty when the app was not looked at for so long."""
    latest = samples[-1]
    if seconds_between(samples[0], latest) < seconds:
        return []
    return [sample.wish for sample in samples if seconds_between(sample, latest) <= seconds]


def _count(replicas: int) -> str:
    return "1 replica" if replicas == 1 else f"{replicas} replicas"
