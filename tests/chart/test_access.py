# SPDX-License-Identifier: Apache-2.0
"""The operator may do exactly what it does, each verb with a reason, on a real API server."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from lib.apiserver import ApiServer
from lib.chart import VALUES, Object, Render
from lib.grants import Grant, argued_in, asked_for, granted_by, roles_of
from lib.operator import WORD_COUNT
from lib.operator_process import NOT_HERE, OWN
from lib.wait import until
from streamapp_operator.manifest.app import read_app
from streamapp_operator.observe.observation import LISTED
from streamapp_operator.render import Credentials
from streamapp_operator.render import render as render_app
from streamapp_operator.render.access import DRIVER_RULES
from streamapp_operator.settings import Settings

pytestmark = pytest.mark.cluster

NAMESPACE = "streams"
ACCOUNT = "ops-streamapp-operator"
USER = f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}"


def grants_of(objects: list[Object]) -> set[Grant]:
    """The grants to the operator, without the roles for people."""
    ours = [role for role in roles_of(objects) if not role["metadata"]["name"].endswith(("-edit", "-view"))]
    return {grant for role in ours for grant in granted_by(role["rules"])}


def without_reason(granted: set[Grant], manual: str) -> set[Grant]:
    return granted - set(argued_in(manual))


@pytest.fixture(scope="module")
def manual(root: Path) -> str:
    return (root / "docs" / "security.md").read_text()


@pytest.mark.parametrize("values", VALUES, ids=lambda file: file.stem)
def test_no_rule_has_a_wildcard_or_gives_more_than_it_says(render: Render, values: Path) -> None:
    roles = roles_of(render("--values", str(values)))
    assert roles
    for role in roles:
        for rule in role["rules"]:
            words = {*rule["apiGroups"], *rule["resources"], *rule["verbs"]}
            assert not [word for word in words if "*" in word], rule
            assert not words & {"escalate", "bind", "impersonate", "pods/exec", "nodes", "clusterroles"}, rule


@pytest.mark.parametrize("values", VALUES, ids=lambda file: file.stem)
def test_every_grant_is_argued_in_the_manual_and_nothing_is_argued_that_is_not_granted(
    render: Render, values: Path, manual: str
) -> None:
    granted = grants_of(render("--values", str(values)))
    assert without_reason(granted, manual) == set()
    assert set(argued_in(manual)) - granted == set()


def test_a_planted_grant_is_noticed(render: Render, manual: str) -> None:
    objects = render()
    roles_of(objects)[0]["rules"].append({"apiGroups": [""], "resources": ["secrets"], "verbs": ["list"]})
    assert without_reason(grants_of(objects), manual) == {Grant("", "secrets", "list")}


@dataclass
class Running:
    """The operator as a process, with its account's own token, under the chart's rules."""

    api: ApiServer
    process: subprocess.Popen[bytes]
    log: Path

    def kubectl(self, *arguments: str, text: str | None = None, check: bool = True) -> str:
        return self.api.kubectl(f"--namespace={NAMESPACE}", *arguments, text=text, check=check)

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(30) == 0, self.log.read_text()[-3000:]


@pytest.fixture(scope="module")
def installed(api: ApiServer, render: Render) -> list[Object]:
    """Applies the chart's objects, without the pods: the operator runs as a process here."""
    return applied(api, render("--set", OWN))


def applied(api: ApiServer, rendered: list[Object]) -> list[Object]:
    objects = [item for item in rendered if item["kind"] not in NOT_HERE]
    api.kubectl("apply", "--server-side", "-f", "-", text=yaml.safe_dump_all(objects))
    return objects


@pytest.fixture
def operator(api: ApiServer, render: Render, installed: list[Object], tmp_path: Path) -> Iterator[Running]:
    config = yaml.safe_load(api.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": api.token_of(NAMESPACE, ACCOUNT)}
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(config))
    objects = render("--set", OWN)
    (deployment,) = [item for item in objects if item["kind"] == "Deployment"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    given = {item["name"]: item["value"] for item in container["env"] if "value" in item}
    log = tmp_path / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "streamapp_operator"],
            env={
                **os.environ,
                **given,
                "KUBECONFIG": str(tmp_path / "kubeconfig"),
                "STREAMAPP_NAMESPACE": NAMESPACE,
                "STREAMAPP_HEALTH_PORT": "",
            },
            stdout=out,
            stderr=out,
        )
    try:
        yield Running(api, process, log)
    finally:
        process.kill()
        process.wait()


