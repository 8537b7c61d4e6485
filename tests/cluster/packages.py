# SPDX-License-Identifier: Apache-2.0
"""The programs that our own cluster takes from the system, and the Debian packages that have them."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

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


def missing_packages() -> list[str]:
    return sorted({package for program, package in PACKAGES.items() if shutil.which(program, path=SYSTEM_PATH) is None})


def install_packages(log: Path) -> None:
    """Install what is missing, if we are root on Debian or Ubuntu. Raises Unavailable if it cannot be had."""
    missing = missing_packages()
    if not missing or os.geteuid() != 0 or shutil.which("apt-get") is None:
        return
    print(f"installing with apt-get: {' '.join(missing)} ...", flush=True)
    log.parent.mkdir(parents=True, exist_ok=True)
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    with log.open("wb") as out:
        for command in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", *missing]):
            if subprocess.run(["apt-get", *command], stdout=out, stderr=out, env=quiet).returncode != 0:
                raise Unavailable(f"apt-get could not install {' '.join(missing)} (its log: {log})")
