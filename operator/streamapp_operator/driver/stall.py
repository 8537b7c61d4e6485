# SPDX-License-Identifier: Apache-2.0
"""Checks whether an app makes progress: where records wait, epochs must be committed. A driver still answers, and says
that it runs, when a user's function never returns. Pure.

The observations are remembered from look to look only; an operator that starts anew begins to wait anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from streamapp.plan import Plan
from streamapp_operator.driver.answer import Answer
from streamapp_operator.driver.pods import RUNNING, DriverState
from streamapp_operator.driver.progress import epochs_of, waiting_of
from streamapp_operator.times import stamp

STILL_SECONDS = 120.0
"""Seconds that a sub-topology may take for an epoch: behind a backlog it takes some three."""
STILL_TRANSACTIONS = 2
"""Or so many times `transactionTimeout`, where that is more: Kafka gives up the transactions of an epoch by then."""
STILL_EPOCHS = 5
"""Or so many times as long as for the epoch before."""


@dataclass(frozen=True)
class StallClock:
    """The observations so far."""

    of: tuple[str, int]
    """The driver's pod, and how many of its containers have ended: one that starts anew counts its epochs anew."""
    since: Mapping[str, tuple[int, datetime]]
    """By sub-topology for which records wait: how many epochs it has committed, and since when no further one."""


def check_stall(
    live: Answer | None, plan: Plan, driver: DriverState, clock: StallClock | None, now: datetime
) -> tuple[str, StallClock | None]:
    """
    Args:
        live: the driver's answer; None when it does not answer.
        plan: of the app.
        driver: its pod.
        clock: the one that the last call returned.
        now: the time.

    Returns:
        The sub-topologies that stand still in words, empty when none does; and the clock for the next call.
    """
    of = driver.uid, driver.ended
    if driver.state != RUNNING or (clock is not None and clock.of != of):
        clock = None
    if live is None:
        return "", clock
    # Without executors no record is processed, and nobody wants it to be.
    if driver.state != RUNNING or live.phase != "Running" or plan.replicas == 0:
        return "", None
    waiting, epochs = waiting_of(live, plan), epochs_of(live)
    known = clock.since if clock is not None else {}
    same = {name for name in waiting if name in known and known[name][0] == epochs.get(name, 0)}
    if plan.run != "continuous" and same != set(waiting):  # one sub-topology after the other
        same = set()
    since = {name: known[name] if name in same else (epochs.get(name, 0), now) for name in waiting}
    still = [name for name in since if (now - since[name][1]).total_seconds() > _patience(live, plan, name)]
    words = ""
    if still:
        begin, records = min(since[name][1] for name in still), max(waiting[name] for name in still)
        parts = ", ".join(f"'{name}'" for name in still)
        words = f"no epoch of {parts} since {stamp(begin)}, although {records} records wait"
    return words, StallClock(of, since)


def _patience(live: Answer, plan: Plan, part: str) -> float:
    """Seconds that the sub-topology may take for an epoch."""
    last = live.parts[part].epoch_ms if part in live.parts else 0
    return max(STILL_SECONDS, STILL_TRANSACTIONS * plan.transaction_timeout_ms / 1000, STILL_EPOCHS * last / 1000)
