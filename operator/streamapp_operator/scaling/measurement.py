# SPDX-License-Identifier: Apache-2.0
"""The measurements of an app that is scaled, and its speed by them. Pure.

A replica's speed is the number of records that the app has processed, divided by the time in which its busiest
sub-topology was at work and by the replicas. So it is known long before all replicas are busy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

RATE_SECONDS = 30.0
"""Rates are taken over so many seconds at most."""
LEAST_RATE_SECONDS = 5.0
"""Rates are taken over so many seconds at least: in shorter times single epochs would show."""
LEAST_BUSY_SECONDS = 0.5
"""Seconds of work below which a replica's speed cannot be measured."""
SETTLE_SECONDS = 30.0
"""No further change for so many seconds after a change: state is restored, which says nothing about speed."""
BUSY_SECONDS = 3.0
"""Without word from the driver, replicas count as busy while there is more lag than they process in so many seconds."""


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


def speed_of(samples: Sequence[Sample], record: Record) -> float | None:
    """Records per second that one replica does while it is at work."""
    recent = settled(samples, record)
    latest = samples[-1]
    for first in recent:  # the longest time first
        if latest.metrics.replicas == 0 or seconds_between(first, latest) < LEAST_RATE_SECONDS:
            return None
        since = [sample for sample in recent if sample.at >= first.at]
        busy, done = busy_seconds(since), processed(since)
        if done > 0 and busy is not None and busy >= LEAST_BUSY_SECONDS:
            return done / busy / latest.metrics.replicas
    return None


def processed(samples: Sequence[Sample]) -> int:
    """Records processed between the first of these samples and the last, counted as `busy_seconds` counts the time."""
    first, latest = samples[0].metrics, samples[-1].metrics
    if first.processed is not None and latest.processed is not None:
        return latest.processed - first.processed
    return latest.consumed - first.consumed


def settled(samples: Sequence[Sample], record: Record) -> list[Sample]:
    """The samples of late that are about the same topics and as many replicas as the last one, from when the app works
    again after a change."""
    latest = samples[-1]
    found: list[Sample] = []
    for sample in reversed(samples):
        metrics = sample.metrics
        if (metrics.replicas, metrics.topics) != (latest.metrics.replicas, latest.metrics.topics):
            found = [each for each in found if seconds_between(sample, each) >= SETTLE_SECONDS]
            break
        if seconds_between(sample, latest) > RATE_SECONDS or sample.at < _soonest(record):
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


def busy_seconds(samples: Sequence[Sample]) -> float | None:
    """Seconds in which the busiest sub-topology was at work between the first of these samples and the last; None when
    that is not known."""
    first, latest = samples[0], samples[-1]
    seconds = seconds_between(first, latest)
    if seconds <= 0:
        return None
    before, after = first.metrics.busy, latest.metrics.busy
    if before is not None and after is not None:
        spent = [after.get(name, 0.0) - was for name, was in before.items()]
        # A driver that has started anew counts anew.
        return max(spent) if spent and min(spent) >= 0 else None
    return seconds if has_all_it_can_take(samples) else None


def has_all_it_can_take(samples: Sequence[Sample]) -> bool:
    """Whether there was more lag than the app processes in BUSY_SECONDS, all the time between the first of these
    samples and the last: its speed then is the speed that it can reach, and not that of its input."""
    rate = (samples[-1].metrics.consumed - samples[0].metrics.consumed) / seconds_between(samples[0], samples[-1])
    return all(sample.metrics.lag > rate * BUSY_SECONDS for sample in samples)


def income_of(samples: Sequence[Sample]) -> float | None:
    """Records per second that come in; None before it can be measured. Records that a topic held before it was read do
    not count."""
    latest = samples[-1]
    same = [
        s for s in samples if seconds_between(s, latest) <= RATE_SECONDS and s.metrics.topics == latest.metrics.topics
    ]
    seconds = seconds_between(same[0], latest)
    if seconds < LEAST_RATE_SECONDS:
        return None
    return max(0.0, (latest.metrics.produced - same[0].metrics.produced) / seconds)


def seconds_between(earlier: Sample, later: Sample) -> float:
    return (later.at - earlier.at).total_seconds()
