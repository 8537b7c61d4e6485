# SPDX-License-Identifier: Apache-2.0
"""The chart, rendered by Helm itself; and an API server, without a node, that writes down who asks it for what."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from cluster.binaries import KUBERNETES, binaries
from cluster.errors import Unavailable
from cluster.programs import helm_program
from lib.apiserver import ApiServer
from lib.chart import CHART, Helm, Object, Render
from lib.left_out import leave_out
from lib.wait import until


@pytest.fixture(scope="session")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    try:
        program = helm_program()
    except Unavailable as error:
        leave_out(error)
    home = tmp_path_factory.mktemp("helm")
    folders = {f"HELM_{part}_HOME": str(home / part.lower()) for part in ("CACHE", "CONFIG", "DATA")}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([program, *arguments], capture_output=True, text=True, env=folders, timeout=60)

    return run


@pytest.fixture(scope="session")
def render(helm: Helm) -> Render:
    def objects(*options: str) -> list[Object]:
        place = ("--namespace", "streams", "--kube-version", KUBERNETES)
        done = helm("template", "ops", str(CHART), *place, *options)
        assert done.returncode == 0, done.stderr
        return [item for item in yaml.safe_load_all(done.stdout) if item]

    return objects


@pytest.fixture(scope="session")
def api(tmp_path_factory: pytest.TempPathFactory, root: Path) -> Iterator[ApiServer]:
    with ApiServer(tmp_path_factory.mktemp("apiserver"), binaries() / "kube", audited=True) as running:
        running.kubectl("create", "-f", str(root / "crds" / "streamapp.yaml"))
        until(
            lambda: "sapp" in running.kubectl("api-resources", "--api-group=streamapp.dev"),
            30,
            "the API server serves StreamApps",
        )
        running.kubectl("create", "namespace", "streams")
        yield running
