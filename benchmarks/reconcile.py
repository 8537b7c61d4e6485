# SPDX-License-Identifier: Apache-2.0
"""The operator with many apps, on a real API server without a node: how soon it acts on a change, how much memory it
takes, and whether it leaves the API server in peace when there is nothing to do. Drivers are simulated, or there are
none."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import yaml
from kubernetes import client, config, watch
from prometheus_client.parser import text_string_to_metric_families
from urllib3.exceptions import ProtocolError

from benchmarks import drivers
from cluster.binaries import binaries
from lib.apiserver import ApiServer
from lib.definitions import await_served
from lib.operator import WORD_COUNT, Apps
from streamapp.kafka.admin import Admin, TopicSpec
from streamapp.kafka.broker import EmbeddedBroker
from streamapp.kafka.config import KafkaConfig
from streamapp.kafka.ports import free_ports
from streamapp_operator.cluster.kube import connect_by_config

CRD = Path(__file__).resolve().parents[1] / "crds" / "streamapp.yaml"
GROUP, VERSION, PLURAL = "streamapp.dev", "v1alpha1", "streamapps"
NAMESPACE = "bench"
SLOWLY, FAST = 1.0, 5.0
"""Changes a second."""
SLOW_CHANGES = 60
STEADY_SECONDS = 60.0
WRITES = ("POST", "PUT", "PATCH", "DELETE")


@dataclass(frozen=True)
class Reconcile:
    created_seconds: float
    """The time from the first app's creation to the last one's first status, all being created at once."""
    slowly: tuple[float, float] | None
    """The median and the 99th percentile of the milliseconds from the API server's answer to a change, to the status
    that shows the change as done; one change a second. None where nothing was changed."""
    fast: tuple[float, float] | None
    """The same, five changes a second."""
    peak_mib: float
    steady_writes: int
    """Requests that change something, in a minute without changes; those of the Lease are not among them."""
    writes_per_app_minute: float
    steady_reads_per_second: float
    steady_cpu_seconds: float
    """The processor time of the operator's process, in that minute."""


def _pair(times: tuple[float, float] | None) -> str:
    return "-" if times is None else f"{times[0]:.0f} / {times[1]:.0f} ms"


ROWS: tuple[tuple[str, str, Callable[[Reconcile], str]], ...] = (
    (
        "all created at once, until the last one has a status",
        "-",
        lambda one: f"{one.created_seconds:.1f} s",
    ),
    ("a change, until the status says so, p50 / p99", "p99 ≤ 500 ms (250 ms)", lambda one: _pair(one.slowly)),
    ("the same, five changes a second", "-", lambda one: _pair(one.fast)),
    ("peak resident memory", "≤ 250 MiB; 1,000 apps: 1 GiB", lambda one: f"{one.peak_mib:.0f} MiB"),
    ("writes in a minute without changes", "0 at rest", lambda one: f"{one.steady_writes}"),
    ("the same for each app", "≤ 7 at work", lambda one: f"{one.writes_per_app_minute:.1f}"),
    ("reads a second meanwhile", "-", lambda one: f"{one.steady_reads_per_second:.0f}"),
    ("the operator's processor time meanwhile", "-", lambda one: f"{one.steady_cpu_seconds:.1f} s"),
)
"""The rows of the report: the figure, its required and its wanted value, and its text."""


@dataclass(frozen=True)
class Kind:
    """A kind of apps."""

    says: Callable[[], Mapping[str, Any]] | None = None
    """The status of their drivers; None: no driver ever runs."""
    settles: bool = True
    """Whether the operator comes to write nothing any more."""
    autoscaling: bool = False
    """Whether the operator asks Kafka how far each of them is behind."""
    apps: int | None = None
    """The number of apps; None: as many as of the other kinds. Apps of a number of their own are not changed."""


KINDS = {
    "no drivers": Kind(),
    "at rest": Kind(drivers.still),
    "at work": Kind(lambda: drivers.moving(time.monotonic()), settles=False),
    "at work, autoscaling": Kind(lambda: drivers.moving(time.monotonic()), settles=False, autoscaling=True),
    "1,000 at rest": Kind(drivers.still, apps=1000),
}


