# SPDX-License-Identifier: Apache-2.0
"""The choice of the cluster: the one that KUBECONFIG names, else `kind` if a Docker engine answers, else our own."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from cluster.access import Cluster
from cluster.errors import Broken, Unavailable
from cluster.host import towards
from cluster.kind import is_there, kind_cluster
from cluster.own import own_cluster, prepare_own_cluster
from cluster.programs import helm_program, kubectl_program


def is_own() -> bool:
    """Whether the cluster, if there can be one, is our own."""
    return not os.environ.get("KUBECONFIG") and not is_there()


def a_cluster() -> AbstractContextManager[Cluster]:
    """Runs a cluster until the end of the block. Raises Unavailable if there can be none, Broken if one fails to come
    up."""
    if is_own():
        return own_cluster()
    if os.environ.get("KUBECONFIG"):
        return _given_cluster(Path(os.environ["KUBECONFIG"]))
    return kind_cluster()


def prepare(log: Path) -> None:
    """Does beforehand what takes minutes the first time; an existing cluster, or `kind`, needs nothing.

    Raises Unavailable if there can be no cluster, Broken if the preparation for one fails.
    """
    if is_own():
        prepare_own_cluster(log)


@contextmanager
def _given_cluster(kubeconfig: Path) -> Iterator[Cluster]:
    """A cluster of somebody else's: it must have the images, or be able to pull them, under the names of
    cluster/images.py; its pods must reach this machine, which has the tests' broker (see cluster/host.py)."""
    if os.pathsep in str(kubeconfig):
        several = "`kubectl config view --flatten` makes one of several"
        raise Unavailable(f"KUBECONFIG is {kubeconfig}: name one file ({several})")
    if not kubeconfig.is_file():
        raise Unavailable(f"KUBECONFIG is {kubeconfig}, and there is no such file")
    what, kubectl = f"KUBECONFIG={kubeconfig}", kubectl_program()
    yield Cluster(what, kubeconfig, kubectl, helm_program(), lambda name: None, lambda: towards(_server(kubectl)))


def _server(kubectl: str) -> str:
    """The URL of the API server that KUBECONFIG leads to."""
    path = "jsonpath={.clusters[0].cluster.server}"
    done = subprocess.run([kubectl, "config", "view", "--minify", "-o", path], capture_output=True, text=True)
    if not done.stdout:
        raise Broken(f"KUBECONFIG has no current context: {done.stderr.strip()}")
    return done.stdout
