# SPDX-License-Identifier: Apache-2.0
"""A real API server without a node, shared; tests keep apart by namespaces of their own."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kubernetes import client, config

from cluster.binaries import binaries
from lib.apiserver import ApiServer
from lib.operator import Apps
from lib.wait import until
from streamapp_operator.kube import Kube


@pytest.fixture(scope="session")
def api(tmp_path_factory: pytest.TempPathFactory, root: Path) -> Iterator[ApiServer]:
    with ApiServer(tmp_path_factory.mktemp("apiserver"), binaries() / "kube") as running:
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
def namespace(api: ApiServer) -> Iterator[str]:
    name = f"test-{uuid.uuid4().hex[:8]}"
    api.kubectl("create", "namespace", name)
    yield name
    api.kubectl("delete", "namespace", name, "--wait=false", "--ignore-not-found")


@pytest.fixture
def apps(kube: Kube, namespace: str) -> Apps:
    """Apps of the test's namespace."""
    return Apps(kube, namespace)
