# SPDX-License-Identifier: Apache-2.0
"""Word count on Spark as it comes: its RocksDB state store with changelog checkpointing, its own Kafka source and sink.

Runs in a process of its own. Started by systems.py, with its settings as one JSON argument.
"""

from __future__ import annotations

import json
import signal
import sys
import threading

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from streamapp.spark.session import JARS

STATE = "spark.sql.streaming.stateStore."
SETTINGS = {
    STATE + "providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    STATE + "rocksdb.changelogCheckpointing.enabled": "true",
    STATE + "rocksdb.trackTotalNumberOfRows": "false",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
# The producer settings that make its sink fastest here, the same as ours.
SINK = {"kafka.linger.ms": "20", "kafka.batch.size": str(256 << 10), "kafka.compression.type": "lz4"}


def main(options: dict[str, str]) -> None:
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    jars = ":".join(str(jar) for jar in sorted((JARS / "spark").glob("*.jar")))
    builder = SparkSession.builder.appName("stock").master(options["master"])
    for key, value in {
        **SETTINGS,
        "spark.sql.shuffle.partitions": options["partitions"],
        "spark.driver.extraClassPath": jars,
        "spark.driver.memory": options["memory"],
        "spark.driver.extraJavaOptions": options["java"],
        "spark.local.dir": options["dir"] + "/spark",
        "spark.sql.warehouse.dir": options["dir"] + "/warehouse",
    }.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    lines = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", options["bootstrap"])
        .option("kafka.isolation.level", "read_committed")
        .option("subscribe", options["input"])
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", options["maxOffsetsPerTrigger"])
        .load()
    )
    words = lines.select(F.explode(F.split(F.col("value").cast("string"), " ")).alias("word"))
    query = (
        words.groupBy("word")
        .count()
        .select(F.col("word").alias("key"), F.col("count").cast("string").alias("value"))
        .writeStream.format("kafka")
        .options(**SINK)
        .option("kafka.bootstrap.servers", options["bootstrap"])
        .option("topic", options["output"])
        .option("checkpointLocation", options["dir"] + "/checkpoint")
        .outputMode("update")
        .start()
    )
    while not stopping.wait(0.2):
        if not query.isActive:
            raise SystemExit(str(query.exception()))
    query.stop()
    spark.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
