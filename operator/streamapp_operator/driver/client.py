# SPDX-License-Identifier: Apache-2.0
"""The live interface of a driver's pod.

A driver runs its author's code, so its answer is whatever the author likes: its size has a bound, and so has the time
for all of it; and a redirect to another address is not followed."""

from __future__ import annotations

import json
import socket
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from typing import Any

from streamapp.plain import read_json
from streamapp_operator.backoff import Backoff
from streamapp_operator.driver.answer import Answer, read_answer
from streamapp_operator.driver.pods import driver_state
from streamapp_operator.render.meta import Object
from streamapp_operator.render.pods import LIVE_PORT

SECONDS = 2.0
"""Seconds for a whole answer. A driver that is busy may keep us waiting, and so may one on a node that is gone."""
RETRY_SECONDS, LONGEST_RETRY_SECONDS = 2.0, 30.0
"""Seconds of the first and the longest pause for a driver that has kept us waiting in vain."""
LARGEST = 256 * 1024
"""Bytes of an answer at most."""
_LONGEST_WORDS = 300


_Who = tuple[str, int, bool]
"""The uid of a driver's pod, how many of its containers have ended, and whether it is ready."""


@dataclass
class Drivers:
    """Asks drivers about themselves. May be used from any thread.

    Only one that keeps us waiting is left alone: waiting holds other apps up. A refused connection, as of a driver that
    starts, costs nothing. After any change of its pod it is asked at once.
    """

    backoff: Backoff[_Who] = field(default_factory=lambda: Backoff(RETRY_SECONDS, LONGEST_RETRY_SECONDS))

    def ask(self, pod: Object, token: str) -> tuple[Answer | None, str]:
        """The driver's answer about itself, or None and why there is none."""
        state = driver_state(pod)
        who = state.uid, state.ended, state.ready
        if why := self.backoff.reason(who):
            return None, why
        try:
            found = read_answer(_answer(pod, token, "GET", "/status"))
        except TimeoutError as error:
            return None, self.backoff.failed(who, f"the driver does not answer: {_words(error)}")
        except (OSError, ValueError, HTTPException) as error:
            return None, f"the driver does not answer: {_words(error)}"
        self.backoff.answered(who)
        return (found, "") if found is not None else (None, "the driver's answer cannot be read")


def scale(pod: Object, token: str, replicas: int) -> str:
    """Asks the driver for so many executors; returns why it did not take the number, empty when it did."""
    try:
        _answer(pod, token, "PUT", "/replicas", json.dumps({"replicas": replicas}).encode())
    except (OSError, ValueError, HTTPException) as error:
        return f"the driver does not take the number of replicas: {_words(error)}"
    return ""


def _answer(pod: Object, token: str, method: str, path: str, body: bytes | None = None) -> Any:
    address = pod.get("status", {}).get("podIP")
    if not address:
        raise OSError("its pod has no address yet")
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    # Straight to the pod, whatever proxy the environment names; and no redirect is followed, which would take the token
    # along.
    connection = HTTPConnection(address, LIVE_PORT, timeout=SECONDS)
    late = threading.Event()
    # Timeouts of sockets are for a piece each: an answer that drips would never be late.
    connection.connect()
    # Its own reference: an answer that ends with the connection takes the socket away from it.
    limit = threading.Timer(SECONDS, _cut, [connection.sock, late])
    limit.daemon = True
    limit.start()
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        if answer.status != 200:
            raise OSError(f"HTTP {answer.status}")
        found = answer.read(LARGEST + 1)
        if len(found) > LARGEST:
            raise ValueError(f"its answer is larger than {LARGEST // 1024} KiB")
        return read_json(found)
    except (OSError, ValueError, HTTPException):
        if late.is_set():
            raise TimeoutError("timed out") from None
        raise
    finally:
        limit.cancel()
        connection.close()


def _cut(open_socket: socket.socket, late: threading.Event) -> None:
    late.set()
    with suppress(OSError):
        open_socket.shutdown(socket.SHUT_RDWR)


def _words(error: Exception) -> str:
    """The error on one line, cut to a readable length: it may quote the answer."""
    return " ".join(str(error).split())[:_LONGEST_WORDS] or type(error).__name__
