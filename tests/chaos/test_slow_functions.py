# SPDX-License-Identifier: Apache-2.0
"""A function that takes longer than its transactions may, behind a backlog: the app works it off, with exact
results."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import indent

import pytest

from lib.faults import quick_broker
from lib.inprocess import App
from streamapp.kafka.config import KafkaConfig

pytestmark = pytest.mark.chaos

RECORDS = 60_000
SLOW = """import time


def slowly(row):
    time.sleep(0.002)
    return {"n": row["n"]}
"""


@pytest.mark.parametrize("batch", ["100", "10000"], ids=["small batches", "Spark's batches"])
def test_a_backlog_of_slow_records_ends(tmp_path: Path, batch: str) -> None:
    code = "  transactionTimeout: 10s\n  code:\n    files:\n      slow.py: |\n" + indent(SLOW, " " * 8)
    with quick_broker(tmp_path / "broker") as broker:
        app = App(
            KafkaConfig(broker.bootstrap_servers),
            tmp_path,
            """
  - {name: in, stream: {topic: $T-in, value: {format: json, schema: "n INT"}}}
  - {name: slow, python: {function: "slow:slowly", schema: "n INT"}}
  - {name: out, to: {topic: $T-out}}
""",
            code,
        )
        app.create("in", partitions=1)
        app.send("in", *((None, json.dumps({"n": n})) for n in range(RECORDS)))
        app.run({"spark.sql.execution.arrow.maxRecordsPerBatch": batch})
        assert sorted(record.value["n"] for record in app.received("out")) == list(range(RECORDS))
