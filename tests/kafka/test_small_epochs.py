# SPDX-License-Identifier: Apache-2.0
"""A small epoch is one stage, as the driver reads its records, and one task, with all state partitions. Results and
counts are those of larger epochs."""

from __future__ import annotations

import json
import os
import random
import signal
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark import SparkContext

from lib.inprocess import App
from streamapp.errors import InputError
from streamapp.kafka.admin import Admin
from streamapp.kafka.config import KafkaConfig

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

TOPOLOGY = """
  - {name: in, stream: {topic: $T-in, value: {format: json, schema: "n BIGINT, text STRING"}}}
  - {name: small-sums, from: in, groupBy: [key], aggregate: {total: sum(n), size: max(length(text)), last: max(text)}}
  - {name: out, to: {topic: $T-out}}
"""
FEW = [(f"few-{n}", n, "") for n in range(20)]
MANY = [(f"many-{n % 10}", n, "") for n in range(3000)]
LARGE = [(f"large-{n}", n, "x" * 100_000) for n in range(30)]
"""Few records, of 3 MB."""
STEPS = [(FEW, 1, 1), (MANY, 2, 3), (FEW, 1, 1), (LARGE, 2, 3), (FEW, 2, 3)]
"""The records of each epoch, and its number of stages and tasks. After one that is too much, the driver reads none."""


def test_results_and_counts_do_not_depend_on_who_reads(kafka: KafkaConfig, tmp_path: Path) -> None:
    app = App(kafka, tmp_path, TOPOLOGY, "  onBadRecord: Drop")
    app.create("in")  # what is committed in one partition is there at once, and read by one epoch
    send = _in_transactions(kafka, app)
    jobs: list[tuple[int, int]] = []
    sent = 0

    def watch(status: Mapping[str, Any]) -> None:
        nonlocal sent
        if _counts(status) != _counts_after(sent):
            return
        if len(jobs) < sent:
            jobs.append(_stages_and_tasks_of_last_job())
        elif not sent and "epoch" not in status.get("subTopologies", {}).get("small-sums", {}):
            return  # the first epoch of a run has a task for each partition of the state
        elif sent < len(STEPS):
            send(STEPS[sent][0])
            sent += 1
        else:
            os.kill(os.getpid(), signal.SIGTERM)

    app.run_until_told(watch)
    assert jobs == [(stages, tasks) for _, stages, tasks in STEPS]
    expected: dict[str, dict[str, Any]] = {}
    for records, _, _ in STEPS:
        for key, n, text in records:
            row = expected.setdefault(key, {"total": 0, "size": 0, "last": ""})
            row["total"] += n
            row["size"], row["last"] = max(row["size"], len(text)), max(row["last"], text)
    assert app.latest("out") == expected


def test_a_small_epoch_is_one_also_when_a_next_run_repeats_it(kafka: KafkaConfig, tmp_path: Path) -> None:
    app = App(kafka, tmp_path, TOPOLOGY)
    app.create("in", "out")
    admin = Admin(kafka)
    admin.alter(app.topic("out"), {"max.message.bytes": "100"})  # room for the mark of a transaction, and for no record
    app.send("in", ("a", {"n": 1, "text": random.Random(7).randbytes(100).hex()}))
    with pytest.raises(InputError, match=f"a record for topic '{app.topic('out')}'"):
        app.run()
    admin.alter(app.topic("out"), {"max.message.bytes": "1000000"})
    stages = set()

    def watch(status: Mapping[str, Any]) -> None:
        if _counts(status)["read"] == 1:
            stages.add(_stages_and_tasks_of_last_job()[0])
            os.kill(os.getpid(), signal.SIGTERM)

    app.run_until_told(watch)
    assert stages == {1}
    assert set(app.latest("out")) == {"a"}


def test_one_consumer_fetches_for_the_driver(kafka: KafkaConfig, tmp_path: Path) -> None:
    """Whatever the number of partitions; and what Kafka has sent beyond an epoch belongs to the next one."""
    app = App(kafka, tmp_path, TOPOLOGY)
    app.create("in", partitions=8)
    clients: set[str] = set()
    sent = 0

    def watch(status: Mapping[str, Any]) -> None:
        nonlocal sent
        if "epoch" not in status.get("subTopologies", {}).get("small-sums", {}) or _counts(status)["read"] < sent:
            return
        if sent == 24 * 20:
            clients.update(_consumers_of(app.topic("in")))
            os.kill(os.getpid(), signal.SIGTERM)
        else:
            for partition in range(8):
                app.send("in", *((f"{partition}", {"n": 1, "text": ""}) for _ in range(3)), partition=partition)
            sent += 24

    app.run_until_told(watch)
    assert app.latest("out") == {f"{partition}": {"total": 60, "size": 0, "last": ""} for partition in range(8)}
    assert len(clients) == 2, "one looks whether there are new records, and one reads them"


def _in_transactions(kafka: KafkaConfig, app: App) -> Callable[[Iterable[tuple[str, int, str]]], None]:
    producer = Producer({**kafka.for_librdkafka(), "transactional.id": app.prefix, "message.max.bytes": 8 << 20})
    producer.init_transactions(30)

    def send(records: Iterable[tuple[str, int, str]]) -> None:
        """Sends the records and one that cannot be read, in one transaction: all become visible together."""
        producer.begin_transaction()
        producer.produce(app.topic("in"), b"no json", b"bad")
        for key, n, text in records:
            producer.produce(app.topic("in"), json.dumps({"n": n, "text": text}).encode(), key.encode())
        producer.commit_transaction(30)

    return send


def _counts(status: Mapping[str, Any]) -> dict[str, int]:
    part = status.get("subTopologies", {}).get("small-sums", {})
    return {"read": part.get("recordsIn", 0), "bad": part.get("badRecords", {}).get("in", 0)}


def _counts_after(steps: int) -> dict[str, int]:
    return {"read": sum(len(records) + 1 for records, _, _ in STEPS[:steps]), "bad": steps}


def _consumers_of(topic: str) -> set[str]:
    """The client ids of this process that have fetched records of a topic, which has a name without dots."""
    jvm: Any = SparkContext._jvm
    names = jvm.javax.management.ObjectName(f"kafka.consumer:type=consumer-fetch-manager-metrics,topic={topic},*")
    # The server's own class is not open to Py4J; its interface is.
    interface = jvm.java.lang.Class.forName("javax.management.MBeanServer")
    (method,) = (method for method in interface.getMethods() if method.getName() == "queryNames")
    gateway: Any = SparkContext._gateway
    arguments = gateway.new_array(jvm.java.lang.Object, 2)
    arguments[0] = names
    found = method.invoke(jvm.java.lang.management.ManagementFactory.getPlatformMBeanServer(), arguments)
    return {str(name.getKeyProperty("client-id")) for name in found}


def _stages_and_tasks_of_last_job() -> tuple[int, int]:
    context: Any = SparkContext._active_spark_context
    jobs = context._jsc.sc().statusStore().jobsList(None)
    last = max((jobs.apply(number) for number in range(jobs.size())), key=lambda job: int(job.jobId()))
    return int(last.stageIds().size()), int(last.numTasks())
