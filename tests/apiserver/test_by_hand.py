# SPDX-License-Identifier: Apache-2.0
"""R15: if somebody deletes or edits an object of an app by hand, it becomes what it was again, whatever its kind; and a
driver that it does not affect runs on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lib.operator import CHILDREN, WORD_COUNT, Apps, KubeError, Object
from lib.operator_process import Operators
from lib.rollouts import prove, versions
from lib.wait import until
from streamapp_operator.manifest.versions import HEALTHY, VERDICT_ANNOTATION
from streamapp_operator.observe.observation import LISTED

pytestmark = pytest.mark.cluster

SECONDS = 30.0
"""The time that R15 allows."""
RUN = {"run": "untilCaughtUp"}
NEVER = {**RUN, "schedule": "0 0 29 2 *"}
"""A schedule whose next run practically never comes."""
FORMS: dict[str, dict[str, Any]] = {"Job": RUN, "CronJob": NEVER}
"""Fields of the spec of an app whose driver this kind of object makes. All other objects are those of the plain word
count."""
RELATED = ("StatefulSet", "Job", "CronJob", "Secret")
"""Kinds that the driver depends on. Without the first three there is no driver; a new secret between driver and
executors is one that the old driver does not have."""

DELETED = sorted({*CHILDREN, ("Job", ""), ("CronJob", "word-count-run")})
"""Kind and name; without a name there is only one of the kind."""
EVERYBODY = {"kind": "Group", "name": "system:authenticated", "apiGroup": "rbac.authorization.k8s.io"}
NONE = {"key": "no-pod-has-it", "operator": "Exists"}


def changed(items: list[Object], **fields: object) -> list[Object]:
    """The items, with these fields in the first one."""
    return [{**items[0], **fields}, *items[1:]]


def with_a_range_of_ports(rules: list[Object]) -> list[Object]:
    """The rules with all ports from the first one of the first rule on."""
    return changed(rules, ports=changed(rules[0]["ports"], endPort=65535))


def with_more_rights(ours: Object) -> Object:
    return {**ours, "capabilities": {**ours["capabilities"], "add": ["SYS_ADMIN"]}}


def from_everywhere(rules: list[Object]) -> list[Object]:
    """The rules, of which the first lets its peers in from every namespace."""
    return changed(rules, **{"from": [{**peer, "namespaceSelector": {}} for peer in rules[0]["from"]]})


Value = object | Callable[[Any], object]
"""The value that somebody puts into a field, or a function that makes it from the present one."""
POD, RUN_POD = ("spec", "template", "spec"), ("spec", "jobTemplate", "spec", "template", "spec")
SIDECAR = {"name": "theirs", "image": "x"}
ADDED: list[tuple[tuple[str, ...], Value]] = [
    (("hostNetwork",), True),
    (("hostPID",), True),
    (("containers",), lambda ours: [SIDECAR, *ours]),
    (("initContainers",), [SIDECAR]),
    (("volumes",), lambda ours: [*ours, {"name": "node", "hostPath": {"path": "/"}}]),
    (("containers",), lambda ours: changed(ours, env=[*ours[0]["env"], {"name": "A", "value": "b"}])),
    (("containers",), lambda ours: changed(ours, envFrom=[{"secretRef": {"name": "x"}}])),
    (("containers",), lambda ours: changed(ours, securityContext=with_more_rights(ours[0]["securityContext"]))),
    (("securityContext",), lambda ours: {**ours, "supplementalGroups": [0]}),
]
"""Fields that give the driver's pod more than it should have."""
EDITED: list[tuple[str, str, tuple[str, ...], Value]] = [
    ("ConfigMap", "word-count-config", ("data", "plan.json"), "{}"),
    ("ControllerRevision", "", ("revision",), 99),
    ("CronJob", "word-count-run", ("spec", "schedule"), "* * * * *"),
    ("CronJob", "word-count-run", ("spec", "suspend"), True),
    ("Job", "", ("spec", "suspend"), True),
    ("Job", "", ("spec", "parallelism"), 0),
    ("NetworkPolicy", "word-count-driver", ("spec", "egress"), [{}]),
    ("NetworkPolicy", "word-count-executors", ("spec", "policyTypes"), ["Ingress"]),
    ("NetworkPolicy", "word-count-driver", ("spec", "podSelector"), lambda ours: {**ours, "matchExpressions": [NONE]}),
    ("NetworkPolicy", "word-count-driver", ("spec", "ingress"), with_a_range_of_ports),
    ("NetworkPolicy", "word-count-executors", ("spec", "ingress"), from_everywhere),
    ("PodDisruptionBudget", "word-count-executors", ("spec", "minAvailable"), 7),
    ("Role", "word-count-driver", ("rules",), [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]),
    ("Role", "word-count-driver", ("rules",), lambda ours: changed(ours, resourceNames=["x"])),
    ("RoleBinding", "word-count-driver", ("subjects",), []),
    ("RoleBinding", "word-count-driver", ("subjects",), lambda ours: [*ours, EVERYBODY]),
    ("Secret", "word-count-credentials", ("data", "rpc-secret"), ""),
    ("Service", "word-count-driver", ("spec", "selector"), {"app": "other"}),
    ("Service", "word-count-driver", ("spec", "selector"), lambda ours: {**ours, "app": "other"}),
    ("ServiceAccount", "word-count-driver", ("automountServiceAccountToken",), True),
    ("ServiceAccount", "word-count-driver", ("automountServiceAccountToken",), None),
    ("StatefulSet", "word-count-driver", ("spec", "replicas"), 3),
    ("CronJob", "word-count-run", (*RUN_POD, "hostNetwork"), True),
    *(("StatefulSet", "word-count-driver", (*POD, *path), value) for path, value in ADDED),
]


