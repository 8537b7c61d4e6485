# SPDX-License-Identifier: Apache-2.0
"""Repeated events of an app are counted up, as Kubernetes' own recorder does it."""

from __future__ import annotations

import pytest

from lib.operator import Apps, Object
from streamapp_operator.cluster.recorder import SIMILAR, SIMILAR_SECONDS, Recorder
from streamapp_operator.status.events import WARNING, Event, to_object

pytestmark = pytest.mark.cluster


def told(apps: Apps) -> list[tuple[str, int]]:
    """The messages, and the count of each."""
    found = [event for event in apps.kube.list("Event", apps.namespace) if event["reason"] == "Stalled"]
    return sorted((event["message"], event["count"]) for event in found)


def test_events_are_counted_up(apps: Apps) -> None:
    apps.create()
    about, now = apps.get("StreamApp", "word-count"), [0.0]
    recorder = Recorder(lambda: now[0])

    def tell(words: str) -> Object:
        event = to_object(Event(WARNING, "Stalled", words), about, apps.kube.clock.now())
        recorder.record(apps.kube, event)
        return event

    first = tell("no epoch")
    tell("no epoch")
    assert told(apps) == [("no epoch", 2)]
    (event,) = [each for each in apps.kube.list("Event", apps.namespace) if each["reason"] == "Stalled"]
    assert event["firstTimestamp"] == first["firstTimestamp"] <= event["lastTimestamp"]

    # The cluster forgets events.
    apps.kube.delete("Event", apps.namespace, event["metadata"]["name"], event["metadata"]["uid"])
    tell("no epoch")
    assert told(apps) == [("no epoch", 1)]

    others = [f"no epoch for {number} s" for number in range(1, SIMILAR + 3)]
    for words in others:
        tell(words)
    each = [("no epoch", 1), *sorted((words, 1) for words in others[: SIMILAR - 1])]
    assert told(apps) == [(f"(combined from similar events): {others[-1]}", 3), *each]
    tell("no epoch")
    assert ("no epoch", 2) in told(apps)
    now[0] += SIMILAR_SECONDS + 1
    tell("no epoch for a day")
    assert ("no epoch for a day", 1) in told(apps)
