# SPDX-License-Identifier: Apache-2.0
"""The control group below which a node's pods live, in every hierarchy that this machine has."""

from __future__ import annotations

import contextlib
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")


def make_cgroup(name: str, root: Path = ROOT) -> None:
    """Makes the group, with all that its members need. Older kernels have a hierarchy for each controller (version 1),
    newer ones have one for all (version 2)."""
    for hierarchy in _hierarchies(root):
        group = hierarchy / name
        group.mkdir(exist_ok=True)
        controllers = hierarchy / "cgroup.controllers"
        if controllers.exists():
            enabled = " ".join(f"+{word}" for word in controllers.read_text().split())
            (hierarchy / "cgroup.subtree_control").write_text(enabled)
            (group / "cgroup.subtree_control").write_text(enabled)
        for setting in ("cpuset.cpus", "cpuset.mems"):  # version 1 begins with none at all
            if (group / setting).exists() and not controllers.exists():
                (group / setting).write_text((hierarchy / setting).read_text())


def remove_cgroup(name: str, root: Path = ROOT) -> None:
    """Removes the group with all below it. A group that still has a process stays, and the next run removes it."""
    for hierarchy in _hierarchies(root):
        group = hierarchy / name
        below = sorted(path for path in group.rglob("*") if path.is_dir())
        for folder in (*reversed(below), group):
            with contextlib.suppress(OSError):
                folder.rmdir()


def groups_of(name: str, root: Path = ROOT) -> list[Path]:
    """The existing folders of that group."""
    return [group for hierarchy in _hierarchies(root) if (group := hierarchy / name).exists()]


def _hierarchies(root: Path) -> list[Path]:
    if (root / "cgroup.controllers").exists():
        return [root]
    return [path for path in root.iterdir() if path.is_dir() and not path.is_symlink()]