def test_the_operator_does_its_work_with_these_rights_and_uses_every_one(
    operator: Running, render: Render, tmp_path: Path
) -> None:
    kubectl = operator.kubectl
    kubectl("apply", "-f", "-", text=WORD_COUNT)

    def status(path: str) -> str:
        return kubectl("get", "streamapp", "word-count", f"--output=jsonpath={{{path}}}", check=False)

    def is_there(what: str) -> bool:
        return bool(kubectl("get", what, "--ignore-not-found", "--output=name"))

    # Everything is made, and events are written.
    until(lambda: status(".status.phase") == "Pending", 60, "the app is Pending", every=0.5)
    until(lambda: is_there("pod/word-count-driver-0"), 30, "the driver's pod is made", every=0.2)
    until(lambda: "word-count" in kubectl("get", "events"), 30, "events are told", every=0.5)
    # Objects that are not needed any more are deleted.
    uid = status(".metadata.uid")
    old = [old_object(operator, kind, uid) for kind in LISTED if kind not in ("Job", "CronJob")]
    kubectl("apply", "-f", "-", text=yaml.safe_dump_all(old))
    names = ",".join(item["kind"].lower() for item in old)
    until(lambda: "word-count-old" not in kubectl("get", names, "--output=name"), 60, "they are deleted", every=0.5)
    # A driver with an old plan is deleted.
    before = kubectl("get", "pod/word-count-driver-0", "--output=jsonpath={.metadata.uid}")
    kubectl("patch", "streamapp", "word-count", "--type=merge", "--patch", '{"spec": {"epochInterval": "1s"}}')
    until(
        lambda: kubectl("get", "pod/word-count-driver-0", "--output=jsonpath={.metadata.uid}", check=False) != before,
        60,
        "the driver is started anew",
        every=0.2,
    )
    # The kind of object that makes the driver changes with the app's `run`.
    runs = "--selector=app.kubernetes.io/instance=word-count"
    for change, there in (
        ({"run": "untilCaughtUp"}, "job.batch/word-count-run-"),
        ({"schedule": "0 8 * * *"}, "cronjob.batch/word-count-run"),
        ({"run": "continuous", "schedule": None}, "statefulset.apps/word-count-driver"),
    ):
        kubectl("patch", "streamapp", "word-count", "--type=merge", "--patch", json.dumps({"spec": change}))

        def is_the_only_one(there: str = there) -> bool:
            names = kubectl("get", "jobs,cronjobs,statefulsets", runs, "--output=name").split()
            return len(names) == 1 and names[0].startswith(there)

        until(is_the_only_one, 60, f"{there} is there, and nothing else", every=0.5)
    # An app whose topics are deleted with it waits for the operator.
    finalizer = "streamapp.dev/internal-topics"
    for policy, held in (("Delete", finalizer), ("Retain", ""), ("Delete", finalizer), ("Retain", "")):
        patch = json.dumps({"spec": {"deletionPolicy": policy}})
        kubectl("patch", "streamapp", "word-count", "--type=merge", "--patch", patch)
        until(lambda held=held: status(".metadata.finalizers[*]") == held, 60, policy, every=0.5)  # type: ignore[misc]
    # A Lease that somebody deletes is made again.
    held = kubectl("get", "lease", ACCOUNT, "--output=jsonpath={.spec.holderIdentity}")
    assert held
    kubectl("delete", "lease", ACCOUNT)
    until(lambda: is_there(f"lease/{ACCOUNT}"), 30, "the Lease is back", every=0.2)
    # No node takes the driver.
    listed = Grant("", "events", "list")
    until(lambda: listed in asked_for(operator.api.audit_log, USER)[0], 60, "the operator asks why", every=1)
    operator.stop()
    assert kubectl("get", "lease", ACCOUNT, "--output=jsonpath={.spec.holderIdentity}") == ""

    asked, refused = asked_for(operator.api.audit_log, USER)
    assert refused == [], operator.log.read_text()[-3000:]
    granted, handed_on = grants_of(render()), set(granted_by(DRIVER_RULES))
    assert granted - asked - handed_on == set(), "granted and not needed"
    assert unneeded({*granted, Grant("", "secrets", "list")}, asked | handed_on) == {Grant("", "secrets", "list")}


def unneeded(granted: set[Grant], used: set[Grant]) -> set[Grant]:
    return granted - used


def old_object(operator: Running, kind: str, uid: str) -> Object:
    """An object that belongs to the app and is not among those that it should have now: a copy under another name."""
    version = operator.kubectl("get", "streamapp", "word-count", "--output=jsonpath={.status.version}")
    name = {
        "ControllerRevision": version,
        "NetworkPolicy": "word-count-driver",
        "PodDisruptionBudget": "word-count-executors",
        "ConfigMap": "word-count-config",
    }.get(kind, "word-count-driver")
    found: Object = json.loads(operator.kubectl("get", kind, name, "--output=json"))
    metadata = found["metadata"]
    assert metadata["ownerReferences"][0]["uid"] == uid
    kept = {field: metadata[field] for field in ("labels", "annotations", "ownerReferences", "namespace")}
    found |= {"metadata": {**kept, "name": "word-count-old"}}
    found.pop("status", None)
    for field in ("clusterIP", "clusterIPs"):
        if kind == "Service":
            found["spec"].pop(field)
    if kind == "StatefulSet":
        found["spec"]["replicas"] = 0
    return found


