# SPDX-License-Identifier: Apache-2.0
"""The message about a broker that does not answer stays the same for as long as it does not."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from streamapp.kafka.client import Troubles

REFUSED = "127.0.0.1:1/bootstrap: Connect to ipv4#127.0.0.1:1 failed: Connection refused"


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (KafkaError._TRANSPORT, f"{REFUSED} (after 0ms in state CONNECT)"),
        (KafkaError._TRANSPORT, f"{REFUSED} (after 2ms in state CONNECT, 30 identical error(s) suppressed)"),
        (KafkaError._TRANSPORT, REFUSED),
    ],
)
def test_a_broker_that_refuses(code: int, text: str) -> None:
    troubles = Troubles()
    troubles(KafkaError(code, text))
    assert troubles.words() == "no connection (Connection refused)"


def test_what_has_no_words_of_ours() -> None:
    troubles = Troubles()
    troubles(KafkaError(KafkaError.BROKER_NOT_AVAILABLE, "it is away (after 12ms in state UP)"))
    assert troubles.words() == "it is away"
