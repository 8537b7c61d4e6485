# SPDX-License-Identifier: Apache-2.0
"""The `streamapp` command, with a spy that tells on stdout how long a restore took, to the hundredth of a second.

Runs in a process of its own. Started by systems.py.
"""

from __future__ import annotations

import json
import sys
import threading
import time

from pyspark.sql import SparkSession

from streamapp.cli.main import main


def watch_restore() -> None:
    """Says "restored SECONDS RECORDS" when all store partitions are there, from the first one's start."""
    began: float | None = None
    while (session := SparkSession.getActiveSession() or SparkSession._instantiatedSession) is None:
        time.sleep(0.05)
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
    threading.Thread(target=watch_restore, daemon=True).start()
    sys.exit(main(sys.argv[1:]))
