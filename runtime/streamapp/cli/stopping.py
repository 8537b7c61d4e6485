# SPDX-License-Identifier: Apache-2.0
"""Stopping cleanly: a first Ctrl-C or SIGTERM asks, a second one does not.

Commands that work until a stop ask `stop.requested` between two steps. An exception from a signal handler would
not do: inside a call of confluent-kafka, it makes that call fail with a SystemError.
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

READ_BYTES = 1 << 16


class Stop:
    """Whether to stop. Then its file descriptor is readable, so that one can wait for input and signals at once."""

    def __init__(self) -> None:
        self.requested = False
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)

    def fileno(self) -> int:
        return self._reader

    def request(self) -> None:
        self.requested = True
        os.write(self._writer, b".")

    def wait(self, seconds: float) -> bool:
        """Sleep for that long, or until a stop is requested; returns whether it is."""
        select.select([self], [], [], 0 if self.requested else seconds)
        return self.requested

    def close(self) -> None:
        os.close(self._reader)
        os.close(self._writer)


@contextmanager
def stop_on_signals() -> Iterator[Stop]:
    """Within this context, the first SIGINT or SIGTERM only requests a stop. An ignored signal stays ignored."""
    stop = Stop()
    previous = {
        number: handler
        for number in (signal.SIGINT, signal.SIGTERM)
        if (handler := signal.getsignal(number)) is not signal.SIG_IGN
    }

    def give_back() -> None:
        for number, handler in previous.items():
            signal.signal(number, handler)

    def on_signal(_: int, __: FrameType | None) -> None:
        give_back()
        stop.request()

    for number in previous:
        signal.signal(number, on_signal)
    try:
        yield stop
    finally:
        give_back()
        stop.close()


def lines_until_stopped(file: int, stop: Stop) -> Iterator[bytes]:
    """The lines of a file descriptor as they come, each with its line end, until the end of the file or a stop."""
    begun: list[bytes] = []
    inputs: list[int | Stop] = [file, stop]
    while True:
        readable, _, _ = select.select(inputs, [], [])
        if stop in readable:
            return
        piece = os.read(file, READ_BYTES)
        if not piece:
            break
        first, *more = piece.split(b"\n")
        begun.append(first)
        for following in more:
            yield b"".join(begun) + b"\n"
            if stop.requested:
                return
            begun = [following]
    if last := b"".join(begun):
        yield last
