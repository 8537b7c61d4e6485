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
from cluster.cache import cache_folder, first_free
from cluster.errors import Broken
from cluster.host import gateway_of
from cluster.images import docker_build, images_lock
from cluster.programs import helm_program, kubectl_program

NAMES = tuple(f"streamapp-tests-{number}" for number in range(10))
READY = "180s"


def is_there() -> bool:
    """Whether `kind` is installed, and a Docker engine answers."""
    if shutil.which("kind") is None or shutil.which("docker") is None:
        return False
    try:
        return subprocess.run(["docker", "info"], capture_output=True, timeout=20).returncode == 0
    except subprocess.TimeoutExpired:
        return False


@contextmanager
def kind_cluster() -> Iterator[Cluster]:
    """Runs a cluster until the end of the block, under a name that no other run has; what a killed run has left under
    it is removed first.

    kind locks the kubeconfig that it works on, and fails if another one has done so: each run has one of its own.
    """
    number, lock = first_free(cache_folder("kind") / f"{name}.lock" for name in NAMES)
    name = NAMES[number]
    with os.fdopen(lock), tempfile.TemporaryDirectory() as folder:
        kubeconfig = Path(folder) / "kubeconfig"
        this = ("cluster", "--name", name, "--kubeconfig", str(kubeconfig))
        _kind("delete", *this)
        try:
            _kind("create", *this, "--wait", READY)
            yield Cluster(
                f"kind ({name})",
                kubeconfig,
                kubectl_program(),
                helm_program(),
                lambda image: _load(image, name),
                lambda: gateway_of(_network()),
            )
        finally:
            _kind("delete", *this)


def _network() -> str:
    """The Docker network of the cluster's containers."""
    return os.environ.get("KIND_EXPERIMENTAL_DOCKER_NETWORK", "kind")


def _load(image: str, cluster: str) -> None:
    """Loads the image. No other process builds another image of that name before it is loaded."""
    with images_lock():
        docker_build(image)
        _kind("load", "docker-image", image, "--name", cluster)


def _kind(*arguments: str) -> None:
    done = subprocess.run(["kind", *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        raise Broken(f"`kind {' '.join(arguments)}` failed: {done.stderr.strip()[-2000:]}")
