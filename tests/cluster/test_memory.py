# SPDX-License-Identifier: Apache-2.0
"""The memory of a driver and an executor of default size, under load: below the limit, and no more with time."""

from __future__ import annotations

import json
import os
import re
import threading
import time
from dataclasses import dataclass
from statistics import linear_regression
from typing import Any

import pytest
import yaml
from confluent_kafka import Producer

from cluster.app import App
from cluster.namespace import Namespace
from lib.broker import unique_name
from lib.java import JAVA_OPTIONS
from lib.wait import until
from streamapp.kafka.admin import Admin, TopicSpec
from streamapp.kafka.config import KafkaConfig
from streamapp_operator.quantities import mebibytes

pytestmark = [pytest.mark.cluster, pytest.mark.chaos, pytest.mark.timeout(7200)]

MINUTES = int(os.environ.get("CHAOS_MINUTES", "12"))
RATE = 2000
"""Records a second, each with a key of its own."""
TOPICS = ("numbers", "echo", "counts", "sums")
TOPOLOGY = """
- {name: numbers, stream: {topic: NAME-numbers, value: {format: json, schema: "n BIGINT, k BIGINT"}}}
- {name: echo, from: numbers, to: {topic: NAME-echo}}
- {name: by-n, from: numbers, groupBy: ['n'], aggregate: {count: count(*)}}
- {name: counts, from: by-n, to: {topic: NAME-counts}}
- {name: by-k, from: numbers, groupBy: [k], window: {tumbling: 10 seconds}, aggregate: {total: sum(n)}}
- {name: sums, from: by-k, to: {topic: NAME-sums}}
"""
HEAP_IS_THERE_AT_ONCE = {"name": JAVA_OPTIONS, "value": "-XX:+AlwaysPreTouch"}
"""Java takes its heap when it starts, and not page by page: what grows then is not the heap."""
MOST_GROWTH = 0.02
"""The part of the limit by which memory may seem to grow in the second half."""


@dataclass(frozen=True)
class Use:
    """The memory of a pod's processes that no file backs, at a time in seconds."""

    at: float
    mib: float


class _Sender:
    def __init__(self, kafka: KafkaConfig, topic: str) -> None:
        self._producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "linger.ms": 5})
        self._topic = topic
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._send)
        self.sent = 0

    def __enter__(self) -> _Sender:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        self._over.set()
        self._thread.join()

    def _send(self) -> None:
        begun = time.monotonic()
        while not self._over.is_set():
            while self.sent < RATE * (time.monotonic() - begun):
                self._producer.produce(self._topic, json.dumps({"n": self.sent, "k": self.sent % 1000}))
                self.sent += 1
            self._producer.poll(0)
            self._over.wait(0.005)
        assert self._producer.flush(60) == 0


def test_memory_stays_below_the_limit_and_does_not_grow(operated: Namespace, pods_kafka: KafkaConfig) -> None:
    name = unique_name("memory")
    Admin(pods_kafka).create([TopicSpec(f"{name}-{topic}", "test", 4) for topic in TOPICS])
    app = App(operated, name)
    operated.apply(_manifest(name, pods_kafka))
    app.await_ready()
    pods = [f"{name}-driver-0", *app.executors()]
    limits = {pod: _limit(operated, pod) for pod in pods}
    used: dict[str, list[Use]] = {pod: [] for pod in pods}
    with _Sender(pods_kafka, f"{name}-numbers") as sender:
        end = time.monotonic() + MINUTES * 60
        while time.monotonic() < end:
            app.require_alive()
            for pod in pods:
                used[pod].append(Use(time.monotonic(), _used(operated, pod)))
            time.sleep(5)
        sender.stop()
        until(lambda: _processed(app) == sender.sent, 300, f"all {sender.sent:,} records are processed", every=1)
    assert app.status()["restarts"] == 0
    assert [f"{name}-driver-0", *app.executors()] == pods
    for pod, uses in used.items():
        later = uses[len(uses) // 2 :]
        slope = linear_regression([use.at for use in later], [use.mib for use in later]).slope
        grown = slope * (later[-1].at - later[0].at)
        most = max(use.mib for use in uses)
        print(
            f"{pod}: at most {most:,.0f} of {limits[pod]:,.0f} MiB; in the second half of {MINUTES} minutes, with "
            f"{sender.sent:,} keys at the end, {grown:+.1f} MiB"
        )
        assert most < limits[pod]
        assert grown < MOST_GROWTH * limits[pod]


def _manifest(name: str, kafka: KafkaConfig) -> dict[str, Any]:
    def of(container: str) -> dict[str, Any]:
        return {"podTemplate": {"spec": {"containers": [{"name": container, "env": [HEAP_IS_THERE_AT_ONCE]}]}}}

    return {
        "apiVersion": "streamapp.dev/v1alpha1",
        "kind": "StreamApp",
        "metadata": {"name": name},
        "spec": {
            "kafka": {"bootstrapServers": kafka.bootstrap_servers},
            "driver": of("driver"),
            "executor": of("executor"),
            "topology": yaml.safe_load(TOPOLOGY.replace("NAME", name)),
        },
    }


def _limit(namespace: Namespace, pod: str) -> float:
    (container,) = namespace.get(f"pod/{pod}")["spec"]["containers"]
    return float(mebibytes(container["resources"]["limits"]["memory"]))


def _used(namespace: Namespace, pod: str) -> float:
    statuses = namespace.kubectl("exec", pod, "--", "sh", "-c", "cat /proc/[0-9]*/status 2>/dev/null || true")
    return sum(map(int, re.findall(r"^RssAnon:\s+(\d+) kB", statuses, re.MULTILINE))) / 1024


def _processed(app: App) -> int:
    return int(json.loads(app.live("status"))["recordsProcessed"])
