# SPDX-License-Identifier: Apache-2.0
"""`.run()` of the builder runs an app as `streamapp run` does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.kafka

SCRIPT = """
import json, sys
from pathlib import Path
from lib.broker import write
from lib.verify import committed
from pyspark.sql import SparkSession
from streamapp import StreamBuilder
from streamapp.errors import InputError
from streamapp.kafka.broker import EmbeddedBroker
from streamapp.kafka.config import KafkaConfig

b = StreamBuilder("words")
(
    b.stream("lines", topic="text-lines", value="text")
    .flat_map("words", word="split(lower(value), ' ')")
    .group_by("counts", "word")
    .aggregate(count="count(*)")
    .to("out", topic="word-counts")
)
b.run(until_caught_up=True)
with EmbeddedBroker(Path(".streamapp/words/broker")) as broker:
    kafka = KafkaConfig(broker.bootstrap_servers)
    write(kafka, "text-lines", (None, "to be or"), (None, "not to be"))
    b.run(until_caught_up=True, bootstrap_servers=broker.bootstrap_servers)
    found = committed(kafka, "word-counts")
    print("counts", sorted((record.key().decode(), json.loads(record.value())["count"]) for record in found))
b.run()
print("stopped")
SparkSession.builder.master("local[1]").getOrCreate()
try:
    b.run()
except InputError as error:
    print(error)
"""


def test_an_app_runs_to_the_end_of_its_input_and_until_ctrl_c(tmp_path: Path) -> None:
    """One process runs it three times: with an embedded broker, on one that is named, and with the embedded one."""
    command = [sys.executable, "-c", SCRIPT]
    path = {"PYTHONPATH": str(Path(__file__).parents[1])}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path, env={**os.environ, **path})
    assert process.stdout is not None
    told = []
    for line in process.stdout:
        told.append(line.rstrip("\n"))
        if "Ctrl-C stops it" in line and any(each.startswith("counts") for each in told):
            process.send_signal(signal.SIGINT)
    assert process.wait(60) == 0, told
    assert told[1:3] == ["created topic text-lines", "created topic word-counts"]
    assert "counts [('be', 2), ('not', 1), ('or', 1), ('to', 2)]" in told
    ends = [line for line in told if "has caught up" in line]
    assert [end.split(";")[0] for end in ends] == [
        "words has caught up: 0 records read, 0 written, 0 late, 0 bad",
        "words has caught up: 2 records read, 4 written, 0 late, 0 bad",
    ]
    assert told[-2] == "stopped"
    assert told[-1].startswith("this process has started Spark already")
