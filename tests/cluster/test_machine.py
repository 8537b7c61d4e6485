# SPDX-License-Identifier: Apache-2.0
"""Our own node ends with the process that wanted it, and leaves nothing behind that would disturb the next one."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from cluster.cgroups import groups_of
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
        # The lines before are about builds.
        lines = iter(process.stdout.readline, "")
        kubeconfig = next((line.strip() for line in lines if line.strip().endswith("kubeconfig")), None)
        assert kubeconfig, f"no cluster came up; the process ended with {process.wait(60)}"
        yield process, Path(kubeconfig).parents[1]
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def processes_of(home: Path) -> list[psutil.Process]:
    """The processes of the node: those named after its folder in their command line, and those below the node's
    containerd."""
    found = []
    for process in psutil.process_iter():
        try:
            below = any(str(home) in " ".join(parent.cmdline()) for parent in process.parents())
            if below or str(home) in " ".join(process.cmdline()):
                found.append(process)
        except psutil.NoSuchProcess:
            continue
    return found


def namespaces_of(process: psutil.Process) -> set[str]:
    """The namespaces of a process as the kernel writes them, `net:[4026531840]`; none for a process that has ended."""
    found = set()
    for kind in ("mnt", "net", "pid"):
        with suppress(OSError):
            found.add(os.readlink(f"/proc/{process.pid}/ns/{kind}"))
    return found


@dataclass(frozen=True)
class Traces:
    """The node's traces on this machine while it runs, beside its files."""

    site: Site
    namespaces: frozenset[str]
    """The namespaces of its own processes, which no other process is in."""

    @staticmethod
    def of(home: Path) -> Traces:
        inside = set().union(*(namespaces_of(process) for process in processes_of(home)))
        return Traces(Site(int(home.name), home), frozenset(inside - namespaces_of(psutil.Process())))

    def left(self, before: float = math.inf) -> list[str]:
        """The traces that are there now.

        Args:
            before: processes that began later do not count, as the kernel gives the number of a namespace that has
                ended to another one.
        """
        return [
            *(f"process {process.pid}" for process in processes_of(self.site.home)),
            *(f"control group {group}" for group in groups_of(self.site.cgroup)),
            *(f"link {link}" for link in Path("/sys/class/net").glob(self.site.link)),
            *(f"route {line}" for line in routes() if any(each in line for each in self._addresses)),
            *(f"mount {line}" for line in mounts() if any(each in line for each in (*self.namespaces, *self._paths))),
            *(
                f"namespace {name} of process {process.pid}"
                for process in psutil.process_iter(["create_time"])
                if process.info["create_time"] < before
                for name in namespaces_of(process) & self.namespaces
            ),
        ]

    @property
    def _addresses(self) -> tuple[str, ...]:
        return self.site.pod_range, self.site.service_range, self.site.host_address

    @property
    def _paths(self) -> tuple[str, ...]:
        return f"{self.site.home}/", f"/{self.site.cgroup}/"


def mounts() -> list[str]:
    """The mounts of this machine. Such a mount keeps a network namespace without a process."""
    return Path("/proc/self/mountinfo").read_text().splitlines()


def routes() -> list[str]:
    return subprocess.run(["ip", "route"], check=True, capture_output=True, text=True).stdout.splitlines()


def test_a_killed_parent_takes_the_whole_node_with_it_and_the_next_comes_up() -> None:
    with parent_with_cluster() as (parent, home):
        running = [" ".join(process.cmdline()) for process in processes_of(home)]
        for expected in ("containerd", "etcd", "kube-apiserver", "kubelet", "coredns", "pause"):
            assert any(expected in line for line in running), f"{expected} is not among {running}"
        traces = Traces.of(home)
        assert {name.partition(":")[0] for name in traces.namespaces} == {"mnt", "net", "pid"}
        there = {line.partition(" ")[0] for line in traces.left()}
        assert there == {"process", "control", "link", "route", "namespace"}  # its mounts do not count
        parent.send_signal(signal.SIGKILL)
        killed = time.time()
        try:
            until(lambda: not traces.left(killed), 20, "the end of everything of the node")
        except AssertionError as error:
            raise AssertionError(f"{error}: {traces.left(killed)}") from None
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
