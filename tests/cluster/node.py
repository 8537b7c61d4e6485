# SPDX-License-Identifier: Apache-2.0
"""The node's first process: `python -m cluster.node NUMBER HOME`, started by cluster/machine.py.

It is process 1 of process, mount and network namespaces of its own. It prepares them, starts the components one
after the other, and then only watches. Whatever ends it ends every process of the node, containers included,
because the kernel ends a process namespace with its first process; and it ends itself

- when its stdin ends, that is when the process that wanted the cluster is gone, for any reason;
- when a component ends, as half a node is worse than none.

It prints one line on stdout for its parent: `ready`, or `failed WHY`. All else goes to the log files.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

from cluster.components import Component, components, settings
from cluster.errors import Broken
from cluster.site import Site

START_SECONDS = 120.0
TAIL_LINES = 8
BRIDGE = "02:00:00:00:00:01"
"""The hardware address of the bridge that the pods are on; each node has a network of its own."""
PRIVATE_FOLDERS = (
    "/run/containerd",
    "/run/netns",
    "/var/lib/cni",
    "/var/lib/kubelet",
    "/var/log/containers",
    "/var/log/pods",
)
"""Fixed paths at which containerd, kubelet and the network plugins keep files: the node has its own there, out of this
machine's way."""


def main(number: str, home: str) -> int:
    site = Site(int(number), Path(home))
    threading.Thread(target=_end_with_parent, name="parent-watch", daemon=True).start()
    try:
        _prepare_folders()
        _prepare_network(site)
        for file, text in settings(site).items():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        running: dict[int, Component] = {}
        for component in components(site):
            started = time.monotonic()
            running[_start(component, site)] = component
            _await(component, running, site)
            _log(f"{component.name} up in {time.monotonic() - started:.2f} s")
    except (Broken, OSError, subprocess.CalledProcessError) as error:
        print("failed " + str(error).replace("\n", " / "), flush=True)
        return 1
    print("ready", flush=True)
    while True:
        pid, status = os.wait()  # also buries the orphans that containers leave behind
        if pid in running:
            _log(f"{running[pid].name} ended with {os.waitstatus_to_exitcode(status)}; the node goes down")
            return 1


def _prepare_folders() -> None:
    _run("mount", "--make-rshared", "/")  # volumes mounted by the kubelet must reach the containers
    for folder in PRIVATE_FOLDERS:
        Path(folder).mkdir(parents=True, exist_ok=True)
        _run("mount", "-t", "tmpfs", "tmpfs", folder)


def _prepare_network(site: Site) -> None:
    """Makes the bridge before the network plugin would: API server and kubelet listen on its address. The hardware
    address is fixed, so that it stays: otherwise a bridge has the lowest one of its members, which changes as pods come
    and go, and then no packet of the others leaves the node until they ask for it anew, up to a minute later."""
    _run("ip", "link", "set", "lo", "up")
    _run("ip", "link", "add", "cni0", "address", BRIDGE, "type", "bridge")
    _run("ip", "address", "add", f"{site.node_address}/24", "dev", "cni0")
    _run("ip", "link", "set", "cni0", "up")
    _run("sysctl", "-qw", "net.ipv4.ip_forward=1", "net.bridge.bridge-nf-call-iptables=1")


def _start(component: Component, site: Site) -> int:
    with _log_file(component, site).open("wb") as log:
        process = subprocess.Popen(component.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    process.returncode = 0  # nothing but our own loop waits for it
    return process.pid


def _await(component: Component, running: dict[int, Component], site: Site) -> None:
    """Waits until it is ready. Raises Broken if it, or one before it, ends; or when the time is up."""
    deadline = time.monotonic() + START_SECONDS
    while component.ready and subprocess.run(component.ready, capture_output=True).returncode != 0:
        ended, status = os.waitpid(-1, os.WNOHANG)
        if ended in running:
            code = os.waitstatus_to_exitcode(status)
            raise Broken(f"{running[ended].name} ended with {code}: {_tail(running[ended], site)}")
        if time.monotonic() > deadline:
            raise Broken(f"{component.name} is not ready after {START_SECONDS:.0f} s: {_tail(component, site)}")
        time.sleep(0.05)


def _log_file(component: Component, site: Site) -> Path:
    return site.logs / f"{component.name}.log"


def _tail(component: Component, site: Site) -> str:
    file = _log_file(component, site)
    return "\n".join([f"(from {file})", *file.read_text(errors="replace").splitlines()[-TAIL_LINES:]])


def _end_with_parent() -> None:
    while os.read(sys.stdin.fileno(), 1024):
        pass
    os._exit(0)


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise Broken(f"`{' '.join(command)}` failed: {done.stderr.strip()}")


def _log(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
