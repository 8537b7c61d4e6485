# SPDX-License-Identifier: Apache-2.0
"""The Kubernetes API as the operator uses it: plain objects in and out, every call with a deadline.

The client library gives the connection and its credentials; its classes for each kind are not used, as everything here
is rendered as plain data.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType
from typing import Any

import urllib3
from kubernetes import client, config

from streamapp_operator.cluster.errors import KubeError, error_of
from streamapp_operator.cluster.paths import CORE, path_of, segment
from streamapp_operator.cluster.server_clock import ServerClock
from streamapp_operator.render.meta import MANAGER, Object

SECONDS = 10.0
PAGE = 100
"""Objects of a list that are read at a time."""
READERS = 16
"""Lists that are asked for at a time."""
CONNECTIONS = 32
"""Connections that are kept open, of those that are used at a time: for lists, for apps, and for Leases."""
PEOPLE = "kubectl-streamapp"
"""Field manager of changes that people make by the command line."""

_WRITES = ("POST", "PUT", "PATCH", "DELETE")


class Kube:
    """A connection to the API server.

    Args:
        api: the client, with address and credentials.
        may_write: called before every call that changes anything, here or elsewhere; returns how many seconds to wait
            at most for the answer. May raise.
        on_answer: receives the method of every call, and HTTP's code of its answer; 0 when there was none.
        seconds: to wait at most for any answer.
        clock: the API server's; it notes every answer.
    """

    def __init__(
        self,
        api: client.ApiClient,
        may_write: Callable[[], float] = lambda: SECONDS,
        on_answer: Callable[[str, int], None] = lambda method, code: None,
        seconds: float = SECONDS,
        clock: ServerClock | None = None,
    ) -> None:
        self.api, self._seconds = api, seconds
        self._readers = ThreadPoolExecutor(READERS, "reader")
        self.clock = clock or ServerClock()
        self.may_write = may_write
        self.on_answer = on_answer

    @staticmethod
    def connect(seconds: float = SECONDS) -> Kube:
        """Connects to the cluster that this runs in, else to the one of KUBECONFIG.

        Args:
            seconds: to wait at most for any answer.

        Raises:
            KubeError: when there is neither.
        """
        settings = client.Configuration()
        # The caller tries again, and looks first: the library would repeat a write that may not be ours any more.
        settings.retries = False
        settings.connection_pool_maxsize = CONNECTIONS
        try:
            config.load_incluster_config(client_configuration=settings)
        except config.ConfigException:
            try:
                config.load_kube_config(client_configuration=settings)
            except (config.ConfigException, OSError) as error:
                raise KubeError(0, f"no cluster: not in a pod, and no KUBECONFIG ({error})") from None
        return Kube(client.ApiClient(settings), seconds=seconds)

    # --- reading --------------------------------------------------------------------------------------------

    def get(self, kind: str, namespace: str, name: str) -> Object | None:
        """The object; None when there is none."""
        try:
            return self._call("GET", path_of(kind, namespace, name))
        except KubeError as error:
            if error.code == 404:
                return None
            raise

    def list(self, kind: str, namespace: str, selector: str = "") -> list[Object]:
        """The objects with these labels, each with its version and kind, which a list does not repeat."""
        return list(self.pages(kind, namespace, selector))

    def lists(self, kinds: Collection[str], namespace: str, selector: str = "") -> Mapping[str, Sequence[Object]]:
        """The same for each of these kinds, which are asked for at the same time: the API server may keep each answer
        back for a tenth of a second, until it knows that its cache has all that is written."""
        found = {kind: self._readers.submit(self.list, kind, namespace, selector) for kind in kinds}
        return {kind: each.result() for kind, each in found.items()}

    def pages(self, kind: str, namespace: str | None, selector: str = "") -> Iterator[Object]:
        """The same objects one by one, all as of one moment; no more than a page of them is in memory.

        Args:
            kind: of the objects.
            namespace: where they are; None: in all.
            selector: labels that they have; empty: any.
        """
        query = {"labelSelector": selector} if selector else {}
        query["limit"] = str(PAGE)
        while True:
            found = self._call("GET", path_of(kind, namespace), query)
            for item in found["items"]:
                yield {"apiVersion": found["apiVersion"], "kind": kind, **item}
            if not found["metadata"].get("continue"):
                return
            query["continue"] = found["metadata"]["continue"]

    def events(self, namespace: str, uid: str) -> Sequence[Object]:
        """The events about the object with that uid that the cluster still has; the latest last."""
        query = {"fieldSelector": f"involvedObject.uid={uid}"}
        return sorted(self._call("GET", path_of("Event", namespace), query)["items"], key=_time_of)

    def is_ending(self, namespace: str) -> bool:
        """Whether the namespace is being deleted."""
        return "deletionTimestamp" in self._call("GET", f"{CORE}/namespaces/{segment(namespace)}")["metadata"]

    def knows(self, api_version: str, plural: str) -> bool:
        """Whether the API server serves resources of that kind."""
        try:
            found = self._call("GET", f"/apis/{api_version}")
        except KubeError as error:
            if error.code == 404:
                return False
            raise
        return any(resource["name"] == plural for resource in found["resources"])

    # --- writing --------------------------------------------------------------------------------------------

    def apply(self, wanted: Object) -> Object:
        """Applies the object server-side: the fields that it names become ours, the others stay."""
        metadata = wanted["metadata"]
        path = path_of(wanted["kind"], metadata["namespace"], metadata["name"])
        return self._apply(path, wanted)

    def apply_status(self, wanted: Object) -> Object:
        """The same for the subresource `status`."""
        metadata = wanted["metadata"]
        path = path_of(wanted["kind"], metadata["namespace"], metadata["name"], "status")
        return self._apply(path, wanted)

    def create(self, wanted: Object) -> Object:
        return self._call("POST", path_of(wanted["kind"], wanted["metadata"]["namespace"]), body=wanted)

    def replace(self, wanted: Object) -> Object:
        """Replaces the object. Fails with code 409 when it has changed since it was read."""
        metadata = wanted["metadata"]
        return self._call("PUT", path_of(wanted["kind"], metadata["namespace"], metadata["name"]), body=wanted)

    def merge(
        self, kind: str, namespace: str, name: str, change: Object, subresource: str = "", manager: str = PEOPLE
    ) -> Object:
        """Sets these fields and no others, as people do by hand; None takes a field away."""
        path = path_of(kind, namespace, name, subresource)
        return self._call("PATCH", path, {"fieldManager": manager}, change, "application/merge-patch+json")

    def set_finalizers(self, found: Object, finalizers: Sequence[str]) -> None:
        """Sets the finalizers of an object. Fails with code 409 when it has changed since it was read; an object that
        is gone is no error."""
        metadata = found["metadata"]
        change = {"metadata": {"resourceVersion": metadata["resourceVersion"], "finalizers": list(finalizers)}}
        path = path_of(found["kind"], metadata["namespace"], metadata["name"])
        try:
            self._call("PATCH", path, {"fieldManager": MANAGER}, change, "application/merge-patch+json")
        except KubeError as error:
            if error.code != 404:
                raise

    def remove_fields(self, found: Object, paths: Sequence[Sequence[str | int]]) -> None:
        """Takes these parts out of an object; parts of a list come in the order of the list. Fails with code 409 when
        it has changed since it was read."""
        metadata = found["metadata"]
        same = {"op": "replace", "path": "/metadata/resourceVersion", "value": metadata["resourceVersion"]}
        gone = [{"op": "remove", "path": "/" + "/".join(map(str, path))} for path in reversed(paths)]
        path = path_of(found["kind"], metadata["namespace"], metadata["name"])
        self._call("PATCH", path, {"fieldManager": MANAGER}, [same, *gone], "application/json-patch+json")

    def what_if(self, wanted: Object, found: Object | None) -> Object:
        """The object as it would be if somebody made it, or replaced `found` by it; nothing is changed."""
        namespace, dry = wanted["metadata"]["namespace"], {"dryRun": "All"}
        if found is None:
            return self._call("POST", path_of(wanted["kind"], namespace), dry, wanted)
        return self._call("PUT", path_of(wanted["kind"], namespace, wanted["metadata"]["name"]), dry, wanted)

    def try_apply(self, wanted: Object) -> None:
        """Asks whether `apply` would be taken; nothing is changed.

        Raises:
            KubeError: when it would not.
        """
        metadata = wanted["metadata"]
        path = path_of(wanted["kind"], metadata["namespace"], metadata["name"])
        self._apply(path, wanted, {"dryRun": "All"})

    def try_create(self, wanted: Object) -> None:
        """Asks whether `create` would be taken, with unknown fields refused; nothing is made.

        Raises:
            KubeError: when it would not.
        """
        path = path_of(wanted["kind"], wanted["metadata"]["namespace"])
        self._call("POST", path, {"dryRun": "All", "fieldValidation": "Strict"}, wanted)

    def delete(self, kind: str, namespace: str, name: str, uid: str, grace: int | None = None) -> None:
        """Deletes this very object and the objects that it owns. If it is gone, or another one has its name by now,
        that is no error.

        Args:
            uid: of the object that is meant.
            grace: seconds; 0 means at once, without waiting for the node.
        """
        body: Object = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": uid},
            # Without this the pods of a Job would stay.
            "propagationPolicy": "Background",
        }
        if grace is not None:
            body["gracePeriodSeconds"] = grace
        try:
            self._call("DELETE", path_of(kind, namespace, name), body=body)
        except KubeError as error:
            if error.code not in (404, 409):
                raise

    # --- below ----------------------------------------------------------------------------------------------

    def _apply(self, path: str, wanted: Object, more: Mapping[str, str] = MappingProxyType({})) -> Object:
        query = {"fieldManager": MANAGER, "force": "true", **more}
        return self._call("PATCH", path, query, wanted, "application/apply-patch+yaml")

    def _call(
        self,
        method: str,
        path: str,
        query: dict[str, str] | None = None,
        body: Object | Sequence[Object] | None = None,
        content_type: str = "application/json",
    ) -> Object:
        request = self.api.param_serialize(
            method,
            path,
            query_params=list((query or {}).items()),
            header_params={"Accept": "application/json", "Content-Type": content_type},
            body=body,
            auth_settings=["BearerToken"],
        )
        changes = method in _WRITES and "dryRun" not in (query or {})
        # As late as possible: a process that freezes after this question sends its write when it wakes up.
        seconds = min(self._seconds, self.may_write()) if changes else self._seconds
        asked = self.clock.steady()
        try:
            answer = self.api.call_api(*request, _request_timeout=seconds)
            self.clock.note(answer.headers.get("Date"), asked)
            content = answer.read()
        except client.ApiException as error:
            self.on_answer(method, error.status or 0)
            raise error_of(method, path, error.status or 0, error.body or error.reason) from None
        except urllib3.exceptions.HTTPError as error:
            self.on_answer(method, 0)
            raise KubeError(0, f"{method} {path}: no answer from the API server: {error}") from None
        self.on_answer(method, answer.status)
        if answer.status >= 400:
            raise error_of(method, path, answer.status, content)
        found: Any = json.loads(content)
        assert isinstance(found, dict)
        return found


def connect_by_config(file: str | None, context: str | None) -> tuple[Kube, str]:
    """A connection as kubectl would make it, and the namespace that it would use.

    Raises:
        KubeError: when there is no such file or context.
    """
    try:
        contexts, active = config.list_kube_config_contexts(config_file=file)
        found = next((each for each in contexts if each["name"] == context), None) if context else active
        if found is None:
            names = ", ".join(each["name"] for each in contexts)
            raise KubeError(400, f"there is no context {context!r}; there are: {names}")
        api = config.new_client_from_config(config_file=file, context=found["name"])
    except (config.ConfigException, OSError) as error:
        raise KubeError(400, f"no cluster{f' by {file}' if file else ''}: {error}") from None
    return Kube(api), found["context"].get("namespace", "default")


def _time_of(event: Object) -> str:
    """When the event happened last: older and newer writers of events have different fields for it."""
    series = event.get("series") or {}
    times = (series.get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"))
    return str(next(filter(None, times), event["metadata"]["creationTimestamp"]))
