# SPDX-License-Identifier: Apache-2.0
"""What is made of a driver that does not answer: for a while it is taken to do what it said last. Pure.

One answer that is missing says little: a driver may be busy for a moment, and so may the network. Only the status is
kept by this; who scales, or judges a new version, goes by an answer of now.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from streamapp_operator.driver.answer import Answer
from streamapp_operator.driver.pods import RUNNING, DriverState
from streamapp_operator.times import stamp

PATIENCE_SECONDS = 10.0
"""Three looks, of which each waits for two seconds."""


@dataclass(frozen=True)
class Words:
    """What a driver said last."""

    of: tuple[str, int]
    """Its pod, and how many of its containers have ended: one that starts anew has something new to say."""
    said: Answer | None = None
    """None: it has not been heard yet."""
    silent_since: datetime | None = None


@dataclass(frozen=True)
class Heard:
    """What is to be taken for true now."""

    live: Answer | None
    silence: str
    words: Words | None
    """For the next look; None where there is no driver that could speak."""

    @property
    def is_silent(self) -> bool:
        return self.words is not None and self.words.silent_since is not None


def hear(live: Answer | None, silence: str, driver: DriverState, words: Words | None, now: datetime) -> Heard:
    """
    Args:
        live: what the driver says; None when it does not answer.
        silence: why it does not.
        driver: its pod.
        words: of the last look.
        now: the time.
    """
    if driver.state != RUNNING:
        return Heard(live, silence, None)
    of = driver.uid, driver.ended
    if live is not None:
        return Heard(live, "", Words(of, live))
    if words is None or words.of != of:
        words = Words(of)
    since = words.silent_since or now
    words = replace(words, silent_since=since)
    if words.said is not None and (now - since).total_seconds() < PATIENCE_SECONDS:
        return Heard(words.said, "", words)
    return Heard(None, f"{silence} (since {stamp(since)})", words)