# --- the API server's answers ---------------------------------------------------------------------------------------

ALLOWED = [
    ("list", "streamapps.streamapp.dev", NAMESPACE),
    ("patch", "streamapps.streamapp.dev/status", NAMESPACE),
    ("patch", "streamapps.streamapp.dev", NAMESPACE),
    ("create", "statefulsets.apps", NAMESPACE),
    ("create", "jobs.batch", NAMESPACE),
    ("create", "cronjobs.batch", NAMESPACE),
    ("delete", "pods", NAMESPACE),
    ("get", "secrets", NAMESPACE),
    ("create", "roles.rbac.authorization.k8s.io", NAMESPACE),
    ("create", "events", NAMESPACE),
    (f"update={ACCOUNT}", "leases.coordination.k8s.io", NAMESPACE),
    ("update=streamapp-operator-apps", "leases.coordination.k8s.io", NAMESPACE),
]
DENIED = [
    ("list", "secrets", NAMESPACE),
    ("watch", "secrets", NAMESPACE),
    ("delete", "secrets", NAMESPACE),
    ("update", "streamapps.streamapp.dev", NAMESPACE),
    ("create", "streamapps.streamapp.dev", NAMESPACE),
    ("delete", "streamapps.streamapp.dev", NAMESPACE),
    ("patch", "pods", NAMESPACE),
    ("create", "pods/exec", NAMESPACE),
    ("get", "pods/log", NAMESPACE),
    ("create", "serviceaccounts/token", NAMESPACE),
    ("escalate", "roles.rbac.authorization.k8s.io", NAMESPACE),
    ("bind", "roles.rbac.authorization.k8s.io", NAMESPACE),
    ("create", "deployments.apps", NAMESPACE),
    ("update=another", "leases.coordination.k8s.io", NAMESPACE),
    ("list", "leases.coordination.k8s.io", NAMESPACE),
    *[
        (verb, what, place)
        for verb in ("get", "list", "create", "delete")
        for what, place in (
            ("pods", "default"),
            ("secrets", "kube-system"),
            ("streamapps.streamapp.dev", "default"),
            ("namespaces", ""),
            ("nodes", ""),
            ("clusterroles.rbac.authorization.k8s.io", ""),
            ("customresourcedefinitions.apiextensions.k8s.io", ""),
        )
    ],
]


def may(api: ApiServer, user: str, verb: str, what: str, namespace: str) -> bool:
    """Whether the user may do that, by a SubjectAccessReview."""
    verb, _, name = verb.partition("=")
    resource, _, rest = what.partition(".")
    group, _, sub = rest.partition("/")
    if not rest:
        resource, _, sub = resource.partition("/")
    attributes = {"verb": verb, "resource": resource, "group": group, "namespace": namespace}
    attributes |= {key: value for key, value in (("name", name), ("subresource", sub)) if value}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": user, "groups": ["system:serviceaccounts", "system:authenticated"]}
        | {"resourceAttributes": attributes},
    }
    said = json.loads(api.kubectl("create", "-f", "-", "--output=json", text=yaml.safe_dump(review)))
    return bool(said["status"]["allowed"])


def test_what_is_allowed_and_what_is_not(api: ApiServer, installed: list[Object]) -> None:
    assert [case for case in ALLOWED if not may(api, USER, *case)] == []
    assert [case for case in DENIED if may(api, USER, *case)] == []


WIDE = "everywhere"
WIDE_USER = f"system:serviceaccount:{WIDE}:{ACCOUNT}"
PLACES = (WIDE, "default", "kube-system")
WIDE_ALLOWED = [
    *[(verb, what, place) for verb, what, _ in ALLOWED for place in PLACES if not what.startswith("leases")],
    *[
        (verb, what, "")
        for verb in ("list", "watch")
        for what in (
            "streamapps.streamapp.dev",
            "pods",
            "statefulsets.apps",
            "rolebindings.rbac.authorization.k8s.io",
        )
    ],
    (f"update={ACCOUNT}", "leases.coordination.k8s.io", WIDE),
    *[("update=streamapp-operator-apps", "leases.coordination.k8s.io", place) for place in PLACES],
    *[("create", "leases.coordination.k8s.io", place) for place in PLACES],
    (f"get={WIDE}", "namespaces", WIDE),
]
WIDE_DENIED = [
    # Rights that are not granted where apps may be are granted nowhere,
    *[(verb, what, place) for verb, what, asked in DENIED if asked == NAMESPACE for place in PLACES],
    # nor are cluster-wide ones,
    *[case for case in DENIED if case[2] == ""],
    ("list", "secrets", ""),
    ("create", "clusterrolebindings.rbac.authorization.k8s.io", ""),
    ("escalate", "clusterroles.rbac.authorization.k8s.io", ""),
    ("bind", "clusterroles.rbac.authorization.k8s.io", ""),
    # and the Lease and the namespace are still its own alone.
    *[(f"{verb}={ACCOUNT}", "leases.coordination.k8s.io", place) for verb in ("get", "update") for place in PLACES[1:]],
    *[(f"get={place}", "namespaces", place) for place in PLACES[1:]],
]