def test_every_kind_that_is_made_is_tried() -> None:
    """The operator sees these kinds and no others: it would never know of an object of another kind."""
    made = {*LISTED, "Secret"}
    assert {kind for kind, _ in DELETED} == made
    assert {kind for kind, *_ in EDITED} == made


@pytest.mark.parametrize(("kind", "name"), DELETED)
def test_a_deleted_object_comes_back(apps: Apps, kind: str, name: str) -> None:
    driver = begin(apps, kind)
    wanted = apps.essence()
    name = name or only(apps, kind)
    before = apps.get(kind, name)["metadata"]["uid"]
    apps.kube.delete(kind, apps.namespace, name, before)
    until(lambda: apps.kube.get(kind, apps.namespace, name) is None, 30, "it is gone", every=0.1)

    def is_back() -> bool:
        apps.settle()
        found = apps.kube.get(kind, apps.namespace, name)
        return found is not None and found["metadata"]["uid"] != before

    until(is_back, SECONDS, "it is back", every=0.1)  # a Job waits for the pod of the one before
    apps.settle()
    assert apps.essence() == wanted
    if kind not in RELATED:
        assert apps.await_driver()["metadata"]["uid"] == driver


@pytest.mark.parametrize(("kind", "name", "path", "value"), EDITED)
def test_an_edited_object_is_set_right(apps: Apps, kind: str, name: str, path: tuple[str, ...], value: Value) -> None:
    driver = begin(apps, kind)
    wanted = apps.essence()
    name = name or only(apps, kind)
    before = apps.get(kind, name)["metadata"]["uid"]
    edit(apps, kind, name, path, value)
    apps.settle()
    assert apps.essence() == wanted
    assert apps.get(kind, name)["metadata"]["uid"] == before
    if kind not in ("Secret", *FORMS):
        assert apps.await_driver()["metadata"]["uid"] == driver


def test_what_a_version_holds_cannot_be_edited(apps: Apps) -> None:
    begin(apps, "ControllerRevision")
    name = only(apps, "ControllerRevision")
    with pytest.raises(KubeError, match="immutable"):
        edit(apps, "ControllerRevision", name, ("data", "spec", "topology"), [])


def test_a_version_that_has_proved_itself_is_known_for_it_until_it_is_deleted_and_then_proves_itself_anew(
    apps: Apps, tmp_path: Path
) -> None:
    driver = begin(apps)
    proven = prove(apps, tmp_path)
    edit(apps, "ControllerRevision", proven, ("revision",), 99)
    apps.settle()
    found = versions(apps)[proven]
    assert found["revision"] == 1
    assert found["metadata"]["annotations"][VERDICT_ANNOTATION] == HEALTHY
    apps.kube.delete("ControllerRevision", apps.namespace, proven, found["metadata"]["uid"])
    until(lambda: proven not in versions(apps), 30, "it is gone", every=0.1)
    apps.settle()
    assert VERDICT_ANNOTATION not in versions(apps)[proven]["metadata"]["annotations"]
    assert prove(apps, tmp_path) == proven
    assert versions(apps)[proven]["metadata"]["annotations"][VERDICT_ANNOTATION] == HEALTHY
    assert apps.await_driver()["metadata"]["uid"] == driver


