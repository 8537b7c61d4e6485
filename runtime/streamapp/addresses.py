# SPDX-License-Identifier: Apache-2.0
"""Addresses of brokers: HOST:PORT, several with commas."""

from __future__ import annotations

import re

HOST = r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)"
"""A host's name or address. Any other character may mean something to a reader of settings."""
_ADDRESS = re.compile(rf"{HOST}:([0-9]{{1,5}})", re.ASCII)
EXAMPLE = "localhost:9092"


def address_fault(servers: str) -> str | None:
    """The mistake in a list of brokers, in words; None when there is none.

    >>> address_fault("a:9092, [::1]:9093") is None
    True
    >>> address_fault("a:9092,localhost")
    "'localhost' is not HOST:PORT"
    """
    for address in servers.split(","):
        match = _ADDRESS.fullmatch(address.strip(" "))
        if match is None or not 0 < int(match[2]) < 65536:
            return f"{address.strip()!r} is not HOST:PORT"
    return None
