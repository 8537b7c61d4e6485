# SPDX-License-Identifier: Apache-2.0
"""The operator with many apps, on a real API server without a node: how soon it acts on a change, what it takes of
memory, and whether it leaves the API server in peace when there is nothing to do."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import yaml
from kubernetes import client, config, watch
from prometheus_client.parser import text_string_to_metric_families
from urllib3.exceptions import ProtocolError

from cluster.binaries import binaries
from lib.apiserver import ApiServer
from lib.operator import WORD_COUNT
from streamapp.kafka.ports import free_ports

CRD = Path(__file__).resolve().parents[1] / "crds" / "streamapp.yaml"
GROUP, VERSION, PLURAL = "streamapp.dev", "v1alpha1", "streamapps"
NAMESPACE = "bench"
CHANGES_PER_SECOND = 5.0
STEADY_SECONDS = 60.0
WRITES = ("POST", "PUT", "PATCH", "DELETE")


@dataclass(frozen=True)
class Reconcile:
    created_seconds: float
    """From the first app's creation to the last one's first status, all being created at once."""
    p50_ms: float
    """From the API server's answer to a change, to the status that says the change is dealt with."""
    p99_ms: float
    peak_mb: float
    steady_writes: int
    """Requests that change something, in a minute without changes; those of the Lease are not among them."""
    steady_reads_per_second: float


def measure(apps: int, scratch: Path) -> Reconcile:
    """
    Raises:
        RuntimeError: when the operator ends, or does not deal with an app within ten minutes.
    """
    names = [f"app-{number:04}" for number in range(apps)]
    with ApiServer(scratch / "api", binaries() / "kube") as api:
        api.kubectl("apply", "-f", str(CRD))
        api.kubectl("wait", "--for=condition=Established", "crd/streamapps.streamapp.dev", "--timeout=60s")
        api.kubectl("create", "namespace", NAMESPACE)
        connection: Any = config.new_client_from_config(str(api.kubeconfig))  # type: ignore[no-untyped-call]
        objects = client.CustomObjectsApi(connection)
        with _operator(api.kubeconfig, scratch) as operator, _Seen(connection) as seen:
            started = time.monotonic()
            for name in names:
                _create(objects, name)
            created = max(seen.await_generation(name, 1, operator.check) for name in names) - started
            operator.settle()
            before = operator.requests()
            time.sleep(STEADY_SECONDS)
            after = operator.requests()
            millis = np.array(list(_changes(objects, names, seen, operator))) * 1000
            p50, p99 = np.percentile(millis, [50, 99])
            writes = sum(after[method] - before[method] for method in WRITES)
            return Reconcile(
                created, float(p50), float(p99), operator.peak_rss / 1e6, int(writes),
                (after["GET"] - before["GET"]) / STEADY_SECONDS,
            )  # fmt: skip


def _create(objects: Any, name: str) -> None:
    body = yaml.safe_load(WORD_COUNT) | {"metadata": {"name": name, "namespace": NAMESPACE}}
    objects.create_namespaced_custom_object(GROUP, VERSION, NAMESPACE, PLURAL, body)


def _changes(objects: Any, names: list[str], seen: _Seen, operator: _Operator) -> Iterator[float]:
    """One change of each app, at an even rate; what each takes, in seconds."""
    waiting = []
    start = time.monotonic()
    for index, name in enumerate(names):
        time.sleep(max(0.0, start + index / CHANGES_PER_SECOND - time.monotonic()))
        change = {"spec": {"epochInterval": "200ms"}}
        body = objects.patch_namespaced_custom_object(GROUP, VERSION, NAMESPACE, PLURAL, name, change)
        waiting.append((name, body["metadata"]["generation"], time.monotonic()))
    for name, generation, asked in waiting:
        yield max(0.0, seen.await_generation(name, generation, operator.check) - asked)


class _Seen:
    """When each app's status first spoke of each generation, by a watch like any other program's."""

    def __init__(self, connection: Any) -> None:
        self._objects = client.CustomObjectsApi(connection)
        self._times: dict[tuple[str, int], float] = {}
        self._changed = threading.Condition()
        self._watch: Any = watch.Watch()  # type: ignore[no-untyped-call]
        self._stopping = False
        self._thread = threading.Thread(target=self._follow, daemon=True)

    def await_generation(self, name: str, generation: int, check: Any) -> float:
        deadline = time.monotonic() + 600
        with self._changed:
            while (name, generation) not in self._times:
                check()
                if time.monotonic() > deadline:
                    raise RuntimeError(f"{name}: generation {generation} is not dealt with after ten minutes")
                self._changed.wait(1)
            return self._times[name, generation]

    def _follow(self) -> None:
        listing = self._objects.list_namespaced_custom_object
        try:
            for event in self._watch.stream(listing, GROUP, VERSION, NAMESPACE, PLURAL):
                self._see(event["object"], time.monotonic())
        except ProtocolError:  # the API server has ended
            if not self._stopping:
                raise

    def _see(self, body: Any, now: float) -> None:
        generation = body.get("status", {}).get("observedGeneration")
        if generation is not None:
            with self._changed:
                self._times.setdefault((body["metadata"]["name"], generation), now)
                self._changed.notify_all()

    def __enter__(self) -> _Seen:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping = True
        self._watch.stop()


class _Operator:
    def __init__(self, process: subprocess.Popen[bytes], port: int, log: Path) -> None:
        self._process, self._port, self._log = process, port, log
        self.peak_rss = 0
        threading.Thread(target=self._weigh, daemon=True).start()

    def check(self) -> None:
        if self._process.poll() is not None:
            raise RuntimeError(f"the operator has ended:\n{self._log.read_text()[-2000:]}")

    def requests(self) -> dict[str, float]:
        """Requests to the API server so far, by method."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/metrics", timeout=10) as answer:
            text = answer.read().decode()
        counts = dict.fromkeys((*WRITES, "GET"), 0.0)
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name == "streamapp_operator_api_requests_total":
                    counts[sample.labels["method"]] += sample.value
        return counts

    def settle(self) -> None:
        """Waits until nothing was written for ten seconds."""
        quiet, last = 0, -1.0
        while quiet < 10:
            self.check()
            now = self.requests()
            total = sum(now[method] for method in WRITES)
            quiet, last = (quiet + 1, last) if total == last else (0, total)
            time.sleep(1)

    def _weigh(self) -> None:
        me = psutil.Process(self._process.pid)
        while self._process.poll() is None:
            try:
                self.peak_rss = max(self.peak_rss, me.memory_info().rss)
            except psutil.Error:
                return
            time.sleep(0.25)


@contextmanager
def _operator(kubeconfig: Path, scratch: Path) -> Iterator[_Operator]:
    (port,) = free_ports(1)
    environment = {
        **os.environ, "KUBECONFIG": str(kubeconfig), "STREAMAPP_NAMESPACE": NAMESPACE,
        "STREAMAPP_HEALTH_PORT": str(port),
    }  # fmt: skip
    log = scratch / "operator.log"
    with log.open("wb") as out:
        command = [sys.executable, "-m", "streamapp_operator"]
        process = subprocess.Popen(command, env=environment, stdout=out, stderr=out)
    try:
        yield _Operator(process, port, log)
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