@pytest.mark.parametrize("field", ["labels", "ownerReferences"])
def test_objects_that_have_lost_whose_they_are_get_it_back(apps: Apps, field: str) -> None:
    driver = begin(apps)
    wanted, found = apps.essence(), apps.children().values()
    for item in found:
        if item["kind"] not in ("ControllerRevision", "Secret"):
            # These may be of any version: controllers write into some of them, too.
            apps.kube.merge(item["kind"], apps.namespace, item["metadata"]["name"], {"metadata": {field: None}})
    apps.settle()
    assert apps.essence() == wanted
    assert {item["metadata"]["uid"] for item in apps.children().values()} == {i["metadata"]["uid"] for i in found}
    assert apps.await_driver()["metadata"]["uid"] == driver


def test_an_operator_that_watches_brings_all_of_it_back_in_time(apps: Apps, operators: Operators) -> None:
    """Everything at once, for an app that runs for ever, for one that ends and for one with a schedule: first objects
    are deleted, then others are edited."""
    operators.start(apps.namespace)
    names = ("ever", "once", "at-times")
    for name, spec in zip(names, ({}, RUN, NEVER), strict=True):
        apps.create(WORD_COUNT.replace("name: word-count}", f"name: {name}}}"), **spec)
    until(lambda: all(is_settled(apps, name) for name in names), 60, "the apps are as they should be", every=0.2)

    def essence() -> dict[str, object]:
        return {name: apps.essence(name) for name in names}

    def uids() -> set[str]:
        return {item["metadata"]["uid"] for name in names for item in apps.children(name).values()}

    wanted, before = essence(), uids()
    assert {kind for name in names for kind, _ in apps.children(name)} == {*LISTED, "Secret"}
    for app in names:
        for (kind, name), item in apps.children(app).items():
            apps.kube.delete(kind, apps.namespace, name, item["metadata"]["uid"])
    until(lambda: not uids() & before and essence() == wanted, SECONDS, "what was deleted is back", every=0.2)
    edited = set()
    for app in names:
        for kind, place, path, value in EDITED:
            for name in [each for each_kind, each in apps.children(app) if each_kind == kind]:
                if place in ("", name.replace(app, "word-count", 1)) and (kind, name) not in edited:
                    edit(apps, kind, name, path, value)
                    edited.add((kind, name))
    assert {kind for kind, _ in edited} == {*LISTED, "Secret"}
    until(lambda: essence() == wanted, SECONDS, "what was edited is set right", every=0.2)


def begin(apps: Apps, kind: str = "StatefulSet") -> str:
    """Makes an app that has an object of that kind; returns the uid of its driver's pod, empty if no StatefulSet makes
    it."""
    apps.create(**FORMS.get(kind, {}))
    apps.settle()
    return "" if kind in FORMS else str(apps.await_driver()["metadata"]["uid"])


def only(apps: Apps, kind: str) -> str:
    (name,) = [name for each, name in apps.children() if each == kind]
    return name


def edit(apps: Apps, kind: str, name: str, path: tuple[str, ...], value: Value) -> None:
    def change(found: Object) -> None:
        for step in path[:-1]:
            found = found[step]
        new = value(found[path[-1]]) if callable(value) else value
        assert found.get(path[-1]) != new
        found[path[-1]] = new

    if kind == "ControllerRevision":  # a client cannot send back its data as they were: other order, other data
        change(wanted := {path[0]: apps.get(kind, name)[path[0]]})
        apps.kube.merge(kind, apps.namespace, name, wanted)
    else:
        apps.edit(kind, name, change)


def is_settled(apps: Apps, name: str) -> bool:
    if "status" not in apps.get("StreamApp", name):
        return False
    return apps.condition("Progressing", name)["reason"] in ("Starting", "Settled")