def measure(apps: int, kind: Kind, scratch: Path) -> Reconcile:
    """Measures the operator with so many apps, or as many as the kind says.

    Raises:
        RuntimeError: when the operator ends, or does not deal with an app within ten minutes.
    """
    names = [f"app-{number:04}" for number in range(kind.apps or apps)]
    with ExitStack() as stack:
        kafka = stack.enter_context(_kafka(scratch / "broker")) if kind.autoscaling else ""
        api = stack.enter_context(ApiServer(scratch / "api", binaries() / "kube"))
        api.kubectl("apply", "-f", str(CRD))
        await_served(api.kubectl, "streamapps.streamapp.dev")
        api.kubectl("create", "namespace", NAMESPACE)
        connection: Any = config.new_client_from_config(str(api.kubeconfig))
        objects = client.CustomObjectsApi(connection)
        operator = stack.enter_context(_operator(api.kubeconfig, scratch))
        seen = stack.enter_context(_Seen(connection))
        if kind.says is not None:
            kube, _ = connect_by_config(str(api.kubeconfig), None)
            stack.enter_context(drivers.Drivers(Apps(kube, NAMESPACE), connection, kind.says))
        started = time.monotonic()
        for name in names:
            _create(objects, name, kafka)
        created = max(seen.await_generation(name, 1, operator.check) for name in names) - started
        if kind.says is not None:
            seen.await_proved(names, operator.check)
        if kind.settles:
            operator.settle()
        before, busy = operator.requests(), operator.cpu_seconds()
        time.sleep(STEADY_SECONDS)
        after, busy = operator.requests(), operator.cpu_seconds() - busy
        slowly = fast = None
        if kind.apps is None:
            slowly = _percentiles(_changes(objects, names[:SLOW_CHANGES], SLOWLY, "200ms", seen, operator))
            fast = _percentiles(_changes(objects, names, FAST, "300ms", seen, operator))
        writes = sum(after[method] - before[method] for method in WRITES)
        return Reconcile(
            created,
            slowly,
            fast,
            operator.peak_rss / 2**20,
            int(writes),
            writes / len(names) / STEADY_SECONDS * 60,
            (after["GET"] - before["GET"]) / STEADY_SECONDS,
            busy,
        )


@contextmanager
def _kafka(folder: Path) -> Iterator[str]:
    """Runs a broker that has the topic the apps read; yields its address."""
    with EmbeddedBroker(folder) as broker:
        Admin(KafkaConfig(broker.bootstrap_servers)).create([TopicSpec("text-lines", "lines", 4)])
        yield broker.bootstrap_servers


def _create(objects: Any, name: str, kafka: str) -> None:
    body = yaml.safe_load(WORD_COUNT) | {"metadata": {"name": name, "namespace": NAMESPACE}}
    if kafka:
        body["spec"] |= {"kafka": {"bootstrapServers": kafka}, "autoscaling": {"maxReplicas": 4}}
    objects.create_namespaced_custom_object(GROUP, VERSION, NAMESPACE, PLURAL, body)


def _percentiles(seconds: Iterable[float]) -> tuple[float, float]:
    p50, p99 = np.percentile(np.array(list(seconds)) * 1000, [50, 99])
    return float(p50), float(p99)


def _changes(
    objects: Any, names: list[str], per_second: float, interval: str, seen: _Seen, operator: _Operator
) -> Iterator[float]:
    """Gives each app another epochInterval, at an even rate; yields the seconds that each change takes."""
    waiting = []
    start = time.monotonic()
    for index, name in enumerate(names):
        time.sleep(max(0.0, start + index / per_second - time.monotonic()))
        change = {"spec": {"epochInterval": interval}}
        body = objects.patch_namespaced_custom_object(GROUP, VERSION, NAMESPACE, PLURAL, name, change)
        waiting.append((name, body["metadata"]["generation"], time.monotonic()))
    for name, generation, asked in waiting:
        yield max(0.0, seen.await_generation(name, generation, operator.check) - asked)


class _Seen:
    """The times when each app's status first had each generation, by a watch like any other program's."""

    def __init__(self, connection: Any) -> None:
        self._objects = client.CustomObjectsApi(connection)
        self._times: dict[tuple[str, int], float] = {}
        self._proved: set[str] = set()
        self._changed = threading.Condition()
        self._watch: Any = watch.Watch()
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

    def await_proved(self, names: Iterable[str], check: Any) -> None:
        """Waits until the version of each app has proved itself, and is Running."""
        deadline = time.monotonic() + 600
        with self._changed:
            while missing := set(names) - self._proved:
                check()
                if time.monotonic() > deadline:
                    raise RuntimeError(f"{len(missing)} apps have not proved themselves after ten minutes")
                self._changed.wait(1)

    def _follow(self) -> None:
        listing = self._objects.list_namespaced_custom_object
        try:
            for event in self._watch.stream(listing, GROUP, VERSION, NAMESPACE, PLURAL):
                if event is not None:  # half a line: the API server ends
                    self._see(event["object"], time.monotonic())
        except ProtocolError:  # the API server has ended
            if not self._stopping:
                raise

    def _see(self, body: Any, now: float) -> None:
        name, status = body["metadata"]["name"], body.get("status", {})
        generation = status.get("observedGeneration")
        if generation is not None:
            with self._changed:
                self._times.setdefault((name, generation), now)
                if status.get("phase") == "Running" and "healthyVersion" in status:
                    self._proved.add(name)
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

    def cpu_seconds(self) -> float:
        """The processor time that its process has used so far."""
        times = psutil.Process(self._process.pid).cpu_times()
        return float(times.user + times.system)

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
        **os.environ,
        "KUBECONFIG": str(kubeconfig),
        "STREAMAPP_NAMESPACE": NAMESPACE,
        "STREAMAPP_HEALTH_PORT": str(port),
    }
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
