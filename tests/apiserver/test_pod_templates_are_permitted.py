# SPDX-License-Identifier: Apache-2.0
"""A user who may create StreamApps gets nothing more by it, neither past the operator nor past the chart's admission
policy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import yaml

from lib.apiserver import ApiServer
from lib.chart import Render
from lib.operator import WORD_COUNT, Apps
from lib.operator_process import OWN
from lib.permits import IN_POLICY, TAKEN
from lib.wait import until
from streamapp_operator.cluster.errors import KubeError
from streamapp_operator.cluster.kube import Kube
from streamapp_operator.render.permits import PARTS
from streamapp_operator.settings import Settings

pytestmark = pytest.mark.cluster
ROOT = {"containers": [{"name": "driver", "securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}}]}


@pytest.mark.parametrize(
    ("spec", "part", "field"),
    [
        (ROOT, "securityContext", "spec.containers[driver].securityContext.capabilities"),
        ({"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}, "hostPath", "spec.volumes[v].hostPath"),
        ({"serviceAccountName": "admin"}, "serviceAccount", "spec.serviceAccountName"),
    ],
)
def test_no_driver_is_made_of_what_is_not_allowed(apps: Apps, spec: Any, part: str, field: str) -> None:
    apps.create(driver={"podTemplate": {"spec": spec}})
    apps.settle()
    told = apps.condition("TopologyValid")
    assert f"`driver.podTemplate.{field}`" in told["message"]
    assert f"apps.podTemplate.allow: [{part}]" in told["message"]
    assert apps.status()["phase"] == "Invalid"
    assert not [kind for kind, _ in apps.children() if kind == "StatefulSet"]
    apps.settings = Settings(pod_template_allow=(part,))
    apps.settle()
    made = apps.get("StatefulSet", "word-count-driver")["spec"]["template"]["spec"]
    assert apps.condition("TopologyValid")["status"] == "True"
    assert "admin" in made["serviceAccountName"] or "hostPath" in str(made) or "SYS_ADMIN" in str(made)


@contextmanager
def policy(api: ApiServer, kube: Kube, objects: list[dict[str, Any]], namespace: str) -> Iterator[None]:
    """Applies the chart's policy until the end of the block."""
    found = [item for item in objects if item["kind"].startswith("ValidatingAdmissionPolicy")]
    assert len(found) == 2
    names = [f"{item['kind'].lower()}/{item['metadata']['name']}" for item in found]
    api.kubectl("apply", "-f", "-", text=yaml.safe_dump_all(found))
    try:
        probe = {"spec": {"hostNetwork": True, "hostAliases": [], "aFieldOfTomorrow": 1}}
        until(lambda: refusal(kube, namespace, probe), 30, "the admission policy is in force")
        yield
    finally:
        api.kubectl("delete", *names, "--wait=false")


def refusal(kube: Kube, namespace: str, template: Any, **spec: Any) -> str:
    """The reason why the API server refuses the app; empty if it takes it: then the app is deleted again."""
    body = yaml.safe_load(WORD_COUNT)
    body["metadata"]["namespace"] = namespace
    body["spec"] |= {"driver": {"podTemplate": template}, **spec}
    try:
        made = kube.create(body)
    except KubeError as error:
        return str(error)
    kube.delete("StreamApp", namespace, "word-count", made["metadata"]["uid"])
    until(lambda: kube.get("StreamApp", namespace, "word-count") is None, 30, "the app is gone")
    return ""


def test_the_admission_policy_refuses_what_the_operator_refuses(
    api: ApiServer, kube: Kube, new_namespace: Callable[[], str], render: Render
) -> None:
    namespace, other = new_namespace(), new_namespace()
    images = f"apps.allowedImages={{registry.example/a}},{OWN}"
    with policy(api, kube, render("--set", images, namespace=namespace), namespace):
        for template, _, field in IN_POLICY:
            assert "ValidatingAdmissionPolicy" in refusal(kube, namespace, template), field
        for template in TAKEN:
            assert not refusal(kube, namespace, template), template
        said = refusal(kube, namespace, {"spec": {"hostNetwork": True}})
        assert "driver.podTemplate.spec.hostNetwork is not allowed by the operator's settings" in said
        assert "images are taken from registry.example/a only" in refusal(kube, namespace, {}, image="x/y")
        assert not refusal(kube, namespace, {}, image="registry.example/a/b:1")
        assert not refusal(kube, other, {"spec": {"hostNetwork": True}})


def test_a_part_that_is_allowed_is_let_through(api: ApiServer, kube: Kube, namespace: str, render: Render) -> None:
    most = [part for part in PARTS if part != "hostNamespaces"]
    allowed = f"apps.podTemplate.allow={{{','.join(most)}}},{OWN}"
    objects = render("--set", allowed, namespace=namespace)
    with policy(api, kube, objects, namespace):
        for template, part, field in IN_POLICY:
            assert bool(refusal(kube, namespace, template)) == (part == "hostNamespaces"), field