def test_what_is_allowed_in_all_namespaces_and_what_still_is_not(api: ApiServer, render: Render) -> None:
    api.kubectl("create", "namespace", WIDE)
    applied(api, render("--set", "watch.clusterWide=true", namespace=WIDE))
    assert [case for case in WIDE_ALLOWED if not may(api, WIDE_USER, *case)] == []
    assert [case for case in WIDE_DENIED if may(api, WIDE_USER, *case)] == []


DRIVER_ALLOWED = [
    (verb, "pods", NAMESPACE) for verb in ("get", "list", "watch", "create", "delete", "deletecollection")
]
DRIVER_DENIED = [
    ("patch", "pods", NAMESPACE),
    ("update", "pods", NAMESPACE),
    ("create", "pods/exec", NAMESPACE),
    ("get", "pods/log", NAMESPACE),
    ("create", "pods/ephemeralcontainers", NAMESPACE),
    ("create", "serviceaccounts/token", NAMESPACE),
    ("create", "events", NAMESPACE),
    ("get", "nodes", ""),
    ("get", "namespaces", ""),
    ("get=streams", "namespaces", NAMESPACE),
    *[
        (verb, what, NAMESPACE)
        for verb in ("get", "list", "watch", "create", "patch", "delete")
        for what in (
            "configmaps",
            "persistentvolumeclaims",
            "secrets",
            "services",
            "serviceaccounts",
            "statefulsets.apps",
            "leases.coordination.k8s.io",
            "roles.rbac.authorization.k8s.io",
            "rolebindings.rbac.authorization.k8s.io",
            "streamapps.streamapp.dev",
            "streamapps.streamapp.dev/status",
        )
    ],
    *[(verb, "pods", "default") for verb in ("get", "list", "create", "delete")],
]


@pytest.fixture(scope="module")
def driver(api: ApiServer) -> str:
    """The account of an app's driver, as the operator makes it."""
    body = yaml.safe_load(WORD_COUNT)
    body["metadata"] |= {"namespace": NAMESPACE, "uid": "1", "name": "judged"}
    objects = render_app(read_app(body), Settings(), Credentials("token", "secret"))
    ours = [item for item in objects if item["kind"] in ("ServiceAccount", "Role", "RoleBinding")]
    for item in ours:
        del item["metadata"]["ownerReferences"]  # there is no such app
    api.kubectl("apply", "--server-side", "-f", "-", text=yaml.safe_dump_all(ours))
    (account,) = [item["metadata"]["name"] for item in ours if item["kind"] == "ServiceAccount"]
    return f"system:serviceaccount:{NAMESPACE}:{account}"


def test_what_a_driver_may_do_and_what_not(api: ApiServer, driver: str) -> None:
    assert [case for case in DRIVER_ALLOWED if not may(api, driver, *case)] == []
    assert [case for case in DRIVER_DENIED if may(api, driver, *case)] == []


def test_people_get_what_their_role_says(api: ApiServer, render: Render) -> None:
    options = ("--set", "rbac.aggregateToDefaultRoles=true")
    people = [item for item in render(*options) if item["metadata"]["name"].endswith(("-edit", "-view"))]
    assert len(people) == 2
    bindings = [
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": f"people-{role}", "namespace": NAMESPACE},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": f"jane-{role}"}],
        }
        for role in ("view", "edit")
    ]
    api.kubectl("apply", "--server-side", "-f", "-", text=yaml.safe_dump_all([*people, *bindings]))
    apps = "streamapps.streamapp.dev"
    until(lambda: may(api, "jane-edit", "patch", apps, NAMESPACE), 30, "the role is aggregated", every=0.2)
    assert may(api, "jane-view", "get", apps, NAMESPACE)
    assert not may(api, "jane-view", "patch", apps, NAMESPACE)
    assert may(api, "jane-edit", "patch", f"{apps}/scale", NAMESPACE)
    assert not may(api, "jane-edit", "patch", f"{apps}/status", NAMESPACE)
