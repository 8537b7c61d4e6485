# SPDX-License-Identifier: Apache-2.0
"""A host that has not answered is left alone for a while, and then asked again."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress
from typing import Any

from streamapp.kafka.config import KafkaConfig
from streamapp_operator.backoff import Backoff
from streamapp_operator.memory import Memory
from streamapp_operator.observe.lag import LONGEST_RETRY_SECONDS, RETRY_SECONDS, Lags


def test_one_that_was_silent_may_be_asked_again_after_the_time() -> None:
    now = [0.0]
    backoff: Backoff[str] = Backoff(30, 100, lambda: now[0])
    assert backoff.reason("a") is None
    assert backoff.failed("a", "no answer") == "no answer"
    now[0] = 29.9
    assert backoff.reason("a") == "no answer"
    assert backoff.reason("b") is None
    now[0] = 30
    assert backoff.reason("a") is None
    for failure, pause in enumerate((60, 100, 100)):
        backoff.failed("a", f"none, {failure}")
        now[0] += pause - 0.1
        assert backoff.reason("a") == f"none, {failure}"
        now[0] += 0.1
        assert backoff.reason("a") is None
    backoff.answered("a")
    backoff.failed("a", "a first failure")
    now[0] += 30
    assert backoff.reason("a") is None


def an_app(name: str, address: str = "127.0.0.1:1") -> dict[str, Any]:
    node = [
        {"name": "lines", "stream": {"topic": "lines"}},
        {"name": "out", "from": "lines", "to": {"topic": "out"}},
    ]
    kafka = {"bootstrapServers": address}
    autoscaling = {"maxReplicas": 2, "lag": {"recordsPerReplica": 1}}
    return {
        "apiVersion": "streamapp.dev/v1alpha1",
        "kind": "StreamApp",
        "metadata": {"name": name, "namespace": "here", "uid": name},
        "spec": {"kafka": kafka, "autoscaling": autoscaling, "topology": node},
    }


def test_a_connection_goes_with_the_last_app_that_used_it() -> None:
    lags = Lags()
    for name in ("first", "second"):
        lags._use(("here", name), KafkaConfig("127.0.0.1:1"), name)
    memory = Memory(lags)
    memory.forget("here", "first")
    assert len(lags._admins) == 1
    memory.forget("here", "second")
    assert not lags._admins
    assert not lags._users


def test_a_kafka_that_lets_nobody_in_is_not_asked_by_connections_that_are_left_behind() -> None:
    """It closes each connection, as a Kafka does that refuses the login. A client that stays connects again at once."""
    now = [0.0]
    lags = Lags(Backoff(RETRY_SECONDS, LONGEST_RETRY_SECONDS, lambda: now[0]))
    with socket.create_server(("127.0.0.1", 0)) as server:
        came: list[float] = []

        def hang_up() -> None:
            with suppress(OSError):
                while True:
                    server.accept()[0].close()
                    came.append(time.monotonic())

        thread = threading.Thread(target=hang_up, daemon=True)
        thread.start()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        apps = [an_app(name, address) for name in ("first", "second")]
        for app in apps:
            assert lags.of(app, {})[0] is None
        assert came
        assert not lags._admins
        assert not lags._users
        before = len(came)
        for _ in range(20):  # looks while it is left alone
            now[0] += 1
            assert [lags.of(app, {})[0] for app in apps] == [None, None]
        assert not until_more(came, before, seconds=3)
        now[0] += RETRY_SECONDS
        lags.of(apps[0], {})
        assert len(came) > before
        server.shutdown(socket.SHUT_RDWR)
        thread.join(10)


def until_more(came: list[float], before: int, seconds: float) -> bool:
    """Whether more connections come within that time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if len(came) > before:
            return True
        time.sleep(0.05)
    return False


def test_what_was_noted_is_forgotten_when_it_is_over() -> None:
    now = [0.0]
    backoff: Backoff[int] = Backoff(10, 20, lambda: now[0])
    for who in range(100):
        backoff.failed(who, "why")
        now[0] += 1
    assert len(backoff._failures) == 30
