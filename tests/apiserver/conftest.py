# SPDX-License-Identifier: Apache-2.0
"""A real API server without a node, shared; each test has namespaces of its own."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kubernetes import client, config

from cluster.binaries import binaries
from lib.apiserver import ApiServer
from lib.chart import Render
from lib.left_out import or_left_out
from lib.nodes import Nodes
from lib.operator import Apps
from lib.operator_process import Operators
from lib.wait import until
from streamapp_operator.cluster.kube import Kube


@pytest.fixture(scope="session")
def api(tmp_path_factory: pytest.TempPathFactory, root: Path) -> Iterator[ApiServer]:
    with ApiServer(tmp_path_factory.mktemp("apiserver"), or_left_out(binaries) / "kube") as running:
        running.kubectl("apply", "-f", str(root / "crds" / "streamapp.yaml"))
        until(
            lambda: "sapp" in running.kubectl("api-resources", "--api-group=streamapp.dev"),
            30,
            "the API server serves StreamApps",
        )
        yield running


@pytest.fixture(scope="session")
def kube(api: ApiServer) -> Kube:
    new_client: Callable[[str], client.ApiClient] = config.new_client_from_config
    return Kube(new_client(str(api.kubeconfig)))


@pytest.fixture
def new_namespace(api: ApiServer) -> Iterator[Callable[[], str]]:
    made: list[str] = []

    def make() -> str:
        made.append(f"test-{uuid.uuid4().hex[:8]}")
        api.kubectl("create", "namespace", made[-1])
        return made[-1]

    yield make
    if made:
        api.kubectl("delete", "namespace", *made, "--wait=false", "--ignore-not-found")


@pytest.fixture
def namespace(new_namespace: Callable[[], str]) -> str:
    return new_namespace()


@pytest.fixture
def apps(kube: Kube, namespace: str) -> Apps:
    """Apps of the test's namespace."""
    return Apps(kube, namespace)


@pytest.fixture
def nodes(api: ApiServer) -> Iterator[Nodes]:
    made = Nodes(api)
    yield made
    made.delete()


@pytest.fixture
def operators(api: ApiServer, render: Render, tmp_path: Path) -> Iterator[Operators]:
    """Operators as processes of their own."""
    started = Operators(api, render, tmp_path)
    try:
        yield started
    finally:
        started.end()
