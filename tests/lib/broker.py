# SPDX-License-Identifier: Apache-2.0
"""Real brokers for tests: clusters of several, and the faults a broker can have."""

from __future__ import annotations

import os
import re
import signal
import uuid
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from confluent_kafka import KafkaError, Message, Producer

from streamapp.kafka.admin import Admin, TopicSpec
from streamapp.kafka.broker import EmbeddedBroker, Node, new_cluster_id
from streamapp.kafka.config import KafkaConfig
from streamapp.kafka.console import consume
from streamapp.kafka.group import GroupPosition
from streamapp.kafka.ports import free_ports

Pair = tuple[str | None, str | None]


def in_order(kafka: KafkaConfig, **settings: Any) -> Producer:
    """A producer whose records lie in a partition once each, as they were produced. Without idempotence a batch that is
    sent again, as the first ones to a new topic may be, lies behind later ones.

    It writes no messages of its own, which another test might read: a producer may outlive its broker. A sender waits
    and gets the error: a record that is not taken raises where its producer is flushed.
    """
    ours = {"on_delivery": _require_taken, "enable.idempotence": True}
    return Producer({**kafka.for_librdkafka(), "log_level": 0, **settings, **ours})


def _require_taken(error: KafkaError | None, message: Message) -> None:
    if error is not None:
        raise AssertionError(f"{message.topic()}/{message.partition()} does not take a record: {error.str()}")


class Cluster:
    """`count` brokers, each also a controller and a voter, that find each other again on the same ports after
    a fault.

    Topics get three replicas of which two must be in sync, where there are three brokers.
    """

    def __init__(
        self, folder: Path, count: int = 3, heap: str = "256m", properties: Mapping[str, str] | None = None
    ) -> None:
        cluster_id = new_cluster_id()
        ports = free_ports(2 * count)
        voters = {number: ports[2 * (number - 1)] for number in range(1, count + 1)}
        self.brokers = [
            EmbeddedBroker(
                folder / f"broker-{number}",
                heap=heap,
                properties=properties,
                node=Node(cluster_id, number, ports[2 * number - 1], controller_port, voters),
            )
            for number, controller_port in voters.items()
        ]
        self.bootstrap_servers = ",".join(f"127.0.0.1:{ports[2 * number - 1]}" for number in voters)

    def start(self) -> Cluster:
        # Together, as none is ready before a majority of the voters is there.
        for broker in self.brokers:
            broker.launch()
        for broker in self.brokers:
            broker.await_ready()
        return self

    def stop(self) -> None:
        # Hard: a controlled shutdown of the last ones would wait in vain for a quorum, and the data is of no
        # more use.
        for broker in self.brokers:
            broker.kill()

    def __enter__(self) -> Cluster:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def bounce(broker: EmbeddedBroker, hard: bool = False) -> None:
    """Take the broker down, by SIGTERM or as a crash would, and up again on the same ports."""
    if hard:
        broker.kill()
    else:
        broker.terminate()
    broker.start()


def pause(broker: EmbeddedBroker) -> None:
    """Stop it in its tracks: connections stay open and nothing answers, as behind a broken network."""
    os.kill(broker.pid, signal.SIGSTOP)


def resume(broker: EmbeddedBroker) -> None:
    os.kill(broker.pid, signal.SIGCONT)


@contextmanager
def paused(broker: EmbeddedBroker) -> Iterator[None]:
    pause(broker)
    try:
        yield
    finally:
        resume(broker)


# --- topics and records -------------------------------------------------------------------------------------


def unique_name(prefix: str = "t") -> str:
    """A topic or application name no other test uses; `prefix` may be a test's name."""
    return f"{re.sub(r'[^a-zA-Z0-9._-]+', '-', prefix).strip('-')}-{uuid.uuid4().hex[:8]}"


def new_topic(
    kafka: KafkaConfig, prefix: str = "t", partitions: int = 1, config: Mapping[str, str] | None = None
) -> str:
    """Make a topic of its own and return its name."""
    name = unique_name(prefix)
    Admin(kafka).create([TopicSpec(name, node="test", partitions=partitions, config=config or {})])
    return name


def write(kafka: KafkaConfig, topic: str, *pairs: Pair) -> None:
    """Write (key, value) records in order."""
    producer = in_order(kafka, partitioner="murmur2_random")
    for key, value in pairs:
        producer.produce(topic, key=key, value=value)
        producer.poll(0)
    assert producer.flush(120) == 0, f"not every record reached {topic}"  # a leader may have to be elected first


def read(kafka: KafkaConfig, topic: str, count: int, seconds: float = 30.0) -> list[Pair]:
    """The first `count` committed (key, value) records; an AssertionError when fewer came in time."""
    found: list[Pair] = []
    for batch in consume(kafka, topic, from_beginning=True, maximum=count, idle_timeout=seconds):
        found += [(_text(message.key()), _text(message.value())) for message in batch]
    assert len(found) == count, f"{topic} gave {len(found)} records in {seconds:g} s, not {count}: {found[:20]}"
    return found


def _text(content: bytes | str | None) -> str | None:
    return content.decode() if isinstance(content, bytes) else content


def group_offsets(kafka: KafkaConfig, group: str, *topics: str) -> dict[tuple[str, int], int]:
    """The group's committed offsets in these topics."""
    there = Admin(kafka).topics()
    with closing(GroupPosition(kafka, group)) as position:
        return position.read((topic, number) for topic in topics for number in range(there[topic].partitions))
