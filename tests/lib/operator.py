# SPDX-License-Identifier: Apache-2.0
"""Apps on a real API server, which the test itself reconciles step by step; and the kubelet's part, done by hand."""

from __future__ import annotations

import copy
import itertools
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from http import HTTPStatus
from pathlib import Path
from typing import Any

import yaml
from prometheus_client import CollectorRegistry

from lib.wait import until
from streamapp.http.server import StatusServer
from streamapp.manifest import parse_manifest
from streamapp_operator.__main__ import LEASE
from streamapp_operator.cluster.errors import KubeError
from streamapp_operator.cluster.kube import Kube
from streamapp_operator.cluster.lease import NotHolder
from streamapp_operator.controller import new_credentials
from streamapp_operator.driver.pods import newest
from streamapp_operator.manifest.versions import version_name, version_spec
from streamapp_operator.memory import Memory
from streamapp_operator.names import driver_pod_name, secret_name
from streamapp_operator.observe.observation import LISTED
from streamapp_operator.observe.observer import Objects
from streamapp_operator.reconcile import reconcile
from streamapp_operator.render import Credentials
from streamapp_operator.render.config import credentials_of
from streamapp_operator.render.driver import DRIVER
from streamapp_operator.render.meta import selector_text
from streamapp_operator.render.pods import LIVE_PORT
from streamapp_operator.settings import Settings

Object = dict[str, Any]

WORD_COUNT = """
apiVersion: streamapp.dev/v1alpha1
kind: StreamApp
metadata: {name: word-count}
spec:
  kafka: {bootstrapServers: kafka:9092}
  topology:
  - {name: lines,  stream: {topic: text-lines, value: text}}
  - {name: words,  from: lines, flatMap: {word: "split(lower(value), ' ')"}}
  - {name: counts, from: words, groupBy: [word], aggregate: {count: "count(*)"}, store: word-counts}
  - {name: out,    from: counts, to: {topic: word-counts}}
"""
VERSION = version_name("word-count", version_spec(parse_manifest(WORD_COUNT), Settings().image))
CHILDREN = {
    ("ControllerRevision", VERSION),
    ("ConfigMap", "word-count-config"),
    ("NetworkPolicy", "word-count-driver"),
    ("NetworkPolicy", "word-count-executors"),
    ("PodDisruptionBudget", "word-count-executors"),
    ("Role", "word-count-driver"),
    ("RoleBinding", "word-count-driver"),
    ("Secret", "word-count-credentials"),
    ("Service", "word-count-driver"),
    ("ServiceAccount", "word-count-driver"),
    ("StatefulSet", "word-count-driver"),
}
"""The objects of the word count, by kind and name."""
_MOST_ROUNDS = 20
# The loopback network has enough addresses for each process to have its own: several run tests at the same time.
_network = f"127.{1 + os.getpid() // 256 % 254}.{os.getpid() % 256}"
_addresses = (f"{_network}.{last}" for last in itertools.cycle(range(1, 255)))


class Crash(BaseException):
    """Ends the operator at this point. No `except Exception` of ours may catch it."""


