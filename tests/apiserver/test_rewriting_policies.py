# SPDX-License-Identifier: Apache-2.0
"""A mutating policy of the cluster that rewrites fields which we set, on a real API server: the operator does not take
it for a difference for ever."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from lib.apiserver import ApiServer, apply_all
from lib.operator import Apps
from lib.wait import until
from streamapp_operator.memory import Memory

pytestmark = pytest.mark.cluster

FIELDS = {
    "statefulsets": "/spec/template/spec/terminationGracePeriodSeconds",
    "poddisruptionbudgets": "/spec/minAvailable",
}


@pytest.fixture
def policies(api: ApiServer, apps: Apps) -> Iterator[None]:
    """The policies, in force in the test's namespace."""
    objects = [item for resource, path in FIELDS.items() for item in policy(apps.namespace, resource, path)]
    apply_all(api, objects)
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "probe", "namespace": apps.namespace},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}},
    }
    template = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"terminationGracePeriodSeconds": 1, "containers": [{"name": "c", "image": "x"}]},
    }
    stateful = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "probe", "namespace": apps.namespace},
        "spec": {"serviceName": "x", "selector": {"matchLabels": {"a": "b"}}, "template": template},
    }

    def in_force() -> bool:
        made = apps.kube.what_if(budget, None), apps.kube.what_if(stateful, None)
        seconds = made[1]["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
        return (made[0]["spec"]["minAvailable"], seconds) == (77, 77)

    until(in_force, 30, "the policies are in force", every=0.2)
    yield
    for item in objects:
        api.kubectl("delete", item["kind"], item["metadata"]["name"])


def policy(namespace: str, resource: str, path: str) -> list[dict[str, Any]]:
    name = f"{namespace}-{resource}"
    group = {"statefulsets": "apps", "poddisruptionbudgets": "policy"}[resource]
    rules = [{"apiGroups": [group], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": [resource]}]
    here = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    expression = f'[JSONPatch{{op: "replace", path: "{path}", value: 77}}]'
    version = "admissionregistration.k8s.io/v1beta1"
    return [
        {
            "apiVersion": version,
            "kind": "MutatingAdmissionPolicy",
            "metadata": {"name": name},
            "spec": {
                "matchConstraints": {"resourceRules": rules, "namespaceSelector": here},
                "failurePolicy": "Fail",
                "reinvocationPolicy": "Never",
                "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}],
            },
        },
        {
            "apiVersion": version,
            "kind": "MutatingAdmissionPolicyBinding",
            "metadata": {"name": name},
            "spec": {"policyName": name},
        },
    ]


@pytest.mark.usefixtures("policies")
def test_what_a_policy_rewrites_is_settled_and_updates_roll_out(apps: Apps) -> None:
    apps.create(replicas=3)
    apps.settle()
    first = apps.await_driver()["metadata"]["uid"]
    budget = "word-count-executors"
    assert apps.get("PodDisruptionBudget", budget)["spec"]["minAvailable"] == 77
    assert apps.condition("Progressing")["reason"] != "Applying"
    # An operator that starts anew applies once each object that differs from its own, and that changes nothing.
    before = {key: item["metadata"]["resourceVersion"] for key, item in apps.children().items()}
    apps.memory = Memory()
    apps.settle()
    assert {key: item["metadata"]["resourceVersion"] for key, item in apps.children().items()} == before
    # A change by hand is still healed,
    by_hand = {"metadata": {"labels": {"app.kubernetes.io/name": "x"}}}
    apps.kube.merge("PodDisruptionBudget", apps.namespace, budget, by_hand)
    apps.settle()
    assert apps.get("PodDisruptionBudget", budget)["metadata"]["labels"]["app.kubernetes.io/name"] != "x"
    # and a new version starts its driver.
    apps.change(epochInterval="7s")
    apps.settle()
    apps.await_driver(other_than=first)
