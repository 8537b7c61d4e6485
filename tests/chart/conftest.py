# SPDX-License-Identifier: Apache-2.0
"""An API server without a node, which logs every request with its user."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.binaries import binaries
from lib.apiserver import ApiServer
from lib.left_out import or_left_out
from lib.wait import until


@pytest.fixture(scope="session")
def api(tmp_path_factory: pytest.TempPathFactory, root: Path) -> Iterator[ApiServer]:
    with ApiServer(tmp_path_factory.mktemp("apiserver"), or_left_out(binaries) / "kube", audited=True) as running:
        running.kubectl("create", "-f", str(root / "crds" / "streamapp.yaml"))
        until(
            lambda: "sapp" in running.kubectl("api-resources", "--api-group=streamapp.dev"),
            30,
            "the API server serves StreamApps",
        )
        running.kubectl("create", "namespace", "streams")
        yield running