class Apps:
    """StreamApps of one namespace.

    Args:
        kube: the test's connection.
        namespace: where the apps are.
        operators: the operator's connection, if it is another one.
    """

    def __init__(self, kube: Kube, namespace: str, operators: Kube | None = None) -> None:
        self.kube, self.namespace = kube, namespace
        self.operators = operators or kube
        self.settings = Settings()
        self.memory = Memory()
        self.now: datetime | None = None
        """The operator's clock; None: the API server's."""

    # --- the users' part ------------------------------------------------------------------------------------

    def create(self, text: str = WORD_COUNT, **spec: Any) -> str:
        """Makes the app, with these fields of its spec on top; returns its name."""
        body = yaml.safe_load(text)
        body["metadata"]["namespace"] = self.namespace
        body["spec"] |= spec
        self.kube.create(body)
        return str(body["metadata"]["name"])

    def change(self, name: str = "word-count", **spec: Any) -> None:
        """Sets fields of the spec; None removes a field."""

        def change(body: Object) -> None:
            for field, value in spec.items():
                body["spec"].pop(field, None) if value is None else body["spec"].update({field: value})

        self.edit("StreamApp", name, change)

    def edit(self, kind: str, name: str, change: Callable[[Object], None]) -> None:
        """Changes an object by hand, and once more if something else has written meanwhile: controllers write its
        status."""

        def edited() -> bool:
            found = self.get(kind, name)
            change(found)
            try:
                self.kube.replace(found)
            except KubeError as error:
                if error.code != 409:
                    raise
                return False
            return True

        until(edited, 30, f"a change of {kind} {name}", every=0.1)

    # --- the operator's part --------------------------------------------------------------------------------

    def reconcile(self, name: str = "word-count", cache: Objects | None = None) -> float | None:
        clock = self._clock if self.now is not None else None
        return reconcile(
            self.operators, self.namespace, name, self.settings, new_credentials, self.memory, clock, cache
        )

    def pass_time(self, seconds: float, every: float = 5.0) -> None:
        """Moves the operator's clock by so much; the operator looks every few seconds of it."""
        for _ in range(int(seconds / every)):
            self.now = self._clock() + timedelta(seconds=every)
            self.settle()

    def _clock(self) -> datetime:
        return self.now or self.operators.clock.now()

    def settle(self, name: str = "word-count") -> int:
        """Reconciles until there is nothing left to write; returns the number of writes."""
        total = 0
        for _ in range(_MOST_ROUNDS):
            with self.counting() as writes:
                try:
                    self.reconcile(name)
                except KubeError as error:
                    if error.code != HTTPStatus.CONFLICT:  # another writer was faster: the operator looks again
                        raise
            total += len(writes)
            if not writes:
                return total
        raise AssertionError(f"still writing after {_MOST_ROUNDS} rounds: {self.get('StreamApp', name)['status']}")

    @contextmanager
    def counting(self) -> Iterator[list[int]]:
        """A list that grows by one with each write."""
        writes: list[int] = []
        before = self.operators.may_write

        def write() -> float:
            seconds = before()
            writes.append(len(writes))
            return seconds

        self.operators.may_write = write
        try:
            yield writes
        finally:
            self.operators.may_write = before

    @contextmanager
    def crashing_after(self, count: int) -> Iterator[None]:
        """Makes the operator die at the first write after `count` writes."""
        with self._raising_after(count, Crash):
            yield

    @contextmanager
    def losing_the_lease_after(self, count: int) -> Iterator[None]:
        """Lets another operator act as soon as this one has written so often."""
        with self._raising_after(count, NotHolder):
            yield

    @contextmanager
    def _raising_after(self, count: int, kind: type[BaseException]) -> Iterator[None]:
        left, before = [count], self.operators.may_write

        def write() -> float:
            if left[0] == 0:
                raise kind
            left[0] -= 1
            return before()

        self.operators.may_write = write
        try:
            yield
        finally:
            self.operators.may_write = before

    # --- the state ------------------------------------------------------------------------------------------

    def get(self, kind: str, name: str) -> Object:
        found = self.kube.get(kind, self.namespace, name)
        assert found is not None, f"there is no {kind} {name}"
        return found

    def status(self, name: str = "word-count") -> Object:
        return dict(self.get("StreamApp", name)["status"])

    def condition(self, kind: str, name: str = "word-count") -> Object:
        return dict(next(c for c in self.status(name)["conditions"] if c["type"] == kind))

    def children(self, name: str = "word-count") -> dict[tuple[str, str], Object]:
        """The app's objects, by kind and name."""
        uid = self.get("StreamApp", name)["metadata"]["uid"]
        found = [item for kind in LISTED for item in self.kube.list(kind, self.namespace)]
        secret = self.kube.get("Secret", self.namespace, secret_name(name))
        found += [secret] if secret else []
        return {
            (item["kind"], item["metadata"]["name"]): item
            for item in found
            if any(owner["uid"] == uid for owner in item["metadata"].get("ownerReferences", ()))
        }

    def essence(self, name: str = "word-count") -> dict[tuple[str, str], object]:
        """The app's objects without the fields that differ from run to run."""
        return {key: _essence(item) for key, item in self.children(name).items()}

    def events(self) -> list[str]:
        found = self.kube.list("Event", self.namespace)
        return [event["reason"] for event in found if event["involvedObject"]["kind"] == "StreamApp"]

    def lease_holder(self) -> str:
        """The operator that acts here; empty if there is none."""
        found = self.kube.get("Lease", self.namespace, LEASE) or {}
        return str(found.get("spec", {}).get("holderIdentity") or "")

    def credentials(self, name: str = "word-count") -> Credentials:
        found = credentials_of(self.get("Secret", secret_name(name)))
        assert found is not None
        return found

    def await_driver(self, name: str = "word-count", other_than: str = "") -> Object:
        """Waits for the driver's pod, which the StatefulSet's controller makes."""

        def there() -> Object | None:
            pod = self.kube.get("Pod", self.namespace, driver_pod_name(name))
            is_new = pod is not None and pod["metadata"]["uid"] != other_than
            return pod if is_new and pod is not None and "deletionTimestamp" not in pod["metadata"] else None

        found = until(there, 30, "the driver's pod is made", every=0.1)
        assert found is not None
        return found

    def newest_driver(self, name: str) -> Object:
        """Name and uid of the driver's pod, whatever its maker."""
        labels = selector_text(name, DRIVER)
        pods = until(lambda: self.kube.list("Pod", self.namespace, labels), 30, "the driver's pod is made", every=0.1)
        found = newest(pods)
        assert found is not None
        return {key: found["metadata"][key] for key in ("name", "uid")}

    # --- the kubelet's part ---------------------------------------------------------------------------------

    def set_pod_status(self, pod: Object, **status: Any) -> None:
        metadata = pod["metadata"]
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/status"
        self.kube._call("PATCH", path, body={"status": status}, content_type="application/merge-patch+json")

    def set_running(self, pod: Object, address: str, *, ready: bool = True) -> None:
        self.set_pod_status(
            pod,
            phase="Running",
            podIP=address,
            podIPs=[{"ip": address}],
            conditions=[{"type": "Ready", "status": str(ready)}],
            containerStatuses=[
                {
                    "name": pod["spec"]["containers"][0]["name"],
                    "ready": ready,
                    "started": True,
                    "restartCount": 0,
                    "image": "x",
                    "imageID": "x",
                    "state": {"running": {}},
                }
            ],
        )

    def set_failed(self, driver: Object, words: str, count: int = 1) -> None:
        """Makes the driver's container one that has ended so often, with these last words, and waits to be started
        again."""
        container = {
            "name": driver["spec"]["containers"][0]["name"],
            "ready": False,
            "started": False,
            "restartCount": count,
            "image": "x",
            "imageID": "x",
            "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}},
            "lastState": {"terminated": {"exitCode": 1, "reason": "Error", "message": words}},
        }
        self.set_pod_status(driver, phase="Running", containerStatuses=[container])

    def add_executor(self, number: int = 1, name: str = "word-count") -> Object:
        """Makes a pod as Spark makes one from the template: the driver's pod owns it."""
        driver = self.newest_driver(name)
        template = yaml.safe_load(self.get("ConfigMap", f"{name}-config")["data"]["executor.yaml"])
        pod = copy.deepcopy(template)
        owner = {"apiVersion": "v1", "kind": "Pod", "controller": True, **driver}
        pod["metadata"] |= {
            "name": f"{name}-abc-exec-{number}",
            "namespace": self.namespace,
            "ownerReferences": [owner],
        }
        pod["spec"]["containers"][0]["image"] = "x"
        made = self.kube.create(pod)
        self.set_running(made, "127.0.0.1")
        return made

    @contextmanager
    def driver_says(self, status: Mapping[str, Any], folder: Path, name: str = "word-count") -> Iterator[Object]:
        """Runs the driver's pod, whose live interface returns this status. Yields the status, which may be changed, and
        which the operator changes when it scales."""
        said = dict(status)

        def scale(count: int) -> None:
            said["replicas"] = {**said["replicas"], "wanted": count}

        token = folder / "token"
        token.write_text(self.credentials(name).token)
        address = next(_addresses)
        server = StatusServer(lambda: said, CollectorRegistry(), LIVE_PORT, address, token, scale)
        server.start()
        try:
            self.set_running(self.await_driver(name), address)
            yield said
        finally:
            server.stop()


