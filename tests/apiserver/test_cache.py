# SPDX-License-Identifier: Apache-2.0
"""The cache comes to hold the cluster's state, whatever happens to events; and while it does not, the operator writes
nothing wrong."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from kubernetes import config

from lib.apiserver import ApiServer, apply_all
from lib.operator import RUNNING, Apps
from lib.wait import until
from streamapp_operator.cluster.cache import ASKED_SECONDS, Cache
from streamapp_operator.cluster.informer import SELECTORS, Informer, Source
from streamapp_operator.cluster.kube import Kube
from streamapp_operator.cluster.paths import resource_of
from streamapp_operator.handlers import watch
from streamapp_operator.observe.observation import APP_KIND
from streamapp_operator.observe.observer import Objects
from streamapp_operator.reconcile import OFTEN_SECONDS, RESYNC_SECONDS
from streamapp_operator.render.meta import Object, selector_text

pytestmark = pytest.mark.cluster

KINDS = tuple(SELECTORS)
OURS = selector_text("word-count")
Event = tuple[str, Object]


def snapshot(apps: Apps) -> Cache:
    """The cache of the present state, without later events."""
    cache = Cache(apps.kube)
    for kind in KINDS:
        cache.keep_kind(kind)
        refresh(cache, apps, kind)
    return cache


def refresh(cache: Cache, apps: Apps, kind: str) -> None:
    for item in apps.kube.list(kind, apps.namespace):
        cache.put(item)


@pytest.fixture(autouse=True)
def _cluster_of_the_environment(api: ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """kopf logs in by itself, as KUBECONFIG says; the client library reads that once, when it is imported."""
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(api.kubeconfig))


class Watch:
    """kopf's watch over the test's namespace, which lists as often as asked for.

    Args:
        kind: the informer's class, which may lose events.
        resync: seconds.
    """

    def __init__(self, api: ApiServer, apps: Apps, kind: type[Informer], resync: float) -> None:
        self.cache, self.woken = Cache(apps.kube), set[str]()
        # Threads share no connection with the test.
        kube = Kube(config.new_client_from_config(str(api.kubeconfig)))
        informer = kind(kube, self.cache, [apps.namespace], lambda key, item: self.woken.add(key[1]))
        informer.resync()
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=watch, args=(informer, self._stop)),
            threading.Thread(target=informer.keep, args=(self._stop, resync)),
        ]

    def __enter__(self) -> Watch:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive()


def everything(objects: Objects, apps: Apps) -> dict[str, Any]:
    """All of the app's objects, without the fields that the cache leaves out."""
    body = objects.get(APP_KIND, apps.namespace, "word-count")
    found = {**objects.lists([kind for kind in KINDS if kind != APP_KIND], apps.namespace, OURS)}
    for item in (item for items in found.values() for item in items):
        item["metadata"].pop("managedFields", None)
    return {APP_KIND: body, **found}


def await_equal(cache: Cache, apps: Apps, seconds: float) -> None:
    until(lambda: everything(cache, apps) == everything(apps.kube, apps), seconds, "the cache is as the cluster")


# --- the cache comes to hold the cluster's state ------------------------------------------------------------


def test_it_follows_what_happens(apps: Apps, api: ApiServer) -> None:
    with Watch(api, apps, Informer, resync=300) as watching:
        cache, woken = watching.cache, watching.woken
        apps.create()
        apps.settle()
        apps.await_driver()
        await_equal(cache, apps, 10)
        assert cache.get("Secret", apps.namespace, "word-count-credentials"), "it is read where it is not kept"

        woken.clear()
        apps.change(replicas=3)
        apps.settle()
        await_equal(cache, apps, 10)
        assert woken == {"word-count"}

        budget = apps.get("PodDisruptionBudget", "word-count-executors")["metadata"]["uid"]
        apps.kube.delete("PodDisruptionBudget", apps.namespace, "word-count-executors", budget)
        until(lambda: not cache.list("PodDisruptionBudget", apps.namespace, OURS), 10, "it is forgotten", every=0.05)

        uid = apps.get(APP_KIND, "word-count")["metadata"]["uid"]
        apps.kube.delete(APP_KIND, apps.namespace, "word-count", uid)
        until(lambda: cache.get(APP_KIND, apps.namespace, "word-count") is None, 10, "it is forgotten", every=0.05)


class Deaf(Informer):
    """Events are lost."""

    def happened(self, event: str, item: Object) -> None:
        pass


