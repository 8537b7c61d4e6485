# SPDX-License-Identifier: Apache-2.0
"""Where the processor time of a Java process goes.

The profiler reads the stacks of all threads several times a second, as `jcmd PID Thread.print` shows them, over the
socket that jcmd uses, as a jcmd each time would be half of the load. A stack counts for the processor time that its
thread has used since the last reading. So waiting counts for nothing, and the sum is what the process has used.
"""

from __future__ import annotations

import re
import socket
import subprocess
import threading
from contextlib import suppress
from pathlib import Path
from types import TracebackType

_EVERY_SECONDS = 0.15
_HEADER = re.compile(r'^"(?P<name>[^"]*)".*? cpu=(?P<cpu>[\d.]+)ms .*?(?:tid|nid)=(?P<id>\S+)')
_FRAME = re.compile(r"^\s+at (\S+?)\(")
# The first that fits counts, from a stack's top down.
_WORK: tuple[tuple[str, str], ...] = (
    ("state: RocksDB", r"org\.rocksdb\.|\.state\.RocksDB"),
    ("state: changelog and store", r"\.state\.(Changelog|StateStore|LocalBase)|KeyStateEncoder|ValueStateEncoder"),
    ("source: reading Kafka", r"clients\.consumer\.|kafka010\.(consumer|Kafka)"),
    ("sink: producing to Kafka", r"clients\.producer\.|common\.record\.|\.TransactionalSink|\.TaskTransaction"),
    ("shuffle", r"spark\.shuffle\.|ShuffleExternalSorter|SerializationStream|SortShuffle|collection\.unsafe\.sort"),
    ("aggregation in memory", r"BytesToBytesMap|UnsafeFixedWidthAggregationMap|TungstenAggregation|HashAggregate"),
    ("splitting and other expressions", r"UTF8String|java\.util\.regex|catalyst\.(expressions|json)|GeneratedClass"),
    (
        "sending tasks",
        r"java\.io\.Object(In|Out)putStream|spark\.serializer|TorrentBroadcast|ClosureCleaner|spark\.rpc\.",
    ),
    ("planning and code generation", r"catalyst\.(analysis|optimizer|plans|rules|planning)|codehaus\.janino|codegen"),
)
_THREADS: tuple[tuple[str, str], ...] = (
    ("garbage collection", r"^(GC Thread|ParGC|VM Thread|G1 )"),
    ("Java's compilers", r"^C[12] CompilerThread"),
    ("Kafka's network threads", r"^kafka-(producer|coordinator|admin)|Kafka.*Thread"),
    ("RocksDB's threads", r"^rocksdb"),
    ("planning and starting epochs", r"^stream execution"),
    ("scheduling tasks", r"^(dag-scheduler|dispatcher-|task-result|spark-listener|element-tracking)"),
)


class Profile:
    """A profile of one process, from entering to leaving."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._used: dict[str, float] = {}
        self._spent: dict[str, float] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Profile:
        self._look(count=False)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._over.set()
        self._thread.join(30)

    def lines(self) -> list[str]:
        """The lines of the profile, the largest first: percent, and seconds of processor time."""
        total = sum(self._spent.values()) or 1.0
        return [
            f"{100 * spent / total:5.1f} %  {spent / 1000:6.1f} s  {what}"
            for what, spent in sorted(self._spent.items(), key=lambda each: -each[1])
            if spent / total >= 0.005
        ]

    def _stacks(self) -> str:
        """Reads the stacks by HotSpot's attach protocol: its version, a command, three arguments, each ended by a zero;
        then a status."""
        address = f"/tmp/.java_pid{self._pid}"
        if not Path(address).exists():
            subprocess.run(["jcmd", str(self._pid), "VM.version"], capture_output=True, timeout=30, check=True)
        with socket.socket(socket.AF_UNIX) as asked:
            asked.connect(address)
            asked.sendall(b"1\0threaddump\0\0\0\0")
            answer = b"".join(iter(lambda: asked.recv(1 << 16), b""))
        return answer.decode(errors="replace")

    def _run(self) -> None:
        while not self._over.wait(_EVERY_SECONDS):
            with suppress(OSError):  # it has ended
                self._look()

    def _look(self, count: bool = True) -> None:
        for block in self._stacks().split("\n\n"):
            header = _HEADER.match(block.lstrip("\n"))
            if header is None:
                continue
            cpu = float(header["cpu"])
            new = cpu - self._used.get(header["id"], 0.0)
            self._used[header["id"]] = cpu
            if count and new > 0:
                frames = [found[1] for line in block.splitlines() if (found := _FRAME.match(line))]
                what = _kind(header["name"], frames)
                self._spent[what] = self._spent.get(what, 0.0) + new


def _kind(thread: str, frames: list[str]) -> str:
    for what, pattern in _THREADS:
        if re.search(pattern, thread):
            return what
    for frame in frames:
        for what, pattern in _WORK:
            if re.search(pattern, frame):
                return what
    return "else"
