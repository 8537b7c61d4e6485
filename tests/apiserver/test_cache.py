# SPDX-License-Identifier: Apache-2.0
"""What is kept of the cluster becomes what it is, whatever happens to events; and while it is not, nothing wrong is
written."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from kubernetes import config

from lib.apiserver import ApiServer
from lib.operator import RUNNING, Apps, KubeError
from lib.wait import until
from streamapp_operator.cache import APP_KIND, Cache
from streamapp_operator.kube import Kube
from streamapp_operator.observe import LISTED, Objects
from streamapp_operator.reflector import Reflector
from streamapp_operator.render.meta import MANAGED, Object, selector_text

pytestmark = pytest.mark.cluster

KINDS = (APP_KIND, *LISTED, "Pod")
OURS = selector_text("word-count")
Event = tuple[str, Object]


def connect(api: ApiServer, kind: type[Kube] = Kube) -> Kube:
    return kind(config.new_client_from_config(str(api.kubeconfig)))  # type: ignore[no-untyped-call]


def snapshot(apps: Apps) -> Cache:
    """What there is now, and no news from now on."""
    cache = Cache(apps.kube)
    for kind in KINDS:
        cache.keep_kind(kind)
        refresh(cache, apps, kind)
    return cache


def refresh(cache: Cache, apps: Apps, kind: str) -> None:
    for item in apps.kube.list(kind, apps.namespace):
        cache.put(item)


@contextmanager
def reflected(kube: Kube, apps: Apps, relist: int) -> Iterator[tuple[Cache, list[str]]]:
    """A cache of the test's namespace, and the names of the apps that changes were about."""
    cache, woken = Cache(apps.kube), []
    reflectors = [
        Reflector(
            kube, cache, kind, apps.namespace, "" if kind == APP_KIND else MANAGED,
            lambda key, body: woken.append(key[1]), relist,
        )
        for kind in KINDS
    ]  # fmt: skip
    threads = [threading.Thread(target=reflector.run, daemon=True) for reflector in reflectors]
    for thread in threads:
        thread.start()
    try:
        for reflector in reflectors:
            assert reflector.listed.wait(30), reflector.what
        yield cache, woken
    finally:
        for reflector in reflectors:
            reflector.stop()


def everything(objects: Objects, apps: Apps) -> dict[str, Any]:
    """All of the app's objects; without what the cache leaves out."""
    body = objects.get(APP_KIND, apps.namespace, "word-count")
    found = {kind: objects.list(kind, apps.namespace, OURS) for kind in KINDS if kind != APP_KIND}
    for item in (item for items in found.values() for item in items):
        item["metadata"].pop("managedFields", None)
    return {APP_KIND: body, **found}


def await_equal(cache: Cache, apps: Apps, seconds: float) -> None:
    until(lambda: everything(cache, apps) == everything(apps.kube, apps), seconds, "the cache is as the cluster")


# --- it becomes what the cluster is -------------------------------------------------------------------------


def test_it_follows_what_happens(apps: Apps, api: ApiServer) -> None:
    with reflected(connect(api), apps, relist=300) as (cache, woken):
        apps.create()
        apps.settle()
        apps.await_driver()
        await_equal(cache, apps, 10)
        assert cache.get("Secret", apps.namespace, "word-count-credentials"), "it is read where it is not kept"

        woken.clear()
        apps.change(replicas=3)
        apps.settle()
        await_equal(cache, apps, 10)
        assert set(woken) == {"word-count"}

        budget = apps.get("PodDisruptionBudget", "word-count-executors")["metadata"]["uid"]
        apps.kube.delete("PodDisruptionBudget", apps.namespace, "word-count-executors", budget)
        until(lambda: not cache.list("PodDisruptionBudget", apps.namespace, OURS), 10, "it is forgotten", every=0.05)

        uid = apps.get(APP_KIND, "word-count")["metadata"]["uid"]
        apps.kube.delete(APP_KIND, apps.namespace, "word-count", uid)
        until(lambda: cache.get(APP_KIND, apps.namespace, "word-count") is None, 10, "it is forgotten", every=0.05)


class Deaf(Kube):
    """Events are lost."""

    def watch(self, *arguments: Any) -> Iterator[Event]:
        for _ in super().watch(*arguments):
            pass
        yield from ()


