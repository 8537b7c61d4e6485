# SPDX-License-Identifier: Apache-2.0
"""Asks a Spark process something without a word about who asks, and prints why it gets no answer: `HOST PORT`.

A frame has its length, what it is, the number of the question, the length of the rest, and that.
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
