# SPDX-License-Identifier: Apache-2.0
"""Files that are slow to make and serve every clone: kept in ${XDG_CACHE_HOME:-~/.cache}/streamapp."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from cluster.errors import Unavailable

KEEP_SECONDS = 7 * 24 * 3600
"""How long an entry stays after its last use."""


def cache_folder(name: str) -> Path:
    """A folder of the cache, made if need be."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(base).absolute() / "streamapp" / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def fingerprint(files: Iterable[Path], *more: str) -> str:
    """A hash of the files' names and contents, and of further texts; short enough for a tag of an image."""
    digest = hashlib.sha256("\0".join(more).encode())
    for file in sorted(files):
        digest.update(b"\0" + file.name.encode() + b"\0")
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:16]


def made_once(kind: str, version: str, make: Callable[[Path], None]) -> Path:
    """The folder of this kind and version, filled by `make` unless some run has already done so.

    Two runs at once: the second waits for the first. A `make` that fails or is killed leaves nothing that looks
    finished. Other versions of the kind that nobody has used for a week are deleted.
    """
    folder = cache_folder(kind)
    entry = folder / version
    with locked(folder / "lock"):
        if not entry.exists():
            unfinished = folder / "unfinished"
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir()
            make(unfinished)
            unfinished.rename(entry)
        os.utime(entry)
        for other in folder.iterdir():
            if other.is_dir() and time.time() - other.stat().st_mtime > KEEP_SECONDS:
                shutil.rmtree(other)
    return entry


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """Waits for the lock and holds it; the operating system gives it back even for a process that is killed."""
    with file.open("a") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def first_free(files: Iterable[Path]) -> tuple[int, int]:
    """The number of the first of these lock files that is free, and a file descriptor that holds it from now on.

    Raises Unavailable if all are held: each belongs to a cluster.
    """
    number = -1
    for number, file in enumerate(files):
        lock = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return number, lock
        except BlockingIOError:
            os.close(lock)
    raise Unavailable(f"{number + 1} clusters are running on this machine already; end one")
