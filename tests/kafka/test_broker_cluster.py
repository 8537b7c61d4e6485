# SPDX-License-Identifier: Apache-2.0
"""Three brokers, which the fault tests rely on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lib.broker import Cluster, bounce, new_topic, paused, read, write
from lib.wait import until
from streamapp.kafka.admin import Admin, TopicState
from streamapp.kafka.config import KafkaConfig

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster"), count=3) as running:
        yield running


def test_topics_are_replicated(cluster: Cluster) -> None:
    kafka = KafkaConfig(cluster.bootstrap_servers)
    name = new_topic(kafka, partitions=2)
    found: dict[str, TopicState] = {}

    def known() -> bool:
        found.update(Admin(kafka).topics())
        return name in found

    until(known, 30, "the broker that is asked knows the topic, too")
    assert found[name].replication_factor == 3


@pytest.mark.parametrize("hard", [pytest.param(False, marks=pytest.mark.chaos), True], ids=["SIGTERM", "kill-9"])
def test_every_broker_can_be_bounced_in_turn(cluster: Cluster, hard: bool) -> None:
    kafka = KafkaConfig(cluster.bootstrap_servers)
    name = new_topic(kafka)
    write(kafka, name, ("k", "0"))
    for number, broker in enumerate(cluster.brokers, start=1):
        bounce(broker, hard)
        write(kafka, name, ("k", str(number)))
    assert read(kafka, name, 4) == [("k", "0"), ("k", "1"), ("k", "2"), ("k", "3")]


def test_two_of_three_are_enough(cluster: Cluster) -> None:
    kafka = KafkaConfig(cluster.bootstrap_servers)
    name = new_topic(kafka)
    for broker in cluster.brokers:
        with paused(broker):
            write(kafka, name, ("k", "v"))
    assert read(kafka, name, 3) == [("k", "v")] * 3
