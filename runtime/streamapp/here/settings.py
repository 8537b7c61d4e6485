# SPDX-License-Identifier: Apache-2.0
"""The settings of an app's run on this machine."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from streamapp.errors import InputError
from streamapp.kafka.broker import DEFAULT_HEAP
from streamapp.owner import checked_owner


@dataclass(frozen=True)
class Settings:
    """How to run an app here. None stands for the manifest's value, or the default of `streamapp run`.

    Raises:
        InputError: a value is invalid.
    """

    until_caught_up: bool = False
    """Process the records that are in the topics now, and end."""
    close_windows: bool = False
    """Close the open windows at that end."""
    bootstrap_servers: str | None = None
    """Where Kafka is: HOST:PORT."""
    kafka_config: Path | None = None
    """A file of client properties, for TLS and SASL."""
    state_dir: Path | None = None
    """Where state and the embedded broker's data are kept."""
    replicas: int | None = None
    """The number of executor processes; None: threads of one process."""
    port: int = 0
    """The port of the live interface; 0: a free one."""
    heap: str = DEFAULT_HEAP
    """Memory of the embedded broker."""
    adopted: str | None = None
    """A former owner, whose state the app goes on with."""

    def __post_init__(self) -> None:
        if self.replicas is not None and self.replicas < 1:
            raise InputError(f"replicas: {self.replicas} is not a whole number of 1 or more")
        if not 0 <= self.port < 65536:
            raise InputError(f"port: {self.port} is not a port (0 to 65535)")
        if not is_memory(self.heap):
            raise InputError(f"heap: {self.heap!r} is no size of memory; write e.g. 512m or 2g")
        try:
            if self.adopted is not None:
                checked_owner(self.adopted)
        except ValueError as error:
            raise InputError(f"adopt: {error}") from None


def is_memory(text: str) -> bool:
    """Whether the text is a size of memory in Java's form.

    >>> is_memory("512m"), is_memory("much")
    (True, False)
    """
    return re.fullmatch(r"[1-9]\d*[kmgKMG]", text) is not None
