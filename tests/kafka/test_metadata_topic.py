# SPDX-License-Identifier: Apache-2.0
"""The driver's files on the metadata topic: when each is written, and how many transactions that takes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka import Producer
from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from lib.broker import in_order
from lib.probe import probe_session
from lib.verify import committed
from streamapp.internal_topics import metadata_topic
from streamapp.kafka.admin import Admin, TopicSpec
from streamapp.kafka.config import KafkaConfig
from streamapp.spark.session import PREFIX

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(120)]


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory, root: Path) -> Iterator[SparkSession]:
    with probe_session(root / "tests" / "jvm", tmp_path_factory.mktemp("probe")) as session:
        yield session


class Driver:
    """Drivers of one application, one after the other."""

    def __init__(self, spark: SparkSession, kafka: KafkaConfig) -> None:
        self._spark, self._kafka = spark, kafka
        self.app = f"probe-{uuid4().hex[:8]}"
        self._topic = metadata_topic(self.app)
        Admin(kafka).create([TopicSpec(self._topic, "metadata", 1, {"cleanup.policy": "compact"}, True)])

    def open(self) -> JavaObject:
        settings = {
            PREFIX + "applicationId": self.app,
            PREFIX + "bootstrapServers": self._kafka.bootstrap_servers,
            PREFIX + "subTopology": "",
            PREFIX + "maxParallelism": "1",
        }
        jvm = self._spark._jvm.org.apache.spark.sql.streamapp  # type: ignore[union-attr]
        return jvm.MetadataProbe(settings)

    def transactions(self) -> list[list[str]]:
        """The files written in each transaction, whose own marker takes an offset that no reader gets to see."""
        found: list[list[str]] = []
        after = -1
        for message in committed(self._kafka, self._topic):
            offset, path = message.offset() or 0, (message.key() or b"").decode()
            if offset != after:
                found.append([])
            found[-1].append(path if message.value() is not None else f"-{path}")
            after = offset + 1
        return [each for each in found if any("/" in path for path in each)]

    def take_over(self) -> None:
        """Is another driver, which has announced itself."""
        other = in_order(self._kafka)
        other.produce(self._topic, b"another", b"driver", 0)
        assert other.flush(30) == 0
        self.fence()

    def fence(self) -> None:
        """Fences the driver, as the broker does if it stood still for too long."""
        other = Producer({**self._kafka.for_librdkafka(), "transactional.id": f"{self.app}/metadata"})
        other.init_transactions(30)


@pytest.fixture
def driver(spark: SparkSession, kafka: KafkaConfig) -> Driver:
    return Driver(spark, kafka)


def test_an_epoch_is_one_transaction(driver: Driver) -> None:
    """The end of an epoch, and Spark's deletions, are in one transaction with the range of the next epoch."""
    files = driver.open()
    for epoch in range(4):
        files.write(f"/app/part/offsets/{epoch}")
        files.write(f"/app/part/commits/{epoch}")
        if epoch == 2:
            files.delete("/app/part/offsets/0")
            files.delete("/app/part/commits/0")
    assert files.exists("/app/part/commits/3")
    assert not files.exists("/app/part/offsets/0")
    files.close()
    assert driver.transactions() == [
        ["/app/part/offsets/0"],
        ["/app/part/commits/0"],  # from then on it is certain what the stores hold
        ["/app/part/offsets/1"],
        ["/app/part/commits/1", "/app/part/offsets/2"],
        ["/app/part/commits/2", "-/app/part/offsets/0", "-/app/part/commits/0", "/app/part/offsets/3"],
    ]


def test_a_range_is_seen_at_once_and_gone_if_it_could_not_be_written(driver: Driver) -> None:
    files = driver.open()
    files.write("/app/part/offsets/7")
    files.begin("/app/part/offsets/8")
    assert files.exists("/app/part/offsets/8")
    files.awaitWritten("/app/part/offsets")
    driver.take_over()
    files.begin("/app/part/offsets/9")
    with pytest.raises(Py4JJavaError, match=r"another runtime of application .* has taken over"):
        files.awaitWritten("/app/part/offsets")
    assert files.exists("/app/part/offsets/8")
    assert not files.exists("/app/part/offsets/9")
    files.awaitWritten("/app/part/offsets")  # nobody waits any more
    files.close()
    assert driver.transactions() == [["/app/part/offsets/7"], ["/app/part/offsets/8"]]


def test_what_waits_is_lost_with_its_driver(driver: Driver) -> None:
    files = driver.open()
    files.write("/app/part/offsets/7")
    files.write("/app/part/commits/7")
    files.close()
    files = driver.open()
    assert files.exists("/app/part/offsets/7")
    assert not files.exists("/app/part/commits/7")
    files.close()


def test_a_flush_makes_durable_what_waits(driver: Driver) -> None:
    files = driver.open()
    files.write("/app/part/commits/7")
    files.flush()
    files.flush()
    files.close()
    assert driver.transactions() == [["/app/part/commits/7"]]
    files = driver.open()
    assert files.exists("/app/part/commits/7")
    files.close()


def test_what_waits_outlives_a_lost_producer(driver: Driver) -> None:
    files = driver.open()
    files.write("/app/part/offsets/7")
    files.write("/app/part/commits/7")
    files.delete("/app/part/offsets/7")
    driver.fence()
    files.write("/app/part/offsets/8")
    assert files.exists("/app/part/commits/7")
    assert not files.exists("/app/part/offsets/7"), "what was read again hides what waits"
    files.close()
    assert driver.transactions()[-1] == ["/app/part/commits/7", "-/app/part/offsets/7", "/app/part/offsets/8"]


def test_writes_at_the_same_time_share_a_transaction(driver: Driver) -> None:
    files = driver.open()
    files.writeTogether(8, 20)
    files.close()
    found = driver.transactions()
    written = [path for each in found for path in each]
    assert sorted(written) == sorted(f"/app/part-{thread}/offsets/{n}" for thread in range(8) for n in range(20))
    assert len(found) < len(written) / 2
    for thread in range(8):
        mine = [path for path in written if path.startswith(f"/app/part-{thread}/")]
        assert mine == [f"/app/part-{thread}/offsets/{n}" for n in range(20)]
