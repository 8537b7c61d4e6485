# SPDX-License-Identifier: Apache-2.0
"""An app whose counters a test can predict: each round of input has one good record, one bad and one late."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from lib.broker import in_order
from streamapp.kafka.config import KafkaConfig

TOPOLOGY = """
  - {name: in, stream: {topic: $T-numbers, value: {format: json, schema: "n BIGINT"}}}
  - {name: echo-out, from: in, to: {topic: $T-echo}}
  - {name: windows, from: in, groupBy: [key], window: {tumbling: 1 hour}, aggregate: {total: sum(n)}}
  - {name: windows-out, to: {topic: $T-windows}}
"""
"""A part without state and one with state read the same topic."""
SPEC = "onBadRecord: Drop"

_NOON = 1_704_110_400_000
_HOUR = 3_600_000


class Sender:
    """Sends rounds, each as a whole."""

    def __init__(self, kafka: KafkaConfig, topic: str) -> None:
        self._producer = in_order(kafka)
        self._topic = topic
        self.rounds = 0
        """The number of rounds after the first."""

    def first_round(self) -> None:
        """Sends the first round. No record can be late before it."""
        self._send(("bad", "no json", _NOON), ("good-0", '{"n": 0}', _NOON))

    def round(self) -> None:
        """Sends a round. The good record comes last. Late ones have one key: each of them counts."""
        self.rounds += 1
        content = json.dumps({"n": self.rounds})
        self._send(
            ("bad", "no json", _NOON),
            ("late", content, _NOON - 3 * _HOUR),
            (f"good-{self.rounds}", content, _NOON + self.rounds),
        )

    def _send(self, *records: tuple[str, str, int]) -> None:
        for key, value, at in records:
            self._producer.produce(self._topic, value.encode(), key.encode(), timestamp=at)
        assert self._producer.flush(30) == 0


def counters(status: Mapping[str, Any]) -> dict[str, Any]:
    """The counters that `expected` predicts."""
    names = ("recordsIn", "recordsOut", "lateRecords", "badRecords")
    live = status.get("subTopologies", {})
    parts = {name: {each: part[each] for each in names} for name, part in live.items()}
    return {"recordsRead": status.get("recordsRead"), "parts": parts}


def expected(rounds: int) -> dict[str, Any]:
    """The counters after the first round and so many others."""
    read, good, late, bad = 2 + 3 * rounds, 1 + rounds, rounds, {"in": 1 + rounds}
    return {
        "recordsRead": read,
        "parts": {
            "in": {"recordsIn": read, "recordsOut": good + late, "lateRecords": 0, "badRecords": bad},
            "windows": {"recordsIn": read, "recordsOut": good, "lateRecords": late, "badRecords": bad},
        },
    }