class Stuttering(Informer):
    """Events come twice, and again when they are long out of date; an event that an object is gone comes late, too."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._seen: list[Event] = []

    def happened(self, event: str, item: Object) -> None:
        self._seen.append((event, item))
        for each in ((event, item), (event, item), self._seen[len(self._seen) // 2]):
            super().happened(*each)


@pytest.mark.parametrize("kind", [Deaf, Stuttering])
def test_it_is_right_again_whatever_happens_to_events(apps: Apps, api: ApiServer, kind: type[Informer]) -> None:
    """R13."""
    with Watch(api, apps, kind, resync=2) as watching:
        cache = watching.cache
        apps.create()
        apps.settle()
        apps.await_driver()
        await_equal(cache, apps, 20)
        assert "word-count" in watching.woken
        budget = apps.get("PodDisruptionBudget", "word-count-executors")["metadata"]["uid"]
        apps.kube.delete("PodDisruptionBudget", apps.namespace, "word-count-executors", budget)
        until(lambda: not cache.list("PodDisruptionBudget", apps.namespace, OURS), 20, "it is forgotten", every=0.05)
        apps.change(replicas=3)
        apps.settle()
        await_equal(cache, apps, 20)


@pytest.fixture
def without_cron_jobs(api: ApiServer, namespace: str, tmp_path: Path) -> Path:
    """The kubeconfig of a user who may see all that the operator looks at in the namespace, but for one kind."""
    kinds = [resource_of(kind)[0::2] for kind in KINDS if kind != "CronJob"]
    rules = [
        {"apiGroups": [group], "resources": [plural], "verbs": ["get", "list", "watch"]} for group, plural in kinds
    ]
    head = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "most", "namespace": namespace}}
    role = {**head, "kind": "Role", "rules": rules}
    binding = {
        **head,
        "kind": "RoleBinding",
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "most"},
        "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": namespace}],
    }
    apply_all(api, [role, binding])
    account = ("get", "serviceaccount", "default", "--ignore-not-found", "--output=name", f"--namespace={namespace}")
    until(lambda: api.kubectl(*account), 30, "the namespace has its account", every=0.1)
    (folder := tmp_path / "most").mkdir()
    return api.kubeconfig_of(folder, api.token_of(namespace, "default"))


def test_a_watch_that_fails_ends_no_other_one(
    apps: Apps,
    api: ApiServer,
    without_cron_jobs: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(without_cron_jobs))

    class Trusting(Informer):
        """Takes a kind for known that it could not list."""

        def has_synced(self, source: Source) -> bool:
            return source[1] == "CronJob" or super().has_synced(source)

    with Watch(api, apps, Trusting, resync=300) as watching:
        until(lambda: "the watch of CronJob in" in caplog.text, 30, "one watch has ended", every=0.1)
        apps.create()
        apps.settle()
        apps.await_driver()
        await_equal(watching.cache, apps, 10)
        budget = apps.get("PodDisruptionBudget", "word-count-executors")["metadata"]["uid"]
        apps.kube.delete("PodDisruptionBudget", apps.namespace, "word-count-executors", budget)
        gone: Callable[[], bool] = lambda: not watching.cache.list("PodDisruptionBudget", apps.namespace, OURS)  # noqa: E731
        until(gone, 10, "it is forgotten", every=0.05)
    assert {
        line for line in caplog.text.splitlines() if "has ended, and begins anew" in line and "CronJob" not in line
    } == set()


class Slow(Kube):
    """Calls a function while a kind is listed."""

    meanwhile: Callable[[], None] = staticmethod(lambda: None)

    def pages(self, kind: str, namespace: str | None, selector: str = "") -> Iterator[Object]:
        items = list(super().pages(kind, namespace, selector))
        if kind == "ConfigMap":
            self.meanwhile()
        yield from items


def test_what_happens_while_a_list_is_read_is_newer_than_the_list(apps: Apps, api: ApiServer) -> None:
    kube = Slow(config.new_client_from_config(str(api.kubeconfig)))
    cache = Cache(kube)
    informer = Informer(kube, cache, [apps.namespace], lambda key, item: None)
    made = {name: apps.kube.create(config_map(apps, name)) for name in ("changed", "deleted")}
    informer.resync()

    def meanwhile() -> None:
        informer.happened("MODIFIED", apps.kube.apply({**config_map(apps, "changed"), "data": {"is": "new"}}))
        apps.kube.delete("ConfigMap", apps.namespace, "deleted", made["deleted"]["metadata"]["uid"])
        informer.happened("DELETED", made["deleted"])
        informer.happened("ADDED", apps.kube.create(config_map(apps, "added")))

    kube.meanwhile = meanwhile
    informer.resync()
    found = {item["metadata"]["name"]: item.get("data") for item in cache.list("ConfigMap", apps.namespace, OURS)}
    assert found == {"changed": {"is": "new"}, "added": None}


def config_map(apps: Apps, name: str) -> Object:
    labels = {"app.kubernetes.io/instance": "word-count", "app.kubernetes.io/managed-by": "streamapp-operator"}
    metadata = {"name": name, "namespace": apps.namespace, "labels": labels}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


def test_a_list_of_several_pages_is_whole(apps: Apps, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamapp_operator.cluster.kube.PAGE", 2)
    for number in range(5):
        apps.kube.create(config_map(apps, f"many-{number}"))
    cache = Cache(apps.kube)
    Informer(apps.kube, cache, [apps.namespace], lambda key, item: None).resync()
    assert len(cache.list("ConfigMap", apps.namespace, OURS)) == 5


# --- while it does not, nothing wrong is written ------------------------------------------------------------


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
    # Even if it knows the new objects and the old resource, which makes the objects look wrong.
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
        refresh(old, apps, APP_KIND)  # the cache has the status that speaks of pods which it does not have
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
        apps.add_executor(2)
        apps.settle()
        said["totalLag"] = 8
        said["lag"] = {"text-lines/0": 8}
        apps.now = datetime.now(UTC) + timedelta(minutes=1)
        assert writes_with(old, apps) == 1
        status = apps.status()
        assert (status["observedGeneration"], status["desiredReplicas"]) == (2, 2)
        assert status["lag"]["total"] == 8


@pytest.mark.parametrize(("pause", "questions"), [(RESYNC_SECONDS, 3), (OFTEN_SECONDS, 1)])
def test_without_news_the_api_server_is_asked_for_the_secret_alone(apps: Apps, pause: float, questions: int) -> None:
    """Where the next look comes soon, it is not asked at each of them."""
    apps.create()
    apps.settle()
    apps.await_driver()
    apps.settle()
    cache = snapshot(apps)
    asked: list[str] = []
    note: Callable[[str, int], None] = lambda method, code: asked.append(method)  # noqa: E731
    apps.kube.on_answer, before = note, apps.kube.on_answer
    try:
        for _ in range(3):
            apps.memory.pauses[apps.namespace, "word-count"] = pause
            apps.reconcile(cache=cache)
    finally:
        apps.kube.on_answer = before
    assert asked == ["GET"] * questions


def test_a_secret_is_as_old_as_the_cache_says_at_most(apps: Apps) -> None:
    now = [100.0]
    cache = Cache(apps.kube, lambda: now[0])

    def value(name: str) -> str | None:
        found = cache.get("Secret", apps.namespace, name)
        return None if found is None else str(found["metadata"]["annotations"]["value"])

    def write(name: str, value: str) -> None:
        metadata = {"name": name, "namespace": apps.namespace, "annotations": {"value": value}}
        apps.kube.apply({"apiVersion": "v1", "kind": "Secret", "metadata": metadata})

    assert value("first") is None
    write("first", "old")
    assert value("first") == "old", "nothing is remembered of a Secret that was not there"
    now[0] += 10
    write("second", "old")
    assert value("second") == "old"
    for name in ("first", "second"):
        write(name, "new")
    now[0] += ASKED_SECONDS - 10
    assert (value("first"), value("second")) == ("new", "old")
    now[0] += 10
    assert (value("first"), value("second")) == ("new", "new")


def test_an_action_rests_on_the_secret_as_it_is(apps: Apps) -> None:
    apps.create()
    apps.settle()
    cache = snapshot(apps)
    apps.memory.pauses[apps.namespace, "word-count"] = OFTEN_SECONDS
    apps.reconcile(cache=cache)
    apps.memory.pauses[apps.namespace, "word-count"] = OFTEN_SECONDS
    secret = apps.get("Secret", "word-count-credentials")
    apps.kube.delete("Secret", apps.namespace, "word-count-credentials", secret["metadata"]["uid"])
    apps.change(epochInterval="200ms")
    for kind in KINDS:
        refresh(cache, apps, kind)
    apps.reconcile(cache=cache)
    assert apps.get("Secret", "word-count-credentials")["metadata"]["uid"] != secret["metadata"]["uid"]
