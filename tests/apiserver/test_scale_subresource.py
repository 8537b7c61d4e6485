# SPDX-License-Identifier: Apache-2.0
"""Other autoscalers: a write to the scale subresource takes effect, and a read of it gives the actual state."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lib.apiserver import ApiServer, apply_all
from lib.operator import RUNNING, Apps
from lib.wait import until

pytestmark = pytest.mark.cluster


def scale_path(apps: Apps) -> str:
    return f"/apis/streamapp.dev/v1alpha1/namespaces/{apps.namespace}/streamapps/word-count/scale"


def scale_of(api: ApiServer, apps: Apps) -> dict[str, Any]:
    """The subresource as an autoscaler reads it."""
    found: dict[str, Any] = json.loads(api.kubectl("get", f"--raw={scale_path(apps)}"))
    return found


def test_what_is_written_there_is_done_and_what_runs_is_read_there(apps: Apps, api: ApiServer, tmp_path: Path) -> None:
    apps.create(replicas=1)
    apps.settle()
    driver = apps.await_driver()["metadata"]["uid"]
    with apps.driver_says(RUNNING, tmp_path) as said:
        apps.add_executor(1)
        apps.settle()
        scale = scale_of(api, apps)
        assert (scale["spec"]["replicas"], scale["status"]["replicas"]) == (1, 1)

        # As the HorizontalPodAutoscaler does: the scale as it was read, with another number.
        scale["spec"]["replicas"] = 3
        api.kubectl("replace", f"--raw={scale_path(apps)}", "-f", "-", text=json.dumps(scale))
        apps.settle()
        assert said["replicas"]["wanted"] == 3
        assert apps.await_driver()["metadata"]["uid"] == driver
        assert scale_of(api, apps)["status"]["replicas"] == 1, "what runs, not what is wanted"

        for number in (2, 3):
            apps.add_executor(number)
        apps.settle()
        scale = scale_of(api, apps)
        assert (scale["spec"]["replicas"], scale["status"]["replicas"]) == (3, 3)
        # The selector finds the executors, whose load is measured, and nothing else.
        selected = api.kubectl(
            "get", "pods", f"--namespace={apps.namespace}", f"--selector={scale['status']['selector']}", "-o", "name"
        ).split()
        assert selected == [f"pod/word-count-abc-exec-{number}" for number in (1, 2, 3)]


def test_without_replicas_there_is_no_scale_to_read_and_whoever_sets_it_makes_one(
    apps: Apps, api: ApiServer, root: Path
) -> None:
    """The field cannot have a default: it would be there beside `autoscaling` too, which sets the number itself."""
    apps.create()
    said = api.kubectl("get", f"--raw={scale_path(apps)}", check=False)
    words = 'the spec replicas field ".spec.replicas" does not exist'
    assert words in said
    assert words in (root / "docs" / "kubernetes" / "troubleshooting.md").read_text()
    apps.change(replicas=1)
    assert scale_of(api, apps)["spec"]["replicas"] == 1


def test_a_horizontal_pod_autoscaler_scales_an_app(apps: Apps, api: ApiServer) -> None:
    """Without measurements it only keeps its bounds: that is enough to show that it finds its way."""
    apps.create(replicas=1)
    apps.settle()
    autoscaler = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "word-count", "namespace": apps.namespace},
        "spec": {
            "scaleTargetRef": {"apiVersion": "streamapp.dev/v1alpha1", "kind": "StreamApp", "name": "word-count"},
            "minReplicas": 3,
            "maxReplicas": 5,
        },
    }
    apply_all(api, [autoscaler])
    until(lambda: apps.get("StreamApp", "word-count")["spec"]["replicas"] == 3, 90, "it has written 3", every=0.5)
    apps.settle()
    assert apps.status()["desiredReplicas"] == 3
