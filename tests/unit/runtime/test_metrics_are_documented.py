# SPDX-License-Identifier: Apache-2.0
"""The table of metrics in the manual and the one in the code are the same."""

from __future__ import annotations

import re
from pathlib import Path

from streamapp.spark.metrics import TABLE, registry

STATUS = {
    "name": "app",
    "phase": "Running",
    "subTopologies": {
        "part": {
            "recordsIn": 3,
            "recordsOut": 2,
            "bytesOut": 10,
            "changelogRecords": 1,
            "epochs": 5,
            "lateRecords": 4,
            "lostRecords": 7,
            "badRecords": {"in": 6},
            "epochMs": {"addBatch": 250},
            "eventTimeDelaySeconds": 1.5,
        }
    },
    "lag": {"topic/with-slashes/3": 7},
    "expiringRecords": {"topic/with-slashes/3": 2},
    "stores": {"s": {"rowsEstimate": 8, "bytes": 9}},
    "restore": {"s": {"done": 1, "total": 2, "restored": 6, "etaSeconds": 0.5}},
}


def test_every_metric_stands_in_the_manual(root: Path) -> None:
    manual = (root / "docs" / "operating.md").read_text()
    documented = set(re.findall(r"^\| `(streamapp_[a-z_]+)`", manual, re.MULTILINE))
    assert documented == set(TABLE)


def test_every_metric_has_a_value_when_the_status_has_one() -> None:
    own = registry(lambda: STATUS)
    samples = {metric.name: metric.samples for metric in own.collect()}
    assert samples.keys() == TABLE.keys()
    assert all(samples.values())
    assert (
        own.get_sample_value("streamapp_consumer_lag", {"name": "app", "topic": "topic/with-slashes", "partition": "3"})
        == 7
    )
    assert (
        own.get_sample_value(
            "streamapp_epoch_duration_seconds", {"name": "app", "subtopology": "part", "step": "addBatch"}
        )
        == 0.25
    )
