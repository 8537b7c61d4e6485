# SPDX-License-Identifier: Apache-2.0
"""Our own node ends with whoever wanted it, and leaves nothing behind that the next would stumble over."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from cluster.choice import is_own
from cluster.errors import Unavailable
from cluster.machine import TESTS, why_not
from cluster.site import Site
from lib.left_out import leave_out
from lib.wait import until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

PARENT = """
import sys, time
from cluster.own import own_cluster
with own_cluster() as cluster:
    print(cluster.kubeconfig, flush=True)
    time.sleep(600)
"""


@pytest.fixture(autouse=True)
def _there_is_an_own_node() -> None:
    if not is_own():
        pytest.skip("the cluster of this machine is not our own")
    if (reason := why_not()) is not None:
        leave_out(Unavailable(reason))


@contextmanager
def parent_with_cluster() -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A process that has a cluster of its own, and the folder of the cluster's site."""
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    process = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    try:
        # What it says before is about builds.
        lines = iter(process.stdout.readline, "")
        kubeconfig = next((line.strip() for line in lines if line.strip().endswith("kubeconfig")), None)
        assert kubeconfig, f"no cluster came up; the process ended with {process.wait(60)}"
        yield process, Path(kubeconfig).parents[1]
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def processes_of(home: Path) -> list[str]:
    """Those of the node: named after its folder in their command line, or with the node's containerd above them."""
    found = []
    for process in psutil.process_iter():
        try:
            words = " ".join(process.cmdline())
            below = any(str(home) in " ".join(parent.cmdline()) for parent in process.parents())
        except psutil.NoSuchProcess:
            continue
        if str(home) in words or below:
            found.append(f"{process.pid} {words}")
    return found


def test_a_killed_parent_takes_the_whole_node_with_it_and_the_next_comes_up() -> None:
    with parent_with_cluster() as (parent, home):
        before = processes_of(home)
        for expected in ("containerd", "etcd", "kube-apiserver", "kubelet", "coredns", "pause"):
            assert any(expected in line for line in before), f"{expected} is not among {before}"
        parent.send_signal(signal.SIGKILL)
        until(lambda: not processes_of(home), 20, "the end of every process of the node")
        link = Path("/sys/class/net") / Site(int(home.name), home).link
        until(lambda: not link.exists(), 20, "the end of the link")
    with parent_with_cluster() as (_, again):
        assert "node1" in kubectl(again, "get", "nodes")


def test_two_run_side_by_side_and_know_nothing_of_each_other() -> None:
    with parent_with_cluster() as (_, one), parent_with_cluster() as (_, other):
        assert one != other
        for home in (one, other):
            kubectl(home, "create", "namespace", f"only-{home.name}")
        for home in (one, other):
            namespaces = [name for name in kubectl(home, "get", "namespaces", "-o", "name").split() if "only" in name]
            assert namespaces == [f"namespace/only-{home.name}"]


def kubectl(home: Path, *arguments: str) -> str:
    site = Site(int(home.name), home)
    command = [str(site.programs / "kubectl"), f"--kubeconfig={site.kubeconfig}", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
