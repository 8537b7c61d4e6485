# SPDX-License-Identifier: Apache-2.0
"""R17: a version that the API server does not take leaves the one before as it is, down to the last object: if its
driver is started anew, that finds its own plan."""

from __future__ import annotations

import re
from typing import Any

import pytest

from lib.apiserver import ApiServer, apply_all
from lib.operator import CHILDREN, Apps, KubeError, Object
from lib.wait import until
from streamapp_operator.cluster.kube import Kube

pytestmark = pytest.mark.cluster

RUN = {"run": "untilCaughtUp"}
FORMS: dict[str, dict[str, Any]] = {
    "StatefulSet": {},
    "Job": RUN,
    "CronJob": {**RUN, "schedule": "0 0 29 2 *"},
}
"""Fields of the spec, by the kind of object that makes the driver."""
NEITHER: dict[str, Any] = {"run": None, "schedule": None}
REFUSED: dict[str, Any] = {
    "epochInterval": "7s",
    "replicas": 3,
    "driver": {"podTemplate": {"spec": {"dnsPolicy": "Perhaps"}}},
}
"""Another plan, another budget, and a pod that no API server takes."""
UNREADABLE: dict[str, tuple[dict[str, Any], str]] = {
    "a typo": ({"tolerations": [{"kee": "x"}]}, ".kee: field not declared in schema"),
    "another type": ({"priorityClassName": 5}, ".priorityClassName: expected string"),
    "no quantity": (
        {"containers": [{"name": "driver", "resources": {"limits": {"ephemeral-storage": "lots"}}}]},
        "quantities must match",
    ),
    "the same twice": ({"imagePullSecrets": [{"name": "x"}] * 2}, ".imagePullSecrets: duplicate entries for key"),
}
"""Pods that the API server answers with 500, and its words."""


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kinds of the objects that the operator asked the API server about before it did anything."""
    kinds: list[str] = []
    ask = Kube.try_apply

    def noted(kube: Kube, wanted: Object) -> None:
        kinds.append(wanted["kind"])
        ask(kube, wanted)

    monkeypatch.setattr(Kube, "try_apply", noted)
    return kinds


def uids(apps: Apps) -> dict[tuple[str, str], str]:
    return {key: item["metadata"]["uid"] for key, item in apps.children().items()}


def refuse(apps: Apps, words: str = "Perhaps") -> None:
    for _ in range(3):  # each round does as much as it can
        with pytest.raises(KubeError, match=re.escape(words)):
            apps.reconcile()
    assert apps.condition("Degraded")["reason"] == "Refused"
    assert words in apps.condition("Degraded")["message"]


@pytest.mark.parametrize("after", FORMS)
@pytest.mark.parametrize("before", FORMS)
def test_nothing_of_it_is_done(apps: Apps, before: str, after: str) -> None:
    apps.create(**FORMS[before])
    apps.settle()
    wanted, there = apps.essence(), uids(apps)
    apps.change(**{**REFUSED, **NEITHER, **FORMS[after]})
    refuse(apps)
    assert uids(apps) == there
    assert apps.essence() == wanted
    back: dict[str, Any] = {**dict.fromkeys(REFUSED), **NEITHER, **FORMS[before]}
    apps.change(**back)
    apps.settle()
    assert apps.condition("Degraded")["status"] == "False"
    assert apps.essence() == wanted


def test_what_runs_is_healed_meanwhile(apps: Apps) -> None:
    apps.create()
    apps.settle()
    wanted = apps.essence()
    apps.change(**REFUSED)
    refuse(apps)
    for kind in ("Service", "Role"):
        apps.kube.delete(kind, apps.namespace, "word-count-driver", uids(apps)[kind, "word-count-driver"])
    refuse(apps)
    assert apps.essence() == wanted


@pytest.mark.parametrize("fault", UNREADABLE)
def test_a_pod_that_cannot_be_read_is_refused_and_all_else_is_healed(apps: Apps, fault: str) -> None:
    spec, words = UNREADABLE[fault]
    bad = {"podTemplate": {"spec": spec}}
    apps.create(driver=bad)
    refuse(apps, words)
    kinds = {kind for kind, _ in apps.children()}
    assert kinds == {kind for kind, _ in CHILDREN} - {"StatefulSet"}
    apps.change(driver=None)
    apps.settle()
    wanted = apps.essence()
    apps.change(driver=bad)
    refuse(apps, words)
    apps.kube.delete("Service", apps.namespace, "word-count-driver", uids(apps)["Service", "word-count-driver"])
    refuse(apps, words)
    assert apps.essence() == wanted


BAD_EXECUTORS: dict[str, tuple[dict[str, Any], str]] = {
    "a typo": ({"tolerations": [{"kee": "x"}]}, 'unknown field "spec.tolerations[2].kee"'),
    "no such policy": ({"tolerations": [{"operator": "Perhaps"}]}, "spec.tolerations[2].operator"),
}


@pytest.mark.parametrize("fault", BAD_EXECUTORS)
def test_executors_that_the_api_server_would_not_take_are_refused_before_anything_is_changed(
    apps: Apps, fault: str
) -> None:
    spec, words = BAD_EXECUTORS[fault]
    bad = {"podTemplate": {"spec": spec}}
    apps.create(executor=bad)
    refuse(apps, words)
    kinds = {kind for kind, _ in apps.children()}
    assert kinds == {kind for kind, _ in CHILDREN} - {"StatefulSet", "ConfigMap", "ControllerRevision"}
    apps.change(executor=None)
    apps.settle()
    wanted = apps.essence()
    apps.change(executor=bad)
    refuse(apps, words)
    assert apps.essence() == wanted
    good = {"podTemplate": {"spec": {"tolerations": [{"operator": "Exists"}]}}}
    apps.change(executor=good)
    apps.settle()
    assert apps.essence() != wanted


def test_a_quota_that_is_used_up_now_refuses_no_template(apps: Apps, api: ApiServer) -> None:
    limit(apps, api, "pods")
    apps.create()
    apps.settle()
    assert set(apps.children()) >= CHILDREN


def limit(apps: Apps, api: ApiServer, what: str) -> None:
    """Forbids new objects of that kind from now on."""
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none", "namespace": apps.namespace}}
    apply_all(api, [quota | {"spec": {"hard": {what: "0"}}}])

    def counts() -> bool:
        return "used:" in api.kubectl("get", "resourcequota", "none", f"--namespace={apps.namespace}", "--output=yaml")

    until(counts, 30, "the quota is in force", every=0.1)


def test_what_does_not_depend_on_the_refused_object_is_made(apps: Apps, api: ApiServer) -> None:
    """The account comes first of all, and may not be made here."""
    limit(apps, api, "count/serviceaccounts")
    apps.create()
    refuse(apps, "exceeded quota")
    kinds = {kind for kind, _ in apps.children()}
    assert kinds == {kind for kind, _ in CHILDREN} - {"ServiceAccount", "ConfigMap", "StatefulSet"}


def test_it_is_asked_for_a_new_version_and_for_nothing_else(apps: Apps, asked: list[str]) -> None:
    apps.create()
    apps.settle()
    apps.await_driver()
    apps.change(replicas=3)
    apps.settle()
    apps.kube.delete("Service", apps.namespace, "word-count-driver", uids(apps)["Service", "word-count-driver"])
    apps.settle()
    assert set(apps.children()) >= CHILDREN
    assert asked == []
    apps.change(epochInterval="7s")
    apps.settle()
    assert asked == ["ControllerRevision", "ConfigMap", "StatefulSet"]
