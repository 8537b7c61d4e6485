# SPDX-License-Identifier: Apache-2.0
"""How many executors an app should have, by its lag. Pure: from the measurements, now and before, and the time.

At each moment there is a wish, the largest of

- the number that catches up within the time that the manifest allows, at the speed that a replica was seen to have,
- the number that leaves no replica more records of lag than the manifest allows,
- the number that keeps up with the input.

A wish counts when it has lasted: a short while for more replicas, a long one for fewer. One change is a step of limited
size, and the next one waits until the app has settled. Where something is not known, nothing changes.

A replica's speed is the number of records that the app has processed, divided by the time in which its busiest
sub-topology was at work and by the replicas. So it is known long before all replicas are busy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

UP_SECONDS = 10.0
"""More replicas must have been wished for during so many seconds: one late answer of Kafka's is no reason."""
DOWN_SECONDS = 300.0
"""The same for fewer replicas, unless the manifest says otherwise."""
CATCH_UP_SECONDS = 60.0
"""Seconds in which to catch up where the manifest names no target at all."""
RATE_SECONDS = 30.0
"""Rates are taken over so many seconds at most."""
LEAST_RATE_SECONDS = 5.0
"""Rates are taken over so many seconds at least: in shorter times single epochs would show."""
LEAST_BUSY_SECONDS = 0.5
"""Seconds of work below which a replica's speed cannot be measured."""
SETTLE_SECONDS = 30.0
"""No further change for so many seconds after a change: state is restored, which says nothing about speed."""
LONGEST_SETTLE_SECONDS = 120.0
"""An app that processes nothing after a change has settled after so many seconds."""
RECOVER_SECONDS = 600.0
"""For so many seconds after a scale-down, lag that falls is the cost of the change: no reason for more replicas."""
FROZEN_SECONDS = 3600.0
"""A number of replicas that was no faster than a smaller one is not tried again for so many seconds."""
BUSY_SECONDS = 3.0
"""Without word from the driver, replicas count as busy while there is more lag than they process in so many seconds."""
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
class Metrics:
    """The measurements at one moment."""

    produced: int
    """Committed records of all source topics, since ever."""
    consumed: int
    """Those of them that the app has processed."""
    replicas: int
    """Executors that run."""
    useful: int
    """More replicas than this would find no partition to work on."""
    busy: Mapping[str, float] | None = None
    """By sub-topology: seconds of work since its driver has started; None: the driver does not say."""
    topics: frozenset[str] = frozenset()
    """The topics that the records are in."""
    processed: int | None = None
    """Records processed since the driver has started, counted together with `busy`, when an epoch ends; None: the
    driver does not say. `consumed` is read at another moment: it may be a whole epoch ahead of `busy`, or behind."""

    @property
    def lag(self) -> int:
        """Records that are still to be processed."""
        return max(0, self.produced - self.consumed)


@dataclass(frozen=True)
class Sample:
    """Metrics with their time, and the wish at that time."""

    at: datetime
    metrics: Metrics
    wish: int = 0


@dataclass(frozen=True)
class Change:
    """A change of the number of replicas, and why it was made."""

    at: datetime
    was: int
    replicas: int
    why: str
    capacity: float | None = None
    """Records per second that `was` replicas could do; None: not known, or it has been compared already."""


@dataclass(frozen=True)
class Record:
    """The memory that outlives an operator: it stands in the status of the app."""

    wanted: int | None = None
    """Replicas that were decided on; also while the app is suspended."""
    speed: float | None = None
    """Records per second that one replica does."""
    change: Change | None = None
    """The last change."""
    most: int | None = None
    """More replicas than these were no faster."""
    most_until: datetime | None = None
    """Until then they are not tried again."""


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


# --- what was measured --------------------------------------------------------------------------------------


def _noted(history: History, policy: Policy, sample: Sample) -> History:
    """The history with one more sample, without what is too old, and with the speed of a replica if it shows."""
    # One that is older than the longest look-back must stay, to show that it is covered.
    keep = max(policy.down_seconds, RATE_SECONDS + LONGEST_SETTLE_SECONDS) + RATE_SECONDS
    samples = (*(s for s in history.samples if s.at < sample.at and _seconds(s, sample) <= keep), sample)
    record = history.record
    if record.most_until is not None and record.most_until <= sample.at:
        record = replace(record, most=None, most_until=None)
    measured = _speed(samples, record)
    if measured is not None and (record.speed is None or abs(measured - record.speed) > NEWS * record.speed):
        record = replace(record, speed=float(f"{measured:.3g}"))
    return History(samples, record)


def _speed(samples: Sequence[Sample], record: Record) -> float | None:
    """Records per second that one replica does while it is at work."""
    recent = _settled(samples, record)
    latest = samples[-1]
    for first in recent:  # the longest time first
        if latest.metrics.replicas == 0 or _seconds(first, latest) < LEAST_RATE_SECONDS:
            return None
        since = [sample for sample in recent if sample.at >= first.at]
        busy, done = _busy(since), _done(since)
        if done > 0 and busy is not None and busy >= LEAST_BUSY_SECONDS:
            return done / busy / latest.metrics.replicas
    return None


def _done(samples: Sequence[Sample]) -> int:
    """Records processed between the first of these samples and the last, counted as `_busy` counts the time."""
    first, latest = samples[0].metrics, samples[-1].metrics
    if first.processed is not None and latest.processed is not None:
        return latest.processed - first.processed
    return latest.consumed - first.consumed