def _essence(item: Object) -> object:
    if item["kind"] == "Secret":
        return sorted(item["data"])
    spec = {key: value for key, value in item.items() if key not in ("metadata", "status", "apiVersion")}
    body = spec.get("spec", {})
    runs = body.get("jobTemplate", {}).get("spec", body)  # the object that makes the pod
    if template := runs.get("template"):  # names the app's uid and the secret's fingerprint
        template["metadata"]["annotations"].pop("streamapp.dev/template")
        container = template["spec"]["containers"][0]
        container["args"] = [word for word in container["args"] if not word.startswith(("--owner", "--namespace"))]
    if item["kind"] == "Job":  # Kubernetes knows its pods by its uid
        body.pop("selector")
        for label in ("controller-uid", "batch.kubernetes.io/controller-uid"):
            body["template"]["metadata"]["labels"].pop(label, None)
    for subject in spec.get("subjects", ()):
        subject.pop("namespace")
    for own in ("clusterIP", "clusterIPs"):
        body.pop(own, None)
    labels = {name: value for name, value in item["metadata"]["labels"].items() if "controller-uid" not in name}
    return {"labels": labels, **spec}


RUNNING: Object = {
    "name": "word-count",
    "phase": "Running",
    "error": None,
    "lag": {"text-lines/0": 3, "text-lines/1": 4},
    "totalLag": 7,
    "subTopologies": {"word-counts": {"epoch": 12, "watermark": None}},
    "restore": {},
    "replicas": {"wanted": 1, "running": 1},
}
"""The status of a driver that is well."""

__all__ = ["CHILDREN", "RUNNING", "WORD_COUNT", "Apps", "Crash", "KubeError"]
