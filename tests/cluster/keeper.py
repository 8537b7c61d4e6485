# SPDX-License-Identifier: Apache-2.0
"""The process between a node and the process that wanted it: `python -m cluster.keeper NUMBER HOME`.

It starts the node in namespaces of its own, waits for its end, and then removes what is left of it on this machine: its
link and its control groups. The keeper does that, as the process that wanted the node may have been killed. The site's
lock is held from before the start to after the clearing: a process that gets it finds the site empty.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from cluster.cgroups import remove_cgroup
from cluster.site import Site
from lib.parent import end_with_parent

UNSHARE = ("unshare", "--pid", "--fork", "--kill-child=KILL", "--mount", "--mount-proc", "--net")


def main(number: str, home: str) -> int:
    site = Site(int(number), Path(home))
    # stdin and stdout are those of the process that wanted the node; the lock is inherited, too.
    node = subprocess.Popen(
        [*UNSHARE, sys.executable, "-m", "cluster.node", number, home], close_fds=False, preexec_fn=end_with_parent
    )
    code = node.wait()
    clear_away(site)
    return code


def clear_away(site: Site) -> None:
    """Removes what a node leaves on this machine. The link goes by itself with the node's network namespace, but the
    kernel takes its time for that."""
    subprocess.run(["ip", "link", "delete", site.link], capture_output=True)
    remove_cgroup(site.cgroup)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
