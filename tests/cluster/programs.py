# SPDX-License-Identifier: Apache-2.0
"""kubectl and helm for a cluster that is not our own: those on the PATH, else the ones we build."""

from __future__ import annotations

import shutil

from cluster.binaries import binaries


def kubectl_program() -> str:
    """The path of kubectl. Raises Unavailable if there is none and none can be built."""
    return shutil.which("kubectl") or str(binaries() / "kubectl")


def helm_program() -> str:
    """The path of helm. Raises Unavailable if there is none and none can be built."""
    return shutil.which("helm") or str(binaries() / "helm")
