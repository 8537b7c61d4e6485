# SPDX-License-Identifier: Apache-2.0
"""Our own one-node Kubernetes on this machine, from outside: claims a site, starts its node, links it, ends it.

    with Machine() as machine:
        print(machine.site.kubeconfig)

The node lives as long as this process: its first process (cluster/node.py) holds the read end of a pipe whose write end
is here, and the operating system closes that even for a process killed with -9. The site's lock is held by its keeper
(cluster/keeper.py), which ends when every process of the node has ended and its remains are removed: a process that
gets the lock finds the site empty.
"""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO

import psutil

from cluster.binaries import binaries
from cluster.cache import cache_folder, first_free
from cluster.certificates import ensure_certificates
from cluster.cgroups import make_cgroup
from cluster.errors import Broken, Unavailable
from cluster.keeper import clear_away
from cluster.packages import SYSTEM_PATH, missing_packages
from cluster.site import Site

SITES = 10
START_SECONDS = 180.0
STOP_SECONDS = 30.0
TESTS = Path(__file__).parents[1]


def why_not() -> str | None:
    """The reason why this machine cannot have a node of our own; None if it can."""
    if sys.platform != "linux":
        return "our own cluster runs on Linux only"
    if os.geteuid() != 0:
        return (
            "our own cluster needs root (it makes namespaces, mounts and network links); without it: install `kind` "
            "beside Docker, or set KUBECONFIG"
        )
    if missing := missing_packages():
        return f"missing for our own cluster: apt-get install {' '.join(missing)}"
    return None


class Machine:
    """One node. `with` starts it and ends it; only its logs, certificates and images are left then."""

    def __init__(self) -> None:
        self.site: Site
        self._process: subprocess.Popen[str]

    def __enter__(self) -> Machine:
        """Raises Unavailable if this machine cannot have a node, Broken if it should and does not."""
        if (reason := why_not()) is not None:
            raise Unavailable(reason)
        programs = binaries()
        self.site, lock = _claim_site()
        try:
            self._prepare(programs)
            self._launch(lock)
        finally:
            os.close(lock)  # the node has it now
        try:
            self._link()
            self._await_ready()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    @property
    def programs(self) -> Path:
        return self.site.programs

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def import_image(self, archive: Path) -> None:
        """Gives the node's containerd the image of an OCI archive."""
        self._containerd("images", "import", str(archive))

    def blobs(self) -> set[str]:
        """The digests of all blobs of images in the node's containerd."""
        return set(self._containerd("content", "ls", "--quiet").split())

    def restore_iptables(self, rules: str) -> None:
        """Adds these rules to those of the node's network."""
        _run(*self._in_network(), "iptables-restore", "--noflush", "--wait=10", text=rules)

    # --- steps ----------------------------------------------------------------------------------------------

    def _prepare(self, programs: Path) -> None:
        """Removes the remains of an earlier run, above all of one whose keeper was killed."""
        site = self.site
        clear_away(site)
        for folder in (site.run, site.logs):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
        site.programs.symlink_to(programs)
        ensure_certificates(site)
        make_cgroup(site.cgroup)
        if shutil.which("modprobe"):  # if these are modules, and nothing has needed them so far
            subprocess.run(["modprobe", "-a", "overlay", "br_netfilter"], capture_output=True)

    def _launch(self, lock: int) -> None:
        command = [sys.executable, "-m", "cluster.keeper", str(self.site.number), str(self.site.home)]
        with (self.site.logs / "node.log").open("wb") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=TESTS,
                env={**os.environ, "PATH": SYSTEM_PATH, "PYTHONPATH": str(TESTS)},
                pass_fds=[lock],
                start_new_session=True,  # a Ctrl-C is for us: we then end it in order
            )

    def _link(self) -> None:
        """Makes a pair of interfaces between this machine and the node, and routes through it to pods and services."""
        site = self.site
        inside = self._in_network()
        _run("ip", "link", "add", site.link, "type", "veth", "peer", "name", "eth0", "netns", inside[2])
        _run("ip", "address", "add", f"{site.host_address}/30", "dev", site.link)
        _run("ip", "link", "set", site.link, "up")
        _run(*inside, "ip", "address", "add", f"{site.link_address}/30", "dev", "eth0")
        _run(*inside, "ip", "link", "set", "eth0", "up")
        _run(*inside, "ip", "route", "add", "default", "via", site.host_address)
        for addresses in (site.pod_range, site.service_range):
            _run("ip", "route", "add", addresses, "via", site.link_address)

    def _in_network(self) -> tuple[str, ...]:
        """The first words of a command that runs in the node's network."""
        return ("nsenter", "-t", str(self._first_process()), "-n")

    def _first_process(self) -> int:
        """The number, on this machine, of the node's first process."""
        keeper = psutil.Process(self._process.pid)
        deadline = time.monotonic() + STOP_SECONDS
        while self.running and time.monotonic() < deadline:
            with suppress(psutil.NoSuchProcess):
                for unshare in keeper.children():
                    if children := unshare.children():
                        return children[0].pid
            time.sleep(0.01)
        raise Broken(f"the node's first process does not come up; see {self.site.logs / 'node.log'}")

    def _await_ready(self) -> None:
        answer = _read_line(self._process.stdout, START_SECONDS)
        if answer == "ready":
            return
        log = self.site.logs / "node.log"
        what, _, why = answer.partition(" ")
        if what == "failed":
            raise Broken(f"our own cluster does not come up: {why}")
        raise Broken(f"our own cluster does not come up ({answer or 'not a word'}): {log.read_text()[-2000:]}")

    def _containerd(self, *arguments: str) -> str:
        return _run("ctr", "-a", str(self.site.containerd_socket), "-n", "k8s.io", *arguments)

    def _end(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(STOP_SECONDS)
            clear_away(self.site)


def _claim_site() -> tuple[Site, int]:
    """Claims the first site that is free, by its lock."""
    number, lock = first_free(cache_folder(f"nodes/{number}") / "lock" for number in range(SITES))
    return Site(number, cache_folder(f"nodes/{number}")), lock


def _read_line(pipe: IO[str] | None, seconds: float) -> str:
    assert pipe is not None
    readable, _, _ = select.select([pipe], [], [], seconds)
    return pipe.readline().rstrip("\n") if readable else f"no answer in {seconds:.0f} s"


def _run(*command: str, text: str | None = None) -> str:
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    if done.returncode != 0:
        raise Broken(f"`{' '.join(command)}` failed: {done.stderr.strip()[-2000:]}")
    return done.stdout
