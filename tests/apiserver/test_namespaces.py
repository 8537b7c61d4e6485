# SPDX-License-Identifier: Apache-2.0
"""An operator for several namespaces, with the chart's own rights: trouble in one does the others no harm."""

from __future__ import annotations

import signal
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kubernetes import client, config

from lib.apiserver import ApiServer
from lib.operator import Apps
from lib.operator_process import BINDING, NAME, Operators
from lib.wait import until
from streamapp_operator.cluster.cache import Cache
from streamapp_operator.cluster.claims import NAME as CLAIM
from streamapp_operator.cluster.informer import LONGEST_PAUSE_SECONDS, Informer
from streamapp_operator.cluster.kube import Kube
from streamapp_operator.observe.remains import has_finalizer

pytestmark = pytest.mark.cluster


@pytest.fixture
def missing(api: ApiServer) -> Iterator[str]:
    """The name of a namespace that is not there yet."""
    name = f"later-{uuid.uuid4().hex[:8]}"
    yield name
    api.kubectl("delete", "namespace", name, "--wait=false", "--ignore-not-found")


def await_seen(apps: Apps, seconds: float = 30) -> None:
    """Waits until the operator has seen the app as it is."""

    def seen() -> bool:
        body = apps.get("StreamApp", "word-count")
        return bool((body.get("status") or {}).get("observedGeneration") == body["metadata"]["generation"])

    until(seen, seconds, f"the app in {apps.namespace} is seen", every=0.2)


def test_a_namespace_that_is_missing_or_forbidden_holds_no_other_up_and_is_found_later(
    api: ApiServer, kube: Kube, new_namespace: Callable[[], str], missing: str, operators: Operators
) -> None:
    home, late = Apps(kube, new_namespace()), Apps(kube, missing)
    operator = operators.start_for(home.namespace, [home.namespace, missing], [home.namespace])
    home.create()
    await_seen(home)
    (told,) = [each for each in kube.list("Event", home.namespace) if each["reason"] == "NamespaceNotWatched"]
    assert f"namespace {missing} is not watched" in told["message"]
    assert told["involvedObject"]["kind"] == "Lease"
    api.kubectl("create", "namespace", missing)
    operators.grant_in(home.namespace, [home.namespace, missing])
    late.create()
    await_seen(late, 60)
    home.change(replicas=2)
    await_seen(home, 10)
    late.change(replicas=2)
    await_seen(late, 10)
    operator.stop()


def test_rights_that_are_taken_away_and_given_back(
    api: ApiServer, new_namespace: Callable[[], str], operators: Operators, tmp_path: Path
) -> None:
    home, other = new_namespace(), new_namespace()
    token = operators.grant_in(home, [home, other])
    connect: Callable[[str], client.ApiClient] = config.new_client_from_config
    kube = Kube(connect(str(api.kubeconfig_of(tmp_path, token))))
    now, told = [0.0], list[str]()
    informer = Informer(kube, Cache(kube), [other, home], lambda key, item: None, told.append, lambda: now[0])

    def knows(namespace: str) -> bool:
        return all(informer.has_synced(source) for source in informer.sources if source[0] == namespace)

    def resync() -> bool:
        """Looks again; returns whether the informer knows the other namespace."""
        now[0] += LONGEST_PAUSE_SECONDS
        informer.resync()
        assert knows(home)
        return knows(other)

    until(resync, 10, "the rights are in force", every=0.1)
    told.clear()
    api.kubectl("delete", "rolebinding", BINDING, f"--namespace={other}")
    until(lambda: not resync(), 10, "they are no more", every=0.1)
    assert not resync()
    (sentence,) = told
    assert informer.unwatched == 1
    assert f"namespace {other} is not watched" in sentence
    operators.grant_in(home, [home, other])
    informer.resync()
    assert not knows(other), "it is left alone for a while"
    until(resync, 10, "they are in force again", every=0.1)
    assert informer.unwatched == 0
    informer.invalidate((other, "Pod"))
    assert not knows(other)
    informer.resync([(other, "Pod")])
    assert knows(other)


def is_marked(api: ApiServer, what: str, namespace: str) -> bool:
    """Whether it is being deleted, or gone."""
    shown = "--output=jsonpath={.metadata.uid} {.metadata.deletionTimestamp}"
    return len(api.kubectl("get", what, "--ignore-not-found", shown, f"--namespace={namespace}").split()) != 1


