# SPDX-License-Identifier: Apache-2.0
"""R22: while nobody changes anything, the operator writes nothing to the API server but its Lease."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
import yaml

from lib.apiserver import ApiServer
from lib.operator import WORD_COUNT, Apps
from lib.operator_process import Operators
from lib.proxy import WRITES, Proxy
from lib.wait import until
from streamapp_operator.kube import Kube

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1800)]

COUNT = 50
QUIET_SECONDS = 10.0
"""Without a write, after which all is taken for done."""


@pytest.mark.parametrize("seconds", [30.0, pytest.param(600.0, marks=pytest.mark.chaos)])
def test_nothing_is_written_while_nothing_changes(
    api: ApiServer, kube: Kube, new_namespace: Callable[[], str], operators: Operators, seconds: float
) -> None:
    """Longer than the interval after which the operator looks at every app again, whatever has happened."""
    apps = Apps(kube, new_namespace())
    written: list[tuple[float, str]] = []

    def note(method: str, path: str) -> None:
        if method in WRITES and "/leases" not in path:
            written.append((time.monotonic(), f"{method} {path}"))

    def are_dealt_with() -> bool:
        found = kube.list("StreamApp", apps.namespace)
        return all(body.get("status", {}).get("observedGeneration") == 1 for body in found)

    with Proxy(api.url) as proxy:
        proxy.after = note
        operators.start(apps.namespace, proxy)
        for number in range(COUNT):
            body = yaml.safe_load(WORD_COUNT)
            body["metadata"] = {"name": f"words-{number}", "namespace": apps.namespace}
            kube.create(body)
        until(lambda: written and are_dealt_with(), 300, f"{COUNT} apps are dealt with", every=0.5)
        until(lambda: time.monotonic() - written[-1][0] > QUIET_SECONDS, 300, "the last write", every=0.5)
        before, asked = len(written), proxy.sent["GET"]
        time.sleep(seconds)
        assert [what for _, what in written[before:]] == []
        assert proxy.sent["GET"] >= asked + COUNT, "the operator has not looked at the apps"
        apps.change("words-7", epochInterval="1s")
        until(lambda: len(written) > before, 30, "a change is noticed by this test", every=0.2)
        assert all("words-7" in what or "/events" in what for _, what in written[before:])
