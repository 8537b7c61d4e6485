# SPDX-License-Identifier: Apache-2.0
"""A broker that is away delays results, and nothing else: the app lives, reports the trouble, and can be stopped."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lib.app import AppProcess, Bench
from lib.broker import bounce, group_offsets, new_topic
from lib.verify import Proof
from lib.wait import until
from streamapp.kafka.broker import EmbeddedBroker
from streamapp.kafka.config import KafkaConfig
from streamapp.kafka.group import GroupPosition

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]


@contextmanager
def away(broker: EmbeddedBroker, app: AppProcess) -> Iterator[None]:
    """Stops the broker until the end of the block; the block begins when the app has noticed."""
    broker.terminate()
    try:
        until(lambda: app.status()["error"], 60, "the status says what is wrong")
        yield
    finally:
        broker.start()


def test_it_goes_on_telling_and_recovers(own_broker: EmbeddedBroker, own_kafka: KafkaConfig, tmp_path: Path) -> None:
    with Bench(own_kafka, tmp_path, "away") as bench, Proof(bench, load := bench.load(seed=811)) as proof:
        load.send(500)
        app = bench.start()
        app.await_work()
        proof.await_caught_up(app)
        with away(own_broker, app):
            before, lines = app.status()["uptimeSeconds"], app.said.count("\n")
            until(lambda: app.status()["uptimeSeconds"] > before + 12, 60, "the status is that of now")
            until(lambda: app.said.count("\n") > lines, 30, "another line of progress")
            assert "no Kafka broker answers" in app.said.splitlines()[-1]
        until(lambda: app.status()["error"] is None, 60, "the status says that all is well")
        load.send(500)
        proof.finish(app)


def test_it_can_be_stopped(own_broker: EmbeddedBroker, own_kafka: KafkaConfig, tmp_path: Path) -> None:
    with Bench(own_kafka, tmp_path, "stop") as bench, Proof(bench, load := bench.load(seed=812)) as proof:
        load.send(500)
        app = bench.start()
        app.await_work()
        with away(own_broker, app):
            assert app.stop() == 0
        load.send(500)
        app = bench.start()
        app.await_work()
        proof.finish(app)


def test_the_offsets_of_a_group_are_read_while_its_coordinator_still_starts(
    own_broker: EmbeddedBroker, own_kafka: KafkaConfig
) -> None:
    topic = new_topic(own_kafka, "numbers")
    position = GroupPosition(own_kafka, "reader")
    assert position.write({(topic, 0): 5})
    for _ in range(4):  # if librdkafka's admin client asks, two of them end this process
        bounce(own_broker, hard=True)
        assert position.read([(topic, 0)]) == {(topic, 0): 5}
        assert group_offsets(own_kafka, "reader", topic) == {(topic, 0): 5}
    position.close()