def create_held(apps: Apps) -> None:
    """Makes an app that, when it is deleted, waits for the operator and for nothing else, as there is nothing to do on
    Kafka."""
    apps.create(topology=[{"name": "x", "filter": "a > 1"}], deletionPolicy="Delete")
    until(lambda: has_finalizer(apps.get("StreamApp", "word-count")), 30, "the app waits for the operator", every=0.2)


def test_a_watched_namespace_that_is_deleted_goes_and_others_are_looked_after(
    api: ApiServer, kube: Kube, new_namespace: Callable[[], str], operators: Operators
) -> None:
    """Any of its objects may go first: the operator sees nothing of the namespace until all are gone."""
    home, other = Apps(kube, new_namespace()), Apps(kube, new_namespace())
    both = [home.namespace, other.namespace]
    operator = operators.start_for(home.namespace, both, both)
    create_held(other)
    operator.process.send_signal(signal.SIGSTOP)
    api.kubectl("delete", "namespace", other.namespace, "--wait=false")
    for what in (f"rolebinding/{BINDING}", "sapp/word-count"):
        until(lambda what=what: is_marked(api, what, other.namespace), 30, f"{what} is deleted", every=0.2)  # type: ignore[misc]
    operator.process.send_signal(signal.SIGCONT)

    def is_there() -> bool:
        return bool(api.kubectl("get", "namespace", other.namespace, "--ignore-not-found", "--output=name"))

    until(lambda: not is_there(), 60, "the namespace is gone", every=0.5)
    home.create(replicas=2)
    await_seen(home)
    operator.stop()


def test_rights_that_are_deleted_while_their_namespace_stays_wait_for_nobody(
    api: ApiServer, kube: Kube, new_namespace: Callable[[], str], operators: Operators
) -> None:
    """As with an uninstall, which also ends the operator. The rights wait no longer when no app does."""
    home = Apps(kube, new_namespace())
    operator = operators.start_for(home.namespace, [home.namespace], [home.namespace])
    create_held(home)
    assert has_finalizer(home.get("RoleBinding", BINDING))
    home.change(deletionPolicy="Retain")
    until(lambda: not has_finalizer(home.get("RoleBinding", BINDING)), 30, "nothing waits any more", every=0.2)
    home.change(deletionPolicy="Delete")
    until(lambda: has_finalizer(home.get("StreamApp", "word-count")), 30, "the app waits again", every=0.2)
    api.kubectl("delete", "rolebinding", BINDING, f"--namespace={home.namespace}", "--wait=false")
    assert has_finalizer(home.get("RoleBinding", BINDING))
    operator.stop()
    assert kube.get("RoleBinding", home.namespace, BINDING) is None
    home.edit("StreamApp", "word-count", lambda body: body["metadata"].update(finalizers=[]))


def test_two_releases_do_not_run_the_apps_of_one_namespace(
    api: ApiServer, kube: Kube, new_namespace: Callable[[], str], operators: Operators
) -> None:
    """The one that came first runs them, until it is gone."""
    apps, first, second = Apps(kube, new_namespace()), new_namespace(), new_namespace()
    runs = operators.start_for(first, [apps.namespace], [apps.namespace])
    apps.create(replicas=2)
    await_seen(apps)
    holder = apps.get("Lease", CLAIM)["spec"]["holderIdentity"]
    assert holder == f"{first}/{NAME}"
    waits = operators.start_for(second, [apps.namespace], ["default"])
    # The rights that the chart gives it, under a name other than the first one's.
    rights = (f"--clusterrole={second}-{NAME}", f"--serviceaccount={second}:{NAME}", f"--namespace={apps.namespace}")
    api.kubectl("create", "rolebinding", "second", *rights)
    until(lambda: f"the release {holder} runs the apps there" in waits.said, 90, "the second one stands by", every=0.5)
    for replicas in (3, 4, 5):
        apps.change(replicas=replicas)
        await_seen(apps, 10)
    assert "PodDisruptionBudget" not in waits.said
    runs.kill()
    apps.change(replicas=6)
    await_seen(apps, 90)
    assert apps.get("Lease", CLAIM)["spec"]["holderIdentity"] == f"{second}/{NAME}"
    # The status says what is about to be done, so the objects follow it.
    until(lambda: "spec.minAvailable of PodDisruptionBudget" in waits.said, 30, "the second one acts", every=0.1)
