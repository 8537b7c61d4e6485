# SPDX-License-Identifier: Apache-2.0
"""A namespace for one test."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from cluster.access import Cluster
from lib.wait import until

Manifest = dict[str, Any]


@dataclass(frozen=True)
class Namespace:
    """The namespace's name, and operations in it."""

    cluster: Cluster
    name: str

    def kubectl(self, *arguments: str, stdin: str | None = None, seconds: float = 120) -> str:
        """Returns kubectl's output. Raises CommandFailed, or subprocess.TimeoutExpired after `seconds`."""
        return self.cluster.kubectl("-n", self.name, *arguments, stdin=stdin, seconds=seconds)

    def apply(self, *manifests: str | Manifest) -> None:
        """Applies objects, or the text of a manifest. Raises CommandFailed if the API server refuses."""
        for manifest in manifests:
            self.cluster.apply(manifest if isinstance(manifest, str) else json.dumps(manifest), self.name)

    def get(self, what: str, *, labels: str | None = None, fields: str | None = None) -> Manifest:
        """Returns an object, or a list of them. Raises ApiException if there is no such object."""
        return self.cluster.get(what, self.name, labels=labels, fields=fields)

    @contextmanager
    def watching(self, what: str) -> Iterator[Callable[[], list[Manifest]]]:
        """Yields a function that returns all states that an object (`pod/web`) has been in since then."""
        with self.cluster.output_of("-n", self.name, "get", what, "--watch", "-o", "json") as said:

            def states() -> list[Manifest]:
                found, text, at = [], said().strip(), 0
                with suppress(json.JSONDecodeError):  # the last one is not complete yet
                    while at < len(text):
                        state, at = json.JSONDecoder().raw_decode(text, at)
                        at += text[at : at + 1] == "\n"
                        found.append(state)
                return found

            until(states, 30, f"the first look at {what}", every=0.1)
            yield states

    def run_to_end(self, pod: Manifest, seconds: float = 60) -> str:
        """Applies a pod, waits until it has ended, and returns its log. AssertionError unless it has succeeded."""
        self.apply(pod)
        return self.await_end(pod["metadata"]["name"], seconds)

    def await_end(self, pod: str, seconds: float = 60) -> str:
        """Returns the log of a pod that has ended well. AssertionError if it ends otherwise, or not at all."""

        def ended() -> str:
            phase: str = self.get(f"pod/{pod}")["status"].get("phase", "")
            return phase if phase in ("Succeeded", "Failed") else ""

        try:
            phase = until(ended, seconds, f"the end of pod {pod}", every=0.2)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.describe(pod)}") from None
        assert phase == "Succeeded", f"pod {pod} has failed\n{self.describe(pod)}"
        return self.kubectl("logs", pod)

    def await_ready(self, *what: str, seconds: float = 60) -> None:
        """Waits until the pods (`pod/web`, or `-l app=web`) are ready."""
        self.kubectl("wait", "--for=condition=Ready", *what, f"--timeout={seconds:g}s", seconds=seconds + 10)

    def describe(self, pod: str) -> str:
        """A text that helps to find out why a pod does not do what it should."""
        events = self.kubectl("events", "--for", f"pod/{pod}")
        status = json.dumps(self.get(f"pod/{pod}")["status"].get("containerStatuses"), indent=1)
        try:
            log = self.kubectl("logs", pod, "--all-containers", "--tail=40")
        except AssertionError as error:
            log = str(error)
        return f"--- events\n{events}\n--- status\n{status}\n--- log\n{log}"


@contextmanager
def new_namespace(cluster: Cluster, test: str) -> Iterator[Namespace]:
    """Makes a namespace named after a test. It is deleted with all of its objects, but nothing waits for that."""
    words = re.sub(r"[^a-z0-9]+", "-", test.lower()).strip("-").removeprefix("test-")
    name = f"{words[:48].strip('-')}-{uuid.uuid4().hex[:6]}"
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    cluster.apply(json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}))
    try:
        until(lambda: cluster.has("serviceaccount/default", name), 30, "the namespace's default service account")
        yield Namespace(cluster, name)
    finally:
        cluster.kubectl("delete", "namespace", name, "--wait=false", "--ignore-not-found")
