# SPDX-License-Identifier: Apache-2.0
"""Keeps a driver's last answer: it counts for a while when the driver does not answer. Pure.

One answer that is missing says little: a driver may be busy for a moment, and so may the network. Only the status rests
on this; scaling, and the judgement of a new version, go by an answer of now.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from streamapp_operator.driver.answer import Answer
from streamapp_operator.driver.pods import RUNNING, DriverState
from streamapp_operator.times import stamp

PATIENCE_SECONDS = 10.0
"""Seconds for which the last answer counts: three looks, of which each waits for two seconds."""


@dataclass(frozen=True)
class LastAnswer:
    """The last answer of a driver."""

    of: tuple[str, int]
    """Its pod, and how many of its containers have ended: one that starts anew has something new to say."""
    answer: Answer | None = None
    """None: it has not answered yet."""
    silent_since: datetime | None = None


@dataclass(frozen=True)
class AnswerNow:
    """The answer that counts now."""

    live: Answer | None
    silence: str
    last: LastAnswer | None
    """For the next look; None where there is no driver that could speak."""

    @property
    def is_silent(self) -> bool:
        return self.last is not None and self.last.silent_since is not None


def answer_now(
    live: Answer | None, silence: str, driver: DriverState, last: LastAnswer | None, now: datetime
) -> AnswerNow:
    """
    Args:
        live: the driver's answer; None when it does not answer.
        silence: why it does not.
        driver: its pod.
        last: of the last look.
        now: the time.
    """
    if driver.state != RUNNING:
        return AnswerNow(live, silence, None)
    of = driver.uid, driver.ended
    if live is not None:
        return AnswerNow(live, "", LastAnswer(of, live))
    if last is None or last.of != of:
        last = LastAnswer(of)
    since = last.silent_since or now
    last = replace(last, silent_since=since)
    if last.answer is not None and (now - since).total_seconds() < PATIENCE_SECONDS:
        return AnswerNow(last.answer, "", last)
    return AnswerNow(None, f"{silence} (since {stamp(since)})", last)
