# SPDX-License-Identifier: Apache-2.0
"""The `streamapp` command, with spies that tell on stdout how long a restore took, to the hundredth of a second, and,
with `EPOCHS` among the environment's variables, what each epoch took.

Runs in a process of its own. Started by systems.py.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQueryListener
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
)

from streamapp.cli.main import main

EPOCHS = "STREAMAPP_BENCHMARK_EPOCHS"


class EpochTimes(StreamingQueryListener):
    """Says "epoch {...}" for each epoch that ends: its sub-topology, number, start and parts in milliseconds."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        told = event.progress
        if "addBatch" in told.durationMs:
            about = {"part": told.name, "epoch": told.batchId, "started": told.timestamp, **told.durationMs}
            print(f"epoch {json.dumps(about)}", flush=True)

    def onQueryStarted(self, event: QueryStartedEvent) -> None: ...
    def onQueryIdle(self, event: QueryIdleEvent) -> None: ...
    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None: ...


def watch() -> None:
    """Says what the spies find."""
    while (session := SparkSession.getActiveSession() or SparkSession._instantiatedSession) is None:
        time.sleep(0.05)
    if EPOCHS in os.environ:
        session.streams.addListener(EpochTimes())
    watch_restore(session)


def watch_restore(session: SparkSession) -> None:
    """Says "restored SECONDS RECORDS" when all store partitions are there, from the first one's start."""
    began: float | None = None
    assert session._jvm is not None
    bridge = session._jvm.org.apache.spark.sql.streamapp.DriverBridge
    while True:
        time.sleep(0.01)
        restores = json.loads(bridge.restores())["partitions"]
        if restores and began is None:
            began = time.monotonic() - max(part["millis"] for part in restores) / 1000
        if len(restores) == 8 and all(part["finished"] for part in restores):
            assert began is not None
            records = sum(part["total"] for part in restores)
            print(f"restored {time.monotonic() - began:.3f} {records}", flush=True)
            return


if __name__ == "__main__":
    threading.Thread(target=watch, daemon=True).start()
    sys.exit(main(sys.argv[1:]))
