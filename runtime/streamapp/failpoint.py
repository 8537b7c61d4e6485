# SPDX-License-Identifier: Apache-2.0
"""Named places where a test can end the driver's Python process, as by SIGKILL. Those of the JVM part are in
Failpoint.scala; `STREAMAPP_FAILPOINTS` names both, and of its items `NAME=halt` can be one of these.
"""

from __future__ import annotations

import os
import signal
import sys

_ARMED = frozenset(
    item.strip().removesuffix("=halt")
    for item in os.environ.get("STREAMAPP_FAILPOINTS", "").split(",")
    if item.strip().endswith("=halt")
)


def hit(name: str) -> None:
    """Ends the process here, where the test wants it so."""
    if name in _ARMED:
        print(f"FAILPOINT {name} halt", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
