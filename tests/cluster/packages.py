# SPDX-License-Identifier: Apache-2.0
"""The programs that our own cluster and the tests take from the system, and the Debian packages that have them."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from cluster.cache import cache_folder, locked
from cluster.errors import Unavailable

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
CNI_PLUGINS = "/usr/lib/cni"
PACKAGES = {
    # for a node
    "containerd": "containerd",
    "runc": "runc",
    f"{CNI_PLUGINS}/bridge": "containernetworking-plugins",
    "iptables": "iptables",
    "conntrack": "conntrack",
    "ip": "iproute2",
    "sysctl": "procps",
    "unshare": "util-linux",
    "openssl": "openssl",
    # for images
    "buildah": "buildah",
    "mmdebstrap": "mmdebstrap",
}

"""The programs that make a cluster of our own."""
FOR_TESTS = {"prometheus": "prometheus", "promtool": "prometheus", "zsh": "zsh"}
"""Programs that tests use beside a cluster."""
_TRIES = 2


def missing_packages(programs: Mapping[str, str] = PACKAGES) -> list[str]:
    """The packages of the missing programs."""
    return sorted({package for program, package in programs.items() if shutil.which(program, path=SYSTEM_PATH) is None})


def program(name: str) -> str:
    """The path of one of FOR_TESTS.

    Raises:
        Unavailable: if it is not installed. Nothing is installed while tests run: several would do it at once.
    """
    found = shutil.which(name)
    if found is None:
        package = FOR_TESTS[name]
        raise Unavailable(
            f"there is no {name} on the PATH (Debian has it in {package}; as root `make prepare` installs it)"
        )
    return found


def install_packages(log: Path, programs: Mapping[str, str] = PACKAGES) -> None:
    """Installs missing packages, if we are root on Debian or Ubuntu; one process at a time, and with a second try.

    Raises:
        Unavailable: if apt-get fails twice.
    """
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return
    with locked(cache_folder("apt") / "lock"):
        missing = missing_packages(programs)
        if not missing:
            return
        print(f"installing with apt-get: {' '.join(missing)} ...", flush=True)
        log.parent.mkdir(parents=True, exist_ok=True)
        if not any(_apt(missing, log) for _ in range(_TRIES)):
            raise Unavailable(f"apt-get could not install {' '.join(missing)} (its log: {log})")


def _apt(packages: list[str], log: Path) -> bool:
    """Runs apt-get; returns whether the packages are installed now."""
    # No service of a package is to be started: the tests start their own.
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    with log.open("ab") as out:
        return all(
            subprocess.run(["apt-get", *command], stdout=out, stderr=out, env=quiet).returncode == 0
            for command in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", *packages])
        )
