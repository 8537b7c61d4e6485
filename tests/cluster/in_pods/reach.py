# SPDX-License-Identifier: Apache-2.0
"""For each `HOST:PORT`, prints it, and `open` if it takes a connection, else `closed`."""

from __future__ import annotations

import socket
import sys

for place in sys.argv[1:]:
    host, _, port = place.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=3).close()
        print(place, "open")
    except OSError:
        print(place, "closed")
