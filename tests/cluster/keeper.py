# SPDX-License-Identifier: Apache-2.0
"""What stands between whoever wanted a node and the node: `python -m cluster.keeper NUMBER HOME`.

It starts the node in namespaces of its own, waits for its end, and clears away what is left of it on this machine then:
its link and its control groups. That is done here and not by the one who wanted the node, as that one may have been
killed. The site's lock is held from before the start to after the clearing: whoever gets it finds the place empty.
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
    # stdin and stdout are those of whoever wanted the node; the lock is inherited, too.
    node = subprocess.Popen(
        [*UNSHARE, sys.executable, "-m", "cluster.node", number, home], close_fds=False, preexec_fn=end_with_parent
    )
    code = node.wait()
    clear_away(site)
    return code


def clear_away(site: Site) -> None:
    """What a node leaves on this machine. The link goes by itself with the node's network namespace, but in the
    kernel's own time."""
    subprocess.run(["ip", "link", "delete", site.link], capture_output=True)
    remove_cgroup(site.cgroup)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
