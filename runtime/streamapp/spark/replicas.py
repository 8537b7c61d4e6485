# SPDX-License-Identifier: Apache-2.0
"""The number of executors of a running app, which may change at any moment."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession


class Replicas:
    """Executors that are wanted, and those that there are. Safe for any thread.

    Args:
        spark: a session whose tasks run in executors, not in threads of this process.
        wanted: executors that it was started for.
    """

    def __init__(self, spark: SparkSession, wanted: int) -> None:
        bridge = spark._jvm.org.apache.spark.sql.streamapp  # type: ignore[union-attr]
        self._executors = bridge.Executors(spark._jsparkSession)
        self._wanted = wanted
        self._status: dict[str, Any] = {"wanted": wanted, "running": 0, "statePartitions": {}}

    def want(self, count: int) -> None:
        """From now on so many. It returns at once; executors come and go within seconds."""
        self._wanted = count
        self.keep()

    def keep(self) -> None:
        """Asks for what is missing, lets go of what is too many, and shares the state out among the rest: to be called
        every second or so."""
        running = self._executors.keep(self._wanted)
        partitions = dict(self._executors.statePartitions())
        self._status = {"wanted": self._wanted, "running": running, "statePartitions": partitions}

    def status(self) -> dict[str, Any]:
        """As plain data: `wanted`, `running`, and `statePartitions` by executor."""
        return self._status
