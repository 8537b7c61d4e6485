# SPDX-License-Identifier: Apache-2.0
"""Versions of an app on a real API server: the status of their drivers, and how they prove themselves."""

from __future__ import annotations

from pathlib import Path

from lib.operator import RUNNING, Apps, Object

WELL: Object = {
    **RUNNING,
    "lag": {"text-lines/0": 0},
    "totalLag": 0,
    "subTopologies": {"word-counts": {"epoch": 12, "epochs": 3, "watermark": None}},
}
STUCK: Object = {
    **WELL,
    "lag": {"text-lines/0": 5},
    "subTopologies": {"word-counts": {"epoch": 12, "epochs": 0, "watermark": None}},
}


def versions(apps: Apps) -> dict[str, Object]:
    return {name: item for (kind, name), item in apps.children().items() if kind == "ControllerRevision"}


def prove(apps: Apps, folder: Path, says: Object = WELL) -> str:
    """Lets the version that runs prove itself; returns its name."""
    with apps.driver_says(says, folder):
        if not executors(apps):
            apps.add_executor()
        apps.pass_time(20)
    name: str = apps.status()["version"]
    assert apps.status()["healthyVersion"] == name
    return name


def renew(apps: Apps, driver: Object) -> Object:
    """Ends the driver's pod with its executors, and makes the next one, with one executor."""
    found = apps.await_driver(other_than=driver["metadata"]["uid"])
    for pod in executors(apps):  # Kubernetes does it some time later, if it has not yet
        apps.kube.delete("Pod", apps.namespace, pod["metadata"]["name"], pod["metadata"]["uid"], 0)
    apps.add_executor()
    apps.settle()
    return found


def executors(apps: Apps) -> list[Object]:
    return [pod for pod in apps.kube.list("Pod", apps.namespace) if "-exec-" in pod["metadata"]["name"]]
