# SPDX-License-Identifier: Apache-2.0
"""Additions to the driver's template: those that somebody claims are found, and no others."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from streamapp_operator.decide.additions import additions
from streamapp_operator.render.meta import MANAGER, Object

CONTAINER: Object = {"name": "driver", "env": [{"name": "A", "value": "1"}], "securityContext": {"runAsNonRoot": True}}
WANTED: Object = {"kind": "StatefulSet", "spec": {"template": {"spec": {"containers": [CONTAINER], "volumes": []}}}}
SIDECAR = {"name": "theirs", "image": "x"}
CLAIMED = {
    "f:hostNetwork": {},
    "f:containers": {
        'k:{"name":"theirs"}': {".": {}},
        'k:{"name":"driver"}': {"f:env": {'k:{"name":"B"}': {".": {}}}, "f:securityContext": {"f:privileged": {}}},
    },
}


def observed(manager: str, fields: dict[str, Any]) -> Object:
    found = copy.deepcopy(WANTED)
    notes = [{"manager": manager, "fieldsV1": {"f:spec": {"f:template": {"f:spec": fields}}}}]
    found["metadata"] = {"managedFields": notes}
    spec = found["spec"]["template"]["spec"]
    (driver,) = spec["containers"]
    driver["env"] = [{"name": "B", "value": "2"}, *driver["env"]]
    driver["securityContext"]["privileged"] = True
    spec |= {"hostNetwork": True, "dnsPolicy": "ClusterFirst", "containers": [SIDECAR, driver]}
    return found


def test_what_somebody_claims() -> None:
    place = ("spec", "template", "spec")
    assert additions(WANTED, observed("kubectl-edit", CLAIMED)) == (
        (*place, "hostNetwork"),
        (*place, "containers", 0),
        (*place, "containers", 1, "securityContext", "privileged"),
        (*place, "containers", 1, "env", 0),
    )


@pytest.mark.parametrize(("manager", "fields"), [(MANAGER, CLAIMED), ("kubectl-edit", {"f:x": {}})])
def test_what_nobody_claims_or_we_do(manager: str, fields: dict[str, Any]) -> None:
    """A field without an owner, or with us as its owner, is a policy's of the cluster, which would add it again to
    whatever we write."""
    assert additions(WANTED, observed(manager, fields)) == ()
