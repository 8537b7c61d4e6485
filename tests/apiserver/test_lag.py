# SPDX-License-Identifier: Apache-2.0
"""Autoscaling by the lag that a real broker reports, and without it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from lib.broker import new_topic, write
from lib.operator import RUNNING, WORD_COUNT, Apps
from lib.wait import until
from streamapp.kafka.broker import EmbeddedBroker
from streamapp.kafka.config import KafkaConfig
from streamapp_operator.backoff import Backoff
from streamapp_operator.observe.lag import LONGEST_RETRY_SECONDS, RETRY_SECONDS, Lags
from streamapp_operator.scaling.autoscaler import LONGEST_SETTLE_SECONDS

pytestmark = pytest.mark.cluster

AUTOSCALING = {"maxReplicas": 4, "lag": {"recordsPerReplica": 100}, "stabilisation": "20s"}


@pytest.fixture
def its_broker(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    """A broker that may be taken away."""
    with EmbeddedBroker(tmp_path / "broker") as running:
        yield running


def commit(kafka: KafkaConfig, group: str, topic: str, offset: int) -> None:
    """Commits offsets as the app's driver does after each epoch."""
    consumer = Consumer({**kafka.for_librdkafka(), "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()


def scaling(apps: Apps) -> tuple[str, str, int]:
    active = apps.condition("ScalingActive")
    return active["status"], active["reason"], apps.status()["desiredReplicas"]


def test_lag_is_read_from_kafka_and_without_it_nothing_changes(
    apps: Apps, its_broker: EmbeddedBroker, tmp_path: Path
) -> None:
    kafka = KafkaConfig(its_broker.bootstrap_servers)
    lines = new_topic(kafka, "lines")
    # The operator asks a Kafka that was away again by its own clock, which this test moves.
    apps.memory.lags = Lags(Backoff(RETRY_SECONDS, LONGEST_RETRY_SECONDS, lambda: apps._clock().timestamp()))
    apps.create(
        WORD_COUNT.replace("text-lines", lines),
        kafka={"bootstrapServers": kafka.bootstrap_servers},
        autoscaling=AUTOSCALING,
    )
    apps.settle()
    said: dict[str, Any] = RUNNING
    with apps.driver_says(said, tmp_path):
        apps.add_executor(1)

        def is_known() -> bool:
            apps.pass_time(LONGEST_RETRY_SECONDS + 5)
            return scaling(apps)[0] == "True"

        until(is_known, 60, "the lag is known: a broker that has just started may not tell a group's offsets yet")
        assert apps.status()["desiredReplicas"] == 1

        write(kafka, lines, *((None, f"line {number}") for number in range(250)))
        apps.pass_time(20)
        assert scaling(apps)[2] == 2
        apps.add_executor(2)
        apps.pass_time(LONGEST_SETTLE_SECONDS + 15)
        assert scaling(apps)[2] == 3
        assert "250 records of lag, 100 for each replica" in apps.condition("ScalingActive")["message"]
        apps.add_executor(3)
        apps.pass_time(10)
        assert scaling(apps) == ("True", "AsWanted", 3)

        commit(kafka, "word-count", lines, 250)
        its_broker.kill()
        apps.pass_time(35)
        assert scaling(apps) == ("Unknown", "MetricsMissing", 3)
        message = apps.condition("ScalingActive")["message"]
        assert "so it stays at 3 replicas" in message
        assert kafka.bootstrap_servers in message
        apps.pass_time(3 * RETRY_SECONDS + 5)  # it is asked twice more in vain

        its_broker.start()
        until(is_known, 60, "the lag is known again")
        apps.pass_time(120)
        assert scaling(apps) == ("True", "AsWanted", 1)
    events = apps.kube.list("Event", apps.namespace)
    missing = [event["message"] for event in events if event["reason"] == "MetricsMissing"]
    assert sum("so it stays at 3 replicas" in message for message in missing) == 1, missing
    scaled = [event["message"] for event in events if event["reason"] == "Scaling"]
    assert len(scaled) == 4
    assert any("250 records of lag" in message for message in scaled), scaled
