# SPDX-License-Identifier: Apache-2.0
"""How long a user waits on a cluster: from `kubectl apply` to the first results that a read_committed reader sees, and
where the time goes. The cluster is warm: the operator runs, the image is on the node, and an app has run before."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import yaml
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from kubernetes import client, config, watch

from cluster.access import Cluster
from cluster.app import App
from cluster.choice import a_cluster
from cluster.images import OPERATOR, RUNTIME
from cluster.install import install
from cluster.namespace import Namespace, new_namespace
from lib.broker import unique_name, write
from lib.definitions import await_served
from lib.operator import WORD_COUNT
from streamapp.kafka.admin import Admin, TopicSpec
from streamapp.kafka.broker import EmbeddedBroker
from streamapp.kafka.config import KafkaConfig
from streamapp_operator.render.meta import MANAGED, Object, component_of

CRD = Path(__file__).resolve().parents[1] / "crds" / "streamapp.yaml"
PARTITIONS = 4
LINES = 1000
LONGEST_SECONDS = 180.0
MADE, RUNS = "pod is there", "container runs"
DONE = "first results are committed"


@dataclass(frozen=True)
class FirstEpoch:
    """Seconds from `kubectl apply` to each step, by its name, in order; the last one is the result."""

    steps: dict[str, float]

    @property
    def seconds(self) -> float:
        return self.steps[DONE]


def measure(rounds: int, scratch: Path) -> list[FirstEpoch]:
    """
    Raises:
        cluster.errors.Unavailable: there can be no cluster here.
        AssertionError: no results within three minutes.
    """
    with a_cluster() as cluster:
        for image in (OPERATOR, RUNTIME):
            cluster.load_image(image)
        cluster.apply(CRD)
        await_served(cluster.kubectl, "streamapps.streamapp.dev")
        with (
            EmbeddedBroker(scratch / "pods-broker", host=cluster.host_address()) as broker,
            new_namespace(cluster, "first epoch") as namespace,
        ):
            install(namespace)
            found = [_one(cluster, namespace, KafkaConfig(broker.bootstrap_servers)) for _ in range(rounds + 1)]
            return found[1:]


def summary(rounds: list[FirstEpoch]) -> list[tuple[str, ...]]:
    """A row for each step: the most that the last one must and should take, each round's seconds, their median."""
    rows = []
    for step in rounds[-1].steps:
        seconds = [each.steps[step] for each in rounds]
        must = "≤ 60 (20)" if step == DONE else "-"
        rows.append((step, must, *(f"{one:.1f}" for one in seconds), f"{median(seconds):.1f}"))
    return rows


def _one(cluster: Cluster, namespace: Namespace, kafka: KafkaConfig) -> FirstEpoch:
    app = App(namespace, unique_name("first"))
    lines, counts = f"{app.name}-lines", f"{app.name}-counts"
    Admin(kafka).create([TopicSpec(topic, "benchmark", PARTITIONS) for topic in (lines, counts)])
    write(kafka, lines, *((None, f"to be or not to be {number}") for number in range(LINES)))
    manifest = yaml.safe_load(WORD_COUNT.replace("text-lines", lines).replace("topic: word-counts", f"topic: {counts}"))
    manifest["metadata"]["name"] = app.name
    manifest["spec"]["kafka"] = {"bootstrapServers": kafka.bootstrap_servers}
    text = json.dumps(manifest)
    with _Steps(cluster, namespace) as steps:
        started = time.monotonic()
        namespace.apply(text)
        _await_result(kafka, counts, app)
        done = time.monotonic()
    namespace.kubectl("delete", f"sapp/{app.name}", "--timeout=60s")
    app.await_gone()
    seen = {step: at - started for step, at in sorted(steps.seen.items(), key=lambda each: each[1])}
    found = FirstEpoch({**{step: at for step, at in seen.items() if at < done - started}, DONE: done - started})
    print(f"  first epoch: {found}", flush=True)
    return found


def _await_result(kafka: KafkaConfig, topic: str, app: App) -> None:
    settings = {"group.id": "benchmark", "isolation.level": "read_committed", "fetch.wait.max.ms": 50}
    consumer = Consumer({**kafka.for_librdkafka(), **settings})
    try:
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in range(PARTITIONS)])
        deadline = time.monotonic() + LONGEST_SECONDS
        while time.monotonic() < deadline:
            message = consumer.poll(1.0)
            if message is not None and message.error() is None:
                return
        raise AssertionError(f"no results after {LONGEST_SECONDS:.0f} s\n{app.tail()}")
    finally:
        consumer.close()


class _Steps:
    """The times when pods of the namespace were first there, and first ran."""

    def __init__(self, cluster: Cluster, namespace: Namespace) -> None:
        self._api = client.CoreV1Api(config.new_client_from_config(str(cluster.kubeconfig)))
        self._namespace = namespace.name
        self.seen: dict[str, float] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)

    def _follow(self) -> None:
        pods: Any = watch.Watch()
        for event in pods.stream(self._api.list_namespaced_pod, self._namespace, label_selector=MANAGED):
            self._see(event["raw_object"], time.monotonic())
            if self._stopping.is_set():
                return

    def _see(self, pod: Object, now: float) -> None:
        who = component_of(pod)
        self.seen.setdefault(f"the {who}'s {MADE}", now)
        states = [status.get("state", {}) for status in pod.get("status", {}).get("containerStatuses", ())]
        if any("running" in state for state in states):
            self.seen.setdefault(f"the {who}'s {RUNS}", now)

    def __enter__(self) -> _Steps:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
