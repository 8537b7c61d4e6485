# SPDX-License-Identifier: Apache-2.0
"""A cluster by `kind`, in the containers of a Docker engine."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cluster.access import Cluster
from cluster.errors import Broken
from cluster.host import gateway_of
from cluster.images import docker_build
from cluster.programs import helm_program, kubectl_program

NAME = "streamapp-tests"
READY = "180s"


def is_there() -> bool:
    """Whether there is `kind`, and a Docker engine that answers."""
    if shutil.which("kind") is None or shutil.which("docker") is None:
        return False
    try:
        return subprocess.run(["docker", "info"], capture_output=True, timeout=20).returncode == 0
    except subprocess.TimeoutExpired:
        return False


@contextmanager
def kind_cluster() -> Iterator[Cluster]:
    """Within this, it runs. One that a killed run has left behind is removed first."""
    _kind("delete", "cluster", "--name", NAME)
    with tempfile.TemporaryDirectory() as folder:
        kubeconfig = Path(folder) / "kubeconfig"
        _kind("create", "cluster", "--name", NAME, "--kubeconfig", str(kubeconfig), "--wait", READY)
        try:
            yield Cluster(
                f"kind ({NAME})", kubeconfig, kubectl_program(), helm_program(), _load, lambda: gateway_of(_network())
            )
        finally:
            _kind("delete", "cluster", "--name", NAME)


def _network() -> str:
    """That its containers are on."""
    return os.environ.get("KIND_EXPERIMENTAL_DOCKER_NETWORK", "kind")


def _load(name: str) -> None:
    docker_build(name)
    _kind("load", "docker-image", name, "--name", NAME)


def _kind(*arguments: str) -> None:
    done = subprocess.run(["kind", *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        raise Broken(f"`kind {' '.join(arguments)}` failed: {done.stderr.strip()[-2000:]}")
