# SPDX-License-Identifier: Apache-2.0
"""Programs from Debian's packages."""

from __future__ import annotations

import os
import shutil
import subprocess

from cluster.errors import Unavailable


def program(name: str, package: str) -> str:
    """Its path; the package is installed if need be and we are root on Debian or Ubuntu.

    Raises:
        Unavailable: where it cannot be had.
    """
    if shutil.which(name) is None and os.geteuid() == 0 and shutil.which("apt-get") is not None:
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
        for command in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", package]):
            done = subprocess.run(["apt-get", *command], env=quiet, capture_output=True, text=True)
            if done.returncode != 0:
                raise Unavailable(f"apt-get could not install {package}: {done.stderr.strip()[-300:]}")
    found = shutil.which(name)
    if found is None:
        raise Unavailable(f"there is no {name} on the PATH (Debian has it in the package {package})")
    return found
