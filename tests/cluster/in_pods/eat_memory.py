# SPDX-License-Identifier: Apache-2.0
"""Takes memory until the container has none left; of its processes the kernel is to end Java first."""

from __future__ import annotations

from pathlib import Path

for process in Path("/proc").glob("[0-9]*"):
    if (process / "comm").read_text().strip() == "java":
        (process / "oom_score_adj").write_text("1000")
taken = []
while True:
    taken.append(bytearray(16 << 20))