class Stuttering(Kube):
    """Events come twice, and again when they are long out of date; one that something is gone comes late, too."""

    def watch(self, *arguments: Any) -> Iterator[Event]:
        seen: list[Event] = []
        for event in super().watch(*arguments):
            yield event
            yield event
            seen.append(event)
            yield seen[len(seen) // 2]


class TooLate(Kube):
    """The version of the list is not known any more when the watch begins."""

    def watch(self, *arguments: Any) -> Iterator[Event]:
        raise KubeError(410, "too old resource version")


class CutOff(Kube):
    """The connection breaks after each event."""

    def watch(self, *arguments: Any) -> Iterator[Event]:
        for event in super().watch(*arguments):
            yield event
            raise KubeError(0, "planted: connection reset")


@pytest.mark.parametrize("kind", [Deaf, Stuttering, TooLate, CutOff])
def test_it_is_right_again_whatever_happens_to_events(apps: Apps, api: ApiServer, kind: type[Kube]) -> None:
    """R13."""
    with reflected(connect(api, kind), apps, relist=2) as (cache, woken):
        apps.create()
        apps.settle()
        apps.await_driver()
        await_equal(cache, apps, 20)
        assert "word-count" in woken
        budget = apps.get("PodDisruptionBudget", "word-count-executors")["metadata"]["uid"]
        apps.kube.delete("PodDisruptionBudget", apps.namespace, "word-count-executors", budget)
        until(
            lambda: not cache.list("PodDisruptionBudget", apps.namespace, OURS), 20, "it is forgotten", every=0.05
        )
        apps.change(replicas=3)
        apps.settle()
        await_equal(cache, apps, 20)


def test_a_list_of_several_pages_is_whole(apps: Apps, api: ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamapp_operator.kube.PAGE", 2)
    for number in range(5):
        labels = {"app.kubernetes.io/instance": "word-count", "app.kubernetes.io/managed-by": "streamapp-operator"}
        metadata = {"name": f"many-{number}", "namespace": apps.namespace, "labels": labels}
        apps.kube.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    with reflected(connect(api), apps, relist=300) as (cache, _):
        assert len(cache.list("ConfigMap", apps.namespace, OURS)) == 5


# --- while it is not, nothing wrong is written --------------------------------------------------------------


def writes_with(cache: Cache, apps: Apps) -> int:
    with apps.counting() as writes:
        apps.reconcile(cache=cache)
    return len(writes)


def test_objects_that_the_cache_has_not_yet_are_not_made_again(apps: Apps) -> None:
    apps.create()
    old = snapshot(apps)
    apps.settle()
    apps.await_driver()
    apps.settle()
    assert not old.list("StatefulSet", apps.namespace, OURS)
    assert writes_with(old, apps) == 0


def test_a_change_that_the_cache_has_not_yet_is_not_taken_back(apps: Apps) -> None:
    apps.create()
    apps.settle()
    apps.await_driver()
    apps.settle()
    old = snapshot(apps)
    apps.change(replicas=3)
    apps.settle()
    assert writes_with(old, apps) == 0
    # Even where it knows the new objects and the old resource, by which they look wrong.
    refresh(old, apps, "PodDisruptionBudget")
    assert writes_with(old, apps) == 0
    assert apps.get("PodDisruptionBudget", "word-count-executors")["spec"]["minAvailable"] == 2


def test_an_app_that_is_gone_is_left_alone(apps: Apps) -> None:
    apps.create()
    old = snapshot(apps)
    uid = apps.get(APP_KIND, "word-count")["metadata"]["uid"]
    apps.kube.delete(APP_KIND, apps.namespace, "word-count", uid)
    assert writes_with(old, apps) == 0


def test_status_is_not_said_of_pods_as_they_were(apps: Apps, tmp_path: Path) -> None:
    apps.create()
    apps.settle()
    old = snapshot(apps)
    with apps.driver_says(RUNNING, tmp_path):
        apps.add_executor()
        apps.settle()
        events = apps.events()
        refresh(old, apps, APP_KIND)  # the cache has the status that speaks of pods it has not
        assert apps.status()["phase"] == "Running"
        assert writes_with(old, apps) == 0
        assert apps.status()["phase"] == "Running"
        assert apps.events() == events


def test_numbers_are_not_written_over_a_newer_status(apps: Apps, tmp_path: Path) -> None:
    apps.create()
    apps.settle()
    with apps.driver_says(RUNNING, tmp_path) as said:
        apps.add_executor()
        apps.settle()
        old = snapshot(apps)
        apps.change(replicas=2)
        apps.settle()
        said["totalLag"] = 8
        said["lag"] = {"text-lines/0": 8}
        apps.now = datetime.now(UTC) + timedelta(minutes=1)
        assert writes_with(old, apps) == 1
        status = apps.status()
        assert (status["observedGeneration"], status["desiredReplicas"]) == (2, 2)
        assert status["lag"]["total"] == 8


def test_without_news_the_api_server_is_asked_for_the_secret_alone(apps: Apps, api: ApiServer) -> None:
    apps.create()
    apps.settle()
    apps.await_driver()
    apps.settle()
    asked: list[str] = []
    note: Callable[[str, int], None] = lambda method, code: asked.append(method)  # noqa: E731
    apps.kube.on_answer, before = note, apps.kube.on_answer
    try:
        apps.reconcile(cache=snapshot_of(asked, apps))
    finally:
        apps.kube.on_answer = before
    assert asked == ["GET"]


def snapshot_of(asked: list[str], apps: Apps) -> Cache:
    cache = snapshot(apps)
    asked.clear()
    return cache
