# SPDX-License-Identifier: Apache-2.0
"""A run's progress: one line of the terminal, which is rewritten. Without a terminal it is a line now and then, with
the time of the run."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from typing import IO, Any

from streamapp.plain import plain

LOG_SECONDS = 10.0


class ProgressLine:
    def __init__(self, out: IO[str]) -> None:
        self._out = out
        self._in_place = out.isatty()
        self._began = time.monotonic()
        self._last = -LOG_SECONDS
        self._shown = False

    def show(self, status: Mapping[str, Any]) -> None:
        """Write the status (the shape of /status), if it is time for the next line."""
        now = time.monotonic()
        if self._in_place:
            width = shutil.get_terminal_size().columns - 1
            self._out.write("\r\x1b[K" + plain(summary(status))[:width])
            self._shown = True
        elif now - self._last >= LOG_SECONDS:
            self._last = now
            self._out.write(f"{now - self._began:5.0f} s | {plain(summary(status))}\n")
        self._out.flush()

    def end(self) -> None:
        if self._shown:
            self._out.write("\n")
            self._out.flush()


def summary(status: Mapping[str, Any]) -> str:
    """One line about a status.

    >>> summary({"phase": "Running", "totalLag": 1200, "stores": {"s": {"rowsEstimate": 7, "bytes": 2048}},
    ...          "subTopologies": {"0": {"recordsPerSecond": 1500.4, "epoch": 3}}})
    'Running | 1,500 records/s | epoch 3 | lag 1,200 | state ~7 rows, 2.0 kB'
    >>> restore = {"restoring": 1, "done": 3000, "total": 9000, "recordsPerSecond": 2500, "etaSeconds": 2.4}
    >>> summary({"phase": "Restoring", "restore": {"s": restore, "whole": {"restoring": 0}}})
    'Restoring | restoring s: 3,000 of 9,000, 2,500/s, 2 s left'
    >>> summary({"phase": "Running", "subTopologies": {"s": {"lateRecords": 2, "badRecords": {"in": 1}}}})
    'Running | 0 records/s | epoch - | 2 records late | 1 records bad'
    """
    parts = [str(status.get("phase", "Starting"))]
    running = status.get("subTopologies", {}).values()
    if running:
        parts.append(f"{sum(part.get('recordsPerSecond', 0.0) for part in running):,.0f} records/s")
        epoch = max(part.get("epoch", -1) for part in running)
        parts.append(f"epoch {epoch if epoch >= 0 else '-'}")
    if "totalLag" in status:
        parts.append(f"lag {status['totalLag']:,}")
    stores = status.get("stores", {}).values()
    if stores:
        rows = sum(store.get("rowsEstimate", 0) for store in stores)
        parts.append(f"state ~{rows:,} rows, {_size(sum(store.get('bytes', 0) for store in stores))}")
    counts = {
        "late": sum(part.get("lateRecords", 0) for part in running),
        "bad": sum(sum(part.get("badRecords", {}).values()) for part in running),
        "lost": sum(part.get("lostRecords", 0) for part in running),
    }
    parts += [f"{count:,} records {what}" for what, count in counts.items() if count]
    for name, restore in status.get("restore", {}).items():
        if restore.get("restoring") and restore["total"]:
            parts.append(
                f"restoring {name}: {restore['done']:,} of {restore['total']:,}, "
                f"{restore['recordsPerSecond']:,}/s, {restore['etaSeconds']:.0f} s left"
            )
    if status.get("error"):
        parts.append(" ".join(str(status["error"]).split()))
    return " | ".join(parts)


def _size(count: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1024 or unit == "GB":
            return f"{count:,.0f} {unit}" if unit == "bytes" else f"{count:,.1f} {unit}"
        count /= 1024
    raise AssertionError("unreachable")
