# SPDX-License-Identifier: Apache-2.0
"""Results as tables, on the terminal and in docs/benchmarks.md between the marks of each benchmark."""

from __future__ import annotations

import datetime
import os
import platform
import re
import subprocess
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import psutil

NOTE = Path(__file__).resolve().parent.parent / "docs" / "benchmarks.md"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table that also reads well as text.

    >>> print(table(("system", "s"), [("a", "1.5")]))
    | system |   s |
    |:-------|----:|
    | a      | 1.5 |
    """
    widths = [max(len(line[i]) for line in (head, *rows)) for i in range(len(head))]

    def line(cells: Sequence[str]) -> str:
        padded = [cell.rjust(width) for cell, width in zip(cells, widths, strict=True)]
        return "| " + " | ".join((cells[0].ljust(widths[0]), *padded[1:])) + " |"

    rules = ["-" * (width + 1) + ":" for width in widths[1:]]
    return "\n".join((line(head), "|" + "|".join((":" + "-" * (widths[0] + 1), *rules)) + "|", *map(line, rows)))


def write(name: str, text: str) -> None:
    """Puts a benchmark's result where the note has its marks."""
    marks = f"<!-- {name} -->", f"<!-- /{name} -->"
    note = NOTE.read_text()
    pattern = re.compile(re.escape(marks[0]) + ".*?" + re.escape(marks[1]), re.DOTALL)
    if not pattern.search(note):
        raise SystemExit(f"{NOTE} has no place for {name}: {marks[0]} … {marks[1]}")
    NOTE.write_text(pattern.sub(lambda _: f"{marks[0]}\n{text}\n{marks[1]}", note))


def machine() -> str:
    """The machine and the versions that the figures depend on, in one paragraph."""
    memory = psutil.virtual_memory().total / 2**30
    java = subprocess.run(["java", "-version"], capture_output=True, text=True).stderr.splitlines()[0]
    return (
        f"{datetime.date.today()}: {_processor()}, {os.cpu_count()} cores, {memory:.0f} GiB, {platform.system()} "
        f"{platform.release().split('-')[0]}; {java.replace(chr(34), '')}; Python {platform.python_version()}; Spark "
        f"{version('pyspark')}; Kafka broker, clients and Streams 4.1.0. The broker runs on the same machine; load "
        f"average at the start {os.getloadavg()[0]:.1f}."
    )


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        found = re.search(r"model name\s*:\s*(.*)", cpuinfo.read_text())
        if found:
            return found[1]
    return platform.processor() or platform.machine()
