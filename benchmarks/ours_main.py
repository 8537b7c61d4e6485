# SPDX-License-Identifier: Apache-2.0
"""The `streamapp` command, with a spy that prints on stdout how long a restore took, to the hundredth of a second, or,
with `EPOCHS` among the environment's variables, once a second what the last epoch of each sub-topology took.

Runs in a process of its own. Started by systems.py.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time

from pyspark.sql import SparkSession

from streamapp.cli.main import main

EPOCHS = "STREAMAPP_BENCHMARK_EPOCHS"


def watch() -> None:
    """Prints the spy's findings."""
    while (session := SparkSession.getActiveSession() or SparkSession._instantiatedSession) is None:
        time.sleep(0.05)
    if EPOCHS in os.environ:
        watch_epochs(session)
    else:
        watch_restore(session)


def watch_epochs(session: SparkSession) -> None:
    """Prints "epoch {...}": a sub-topology, and of its last epoch the number, the start and its parts in milliseconds.

    A listener would see all epochs, and would be a third of the load: Spark calls it by reflection for each event.
    """
    last: dict[str | None, int] = {}
    while True:
        time.sleep(1)
        for query in session.streams.active:
            progress = query.lastProgress
            if (
                progress is not None
                and "addBatch" in progress.durationMs
                and progress.batchId != last.get(progress.name)
            ):
                last[progress.name] = progress.batchId
                about = {
                    "part": progress.name,
                    "epoch": progress.batchId,
                    "started": progress.timestamp,
                    **progress.durationMs,
                }
                print(f"epoch {json.dumps(about)}", flush=True)


def watch_restore(session: SparkSession) -> None:
    """Prints "restored SECONDS RECORDS" when all store partitions are there, from the first one's start."""
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
