# SPDX-License-Identifier: Apache-2.0
"""The memory of a driver and an executor of default size, under load: below the limit, and no more with time."""

from __future__ import annotations

import json
import os
import random
import re
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
"""Records a second. Every second one has a new key, the others have one of the keys before."""
TOPICS = ("numbers", "echo", "counts", "sums")
TOPOLOGY = """
- {name: numbers, stream: {topic: NAME-numbers, value: {format: json, schema: "n BIGINT, k BIGINT, text STRING"}}}
- {name: echo, from: numbers, to: {topic: NAME-echo}}
- {name: by-n, from: numbers, groupBy: ['n'], aggregate: {count: count(*), text: max(text)}}
- {name: counts, from: by-n, to: {topic: NAME-counts}}
- {name: by-k, from: numbers, groupBy: [k], window: {tumbling: 10 seconds}, aggregate: {total: sum(n)}}
- {name: sums, from: by-k, to: {topic: NAME-sums}}
"""
TEXT = "x" * 300
"""Kept for each key. Rows that are read again fill the memory of the stores within minutes; then it grows no more."""
HEAP_IS_THERE_AT_ONCE = {"name": JAVA_OPTIONS, "value": "-XX:+AlwaysPreTouch"}
"""Java takes its heap when it starts, and not page by page: what grows then is not the heap."""
MOST_GROWTH = 0.02
"""The part of the limit by which memory may seem to grow in the second half."""


@dataclass(frozen=True)
class Use:
    """The memory of a pod's processes that no file backs, at a time in seconds."""

    at: float
    mib: float


def test_memory_stays_below_the_limit_and_does_not_grow(operated: Namespace, pods_kafka: KafkaConfig) -> None:
    name = unique_name("memory")
    Admin(pods_kafka).create([TopicSpec(f"{name}-{topic}", "test", 4) for topic in TOPICS])
    app = App(operated, name)
    operated.apply(_manifest(name, pods_kafka))
    app.await_ready()
    pods = [f"{name}-driver-0", *app.executors()]
    limits = {pod: _limit(operated, pod) for pod in pods}
    used: dict[str, list[Use]] = {pod: [] for pod in pods}
    chooser = random.Random(1)
    producer = Producer({"bootstrap.servers": pods_kafka.bootstrap_servers, "linger.ms": 5})
    begun, sent = time.monotonic(), 0
    while time.monotonic() < begun + MINUTES * 60:
        app.require_alive()
        for pod in pods:
            used[pod].append(Use(time.monotonic(), _used(operated, pod)))
        sent = _send(producer, f"{name}-numbers", sent, begun, chooser)
    assert producer.flush(60) == 0
    until(lambda: _processed(app) == sent, 300, f"all {sent:,} records are processed", every=1)
    assert app.status()["restarts"] == 0
    assert [f"{name}-driver-0", *app.executors()] == pods
    for pod, uses in used.items():
        later = uses[len(uses) // 2 :]
        slope = linear_regression([use.at for use in later], [use.mib for use in later]).slope
        grown = slope * (later[-1].at - later[0].at)
        most = max(use.mib for use in uses)
        print(
            f"{pod}: at most {most:,.0f} of {limits[pod]:,.0f} MiB; in the second half of {MINUTES} minutes, with "
            f"{sent:,} records at the end, {grown:+.1f} MiB"
        )
        assert most < limits[pod]
        assert grown < MOST_GROWTH * limits[pod]


def _send(producer: Producer, topic: str, sent: int, begun: float, chooser: random.Random) -> int:
    """Sends records for five seconds, at the rate from the beginning on; returns how many were sent since then."""
    end = time.monotonic() + 5
    while (now := time.monotonic()) < end:
        for n in range(sent, int(RATE * (now - begun))):
            key = n if n % 2 else chooser.randrange(n + 1)
            producer.produce(topic, json.dumps({"n": key, "k": n % 1000, "text": f"{n}{TEXT}"}))
            sent += 1
        producer.poll(0.005)
    return sent


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
