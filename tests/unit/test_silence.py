# SPDX-License-Identifier: Apache-2.0
"""Who has not answered is left alone for a while, and then asked again."""

from __future__ import annotations

from typing import Any

from streamapp_operator.lag import Lags
from streamapp_operator.reconcile import Memory
from streamapp_operator.silence import Silence


def test_one_that_was_silent_may_be_asked_again_after_the_time() -> None:
    now = [0.0]
    silence: Silence[str] = Silence(30, lambda: now[0])
    assert silence.reason("a") is None
    assert silence.note("a", "no answer") == "no answer"
    now[0] = 29.9
    assert silence.reason("a") == "no answer"
    assert silence.reason("b") is None
    now[0] = 30
    assert silence.reason("a") is None
    silence.note("a", "again none")
    silence.forget("a")
    assert silence.reason("a") is None


def an_app(name: str) -> dict[str, Any]:
    node = [
        {"name": "lines", "stream": {"topic": "lines"}},
        {"name": "out", "from": "lines", "to": {"topic": "out"}},
    ]
    kafka = {"bootstrapServers": "127.0.0.1:1"}
    autoscaling = {"maxReplicas": 2, "lag": {"recordsPerReplica": 1}}
    return {
        "apiVersion": "streamapp.dev/v1alpha1",
        "kind": "StreamApp",
        "metadata": {"name": name, "namespace": "here", "uid": name},
        "spec": {"kafka": kafka, "autoscaling": autoscaling, "topology": node},
    }


def test_a_connection_goes_with_the_last_app_that_used_it() -> None:
    lags = Lags()
    said = [lags.of(an_app(name), {}) for name in ("first", "second")]
    assert all(position is None and "no Kafka broker answers at 127.0.0.1:1" in why for position, why in said)
    memory = Memory(lags)
    memory.forget("here", "first")
    assert len(lags._admins) == 1
    memory.forget("here", "second")
    assert not lags._admins
    assert not lags._users
