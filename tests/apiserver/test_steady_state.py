# SPDX-License-Identifier: Apache-2.0
"""R22: while nobody changes anything, the operator writes nothing to the API server but its Lease."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from lib.apiserver import ApiServer
from lib.operator import WORD_COUNT, Apps
from lib.operator_process import Operators
from lib.proxy import WRITES, Proxy
from lib.rollouts import WELL
from lib.wait import until
from streamapp_operator.cluster.kube import Kube

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1800)]

COUNT = 50
QUIET_SECONDS = 10.0
"""Seconds without a write after which all work counts as done."""
NO_KAFKA = {"bootstrapServers": "127.0.0.1:1"}
"""An address without a broker, so that the lag by which an app scales is never known."""
UNPROVEN = {key: value for key, value in WELL.items() if key not in ("lag", "totalLag")}
"""The status of a driver that never knows its lag: its version goes on proving itself."""


def of_kind(number: int) -> tuple[dict[str, Any], Mapping[str, Any]]:
    """Fields of the spec, and the driver's status: of five apps one scales itself, and one is on trial."""
    if number % 5 == 0:
        return {"kafka": NO_KAFKA, "autoscaling": {"maxReplicas": 3}}, WELL
    return {"kafka": NO_KAFKA, "upgrade": {"progressDeadline": "1 day"}}, UNPROVEN if number % 5 == 1 else WELL


@pytest.mark.parametrize("seconds", [25.0, pytest.param(600.0, marks=pytest.mark.chaos)])
def test_nothing_is_written_while_nothing_changes(
    api: ApiServer,
    kube: Kube,
    new_namespace: Callable[[], str],
    operators: Operators,
    tmp_path: Path,
    seconds: float,
) -> None:
    """The test takes longer than the interval after which the operator looks at every app again, changed or not. All
    apps have drivers that answer, and executors."""
    apps = Apps(kube, new_namespace())
    names = [f"words-{number}" for number in range(COUNT)]
    written: list[tuple[float, str]] = []

    def note(method: str, path: str) -> None:
        if method in WRITES and "/leases" not in path:
            written.append((time.monotonic(), f"{method} {path}"))

    def are_dealt_with() -> bool:
        found = {body["metadata"]["name"]: body.get("status", {}) for body in kube.list("StreamApp", apps.namespace)}
        return all(
            status.get("phase") == "Running"
            and status["replicas"] == 1
            and ("healthyVersion" in status or of_kind(number)[1] is UNPROVEN)
            for number, status in enumerate(found[name] for name in names)
        )

    with Proxy(api.url) as proxy, ExitStack() as drivers:
        proxy.after = note
        operators.start(apps.namespace, proxy)
        for number, name in enumerate(names):
            body = yaml.safe_load(WORD_COUNT)
            body["metadata"] = {"name": name, "namespace": apps.namespace}
            body["spec"] |= of_kind(number)[0]
            kube.create(body)
        for number, name in enumerate(names):
            (folder := tmp_path / name).mkdir()
            apps.await_driver(name)
            drivers.enter_context(apps.driver_says(of_kind(number)[1], folder, name))
            apps.add_executor(name=name)
        until(are_dealt_with, 300, f"{COUNT} apps run", every=0.5)
        until(lambda: time.monotonic() - written[-1][0] > QUIET_SECONDS, 300, "the last write", every=0.5)
        before, asked = len(written), proxy.sent["GET"]
        time.sleep(seconds)
        assert [what for _, what in written[before:]] == []
        assert proxy.sent["GET"] >= asked + COUNT, "the operator has not looked at the apps"
        scaling = {apps.condition("ScalingActive", name)["reason"] for name in names}
        assert scaling == {"MetricsMissing", "AutoscalingOff"}
        assert [name for name in names if "healthyVersion" not in apps.status(name)] == names[1::5]
        apps.change("words-7", epochInterval="1s")
        until(lambda: len(written) > before, 30, "a change is noticed by this test", every=0.2)
        assert all("words-7" in what or "/events" in what for _, what in written[before:])
