# SPDX-License-Identifier: Apache-2.0
"""R17: a bad manifest is refused by the API server, or reported in the status; the app goes on as it was, and a good
one takes effect afterwards."""

from __future__ import annotations

import copy
import os
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from lib.manifests import broken
from lib.operator import Apps, KubeError, Object
from lib.wait import until
from streamapp_operator.render.meta import TEMPLATE_ANNOTATION

pytestmark = pytest.mark.cluster

A_FEW = 40
MANY = int(os.environ.get("CHAOS_MANIFESTS", "500"))


@pytest.mark.parametrize(
    "count", [A_FEW, pytest.param(MANY, marks=[pytest.mark.chaos, pytest.mark.timeout(3600)])], ids=["few", "many"]
)
def test_bad_then_good(apps: Apps, count: int) -> None:
    apps.create()
    apps.settle()
    good = apps.get("StreamApp", "word-count")
    driver = apps.await_driver()["metadata"]["uid"]
    wanted = running(apps)
    outcomes: Counter[str] = Counter()
    for seed in range(count):
        made = {4: meaningless, 9: unacceptable}.get(seed % 10)
        bad = broken(good, random.Random(seed)) if made is None else made(good)
        outcome = put(apps, bad["spec"])
        if outcome == "taken":
            outcome = told(apps)
        outcomes[outcome] += 1
        if outcome in ("refused", "invalid", "refused-object"):
            assert running(apps) == wanted, f"seed {seed} is {outcome}, and has changed what runs: {bad['spec']}"
            assert apps.await_driver()["metadata"]["uid"] == driver, f"seed {seed}: {bad['spec']}"
        if outcome != "refused":
            assert put(apps, good["spec"]) == "taken"
            apps.settle()
            assert apps.condition("TopologyValid")["status"] == "True", f"after seed {seed}"
            assert running(apps) == wanted, f"after seed {seed}: {bad['spec']}"
            driver = current_driver(apps)
    print(outcomes)
    assert min(outcomes[kind] for kind in ("refused", "invalid", "valid", "refused-object")) >= count // 20


def meaningless(good: Object) -> Object:
    """A manifest that the definition allows, and whose topology makes no sense: only the operator can know."""
    bad = copy.deepcopy(good)
    next(node for node in bad["spec"]["topology"] if "flatMap" in node)["flatMap"] = {"word": "split(nowhere, ' ')"}
    return bad


def unacceptable(good: Object) -> Object:
    """A valid manifest, with another plan, whose driver no API server takes."""
    driver = {"podTemplate": {"spec": {"restartPolicy": "Perhaps"}}}
    return {**good, "spec": {**good["spec"], "epochInterval": "7s", "replicas": 3, "driver": driver}}


def running(apps: Apps) -> object:
    """The objects that the app runs by, without the versions, of which there are more each time."""
    return {key: item for key, item in apps.essence().items() if key[0] != "ControllerRevision"}


def current_driver(apps: Apps) -> str:
    """The driver of the manifest as it is; a valid manifest in between has had its own."""

    def there() -> str:
        apps.settle()
        pod = apps.await_driver()["metadata"]
        template = apps.get("StatefulSet", "word-count-driver")["spec"]["template"]["metadata"]
        is_current = pod["annotations"][TEMPLATE_ANNOTATION] == template["annotations"][TEMPLATE_ANNOTATION]
        return str(pod["uid"]) if is_current else ""

    return until(there, 30, "the driver of the good manifest")


def put(apps: Apps, spec: Any) -> str:
    """Writes that spec; returns whether the API server takes it."""
    body = apps.get("StreamApp", "word-count")
    refusal = refused(lambda: apps.kube.replace({**body, "spec": copy.deepcopy(spec)}))
    assert refusal is None or refusal.code in (400, 422), refusal
    return "taken" if refusal is None else "refused"


def refused(call: Callable[[], object]) -> KubeError | None:
    try:
        call()
    except KubeError as error:
        return error
    return None


def told(apps: Apps) -> str:
    """The operator's verdict on the manifest, as the status shows it."""
    if refusal := refused(apps.settle):  # an object of the app's that the API server does not take
        assert refusal.code == 422
        assert apps.condition("Degraded")["reason"] == "Refused"
        assert apps.condition("Degraded")["message"].strip()
        return "refused-object"
    valid = apps.condition("TopologyValid")
    assert valid["observedGeneration"] == apps.get("StreamApp", "word-count")["metadata"]["generation"]
    assert valid["message"].strip()
    return "valid" if valid["status"] == "True" else "invalid"
