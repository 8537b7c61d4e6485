# SPDX-License-Identifier: Apache-2.0
"""Sends a Spark process a request without authentication, and prints why it gets no answer: `HOST PORT`.

A frame has its length, its type, the number of the request, the length of the rest, and the rest.
"""

from __future__ import annotations

import socket
import struct
import sys

QUESTION, FAILURE = 3, 5
HEAD = ">qbqi"

with socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=10) as spark:
    said = b"who are you?"
    spark.sendall(struct.pack(HEAD, struct.calcsize(HEAD) + len(said), QUESTION, 1, len(said)) + said)
    answer = spark.makefile("rb")
    _, kind, _, length = struct.unpack(HEAD, answer.read(struct.calcsize(HEAD)))
    assert kind == FAILURE, kind
    print(answer.read(length).decode().splitlines()[0])