def _settled(samples: Sequence[Sample], record: Record) -> list[Sample]:
    """The samples of late that are about the same topics and as many replicas as the last one, from when the app works
    again after a change."""
    latest = samples[-1]
    found: list[Sample] = []
    for sample in reversed(samples):
        metrics = sample.metrics
        if (metrics.replicas, metrics.topics) != (latest.metrics.replicas, latest.metrics.topics):
            found = [each for each in found if _seconds(sample, each) >= SETTLE_SECONDS]
            break
        if _seconds(sample, latest) > RATE_SECONDS or sample.at < _soonest(record):
            break
        found.insert(0, sample)
    stood = False
    while len(found) > 1 and found[0].metrics.lag > 0 and found[0].metrics.consumed == found[1].metrics.consumed:
        found.pop(0)
        stood = True
    # The epoch that ends a standstill may have begun before the change.
    return found[1:] if stood else found


def _soonest(record: Record) -> datetime:
    """When the last change may have settled."""
    if record.change is None:
        return datetime.min.replace(tzinfo=UTC)
    return record.change.at + timedelta(seconds=SETTLE_SECONDS)


def _busy(samples: Sequence[Sample]) -> float | None:
    """Seconds in which the busiest sub-topology was at work between the first of these samples and the last; None when
    that is not known."""
    first, latest = samples[0], samples[-1]
    seconds = _seconds(first, latest)
    if seconds <= 0:
        return None
    before, after = first.metrics.busy, latest.metrics.busy
    if before is not None and after is not None:
        spent = [after.get(name, 0.0) - was for name, was in before.items()]
        # A driver that has started anew counts anew.
        return max(spent) if spent and min(spent) >= 0 else None
    return seconds if _has_all_it_can_take(samples) else None


def _has_all_it_can_take(samples: Sequence[Sample]) -> bool:
    """Whether there was more lag than the app processes in BUSY_SECONDS, all the time between the first of these
    samples and the last: its speed then is the speed that it can reach, and not that of its input."""
    rate = (samples[-1].metrics.consumed - samples[0].metrics.consumed) / _seconds(samples[0], samples[-1])
    return all(sample.metrics.lag > rate * BUSY_SECONDS for sample in samples)


def _income(samples: Sequence[Sample]) -> float | None:
    """Records per second that come in; None before it can be measured. Records that a topic held before it was read do
    not count."""
    latest = samples[-1]
    same = [s for s in samples if _seconds(s, latest) <= RATE_SECONDS and s.metrics.topics == latest.metrics.topics]
    seconds = _seconds(same[0], latest)
    if seconds < LEAST_RATE_SECONDS:
        return None
    return max(0.0, (latest.metrics.produced - same[0].metrics.produced) / seconds)


# --- what would be right ------------------------------------------------------------------------------------


def _wish(history: History, policy: Policy, replicas: int) -> tuple[int, str]:
    """How many replicas would be right if things stayed as they are, and why."""
    lag, speed, income = history.samples[-1].metrics.lag, history.record.speed, _income(history.samples)
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


# --- what is done about it ----------------------------------------------------------------------------------


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
    recent = _settled(samples, record)
    works = bool(recent) and (samples[-1].metrics.lag == 0 or _seconds(recent[0], samples[-1]) >= UP_SECONDS)
    if seconds < SETTLE_SECONDS or (seconds < LONGEST_SETTLE_SECONDS and not works):
        return f"the change from {record.change.was} to {_count(record.change.replicas)} settles"
    return ""


def _in_vain(samples: Sequence[Sample], record: Record, policy: Policy) -> Change | None:
    """The last change, if it was a scale-up that has made the app no faster."""
    change, speed = record.change, record.speed
    if change is None or change.capacity is None or speed is None or change.was < policy.low:
        return None
    recent = _settled(samples, record)
    if not recent or recent[-1].metrics.replicas != change.replicas:
        return None
    seconds, busy = _seconds(recent[0], recent[-1]), _busy(recent)
    if seconds < LEAST_RATE_SECONDS or busy is None or busy < BUSY_SHARE * seconds:
        return None
    # An app whose epochs are small is at work all the time too, with whatever comes in.
    if not _has_all_it_can_take(recent):
        return None
    does = _done(recent) / busy
    expected = change.capacity * (change.replicas / change.was - 1) if change.was else 0.0
    return change if does - change.capacity < LEAST_GAIN * expected else None


def _recovers(samples: Sequence[Sample], record: Record, now: datetime) -> bool:
    """Whether the app works off the lag that a scale-down has cost."""
    change = record.change
    if change is None or change.replicas > change.was or (now - change.at).total_seconds() > RECOVER_SECONDS:
        return False
    recent = _settled(samples, record)
    return bool(recent) and recent[-1].metrics.lag < recent[0].metrics.lag


def _wishes(samples: Sequence[Sample], seconds: float) -> list[int]:
    """The wishes in that time; empty when the app was not looked at for so long."""
    latest = samples[-1]
    if _seconds(samples[0], latest) < seconds:
        return []
    return [sample.wish for sample in samples if _seconds(sample, latest) <= seconds]


def _seconds(earlier: Sample, later: Sample) -> float:
    return (later.at - earlier.at).total_seconds()


def _count(replicas: int) -> str:
    return "1 replica" if replicas == 1 else f"{replicas} replicas"
