# SPDX-License-Identifier: Apache-2.0
"""The parts of Kafka that every benchmark needs: topics, gates that open on many records at once, and a watch on the
output."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
from confluent_kafka import Consumer, IsolationLevel, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from lib.verify import committed
from streamapp.kafka.admin import Admin, TopicSpec
from streamapp.kafka.config import KafkaConfig

POLL_SECONDS = 0.02

_LATEST: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]


class Kafka:
    """The embedded broker's clients."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.admin = Admin(KafkaConfig.load(bootstrap, None))

    def create(self, topic: str, partitions: int) -> None:
        self.admin.create([TopicSpec(topic, "benchmark", partitions)])

    def committed(self, topic: str) -> list[Message]:
        """All committed records of a topic."""
        return committed(KafkaConfig.load(self.bootstrap, None), topic)

    def forget(self, prefix: str) -> None:
        """Deletes all topics of a run, so that the broker has as few for every run."""
        self.admin.delete(name for name in self.admin.topics() if name.startswith(prefix))


Record = tuple[bytes, bytes] | tuple[bytes, bytes, int]
"""Key and value, and the event time in milliseconds since 1970 if there is one."""


def paced(per_second: int, seconds: float) -> Iterator[int]:
    """Numbers from 0, each when it is due: so many a second, for so many seconds."""
    start = time.monotonic()
    for index in range(int(seconds * per_second)):
        due = start + index / per_second
        while (ahead := due - time.monotonic()) > 0:
            time.sleep(min(ahead, 0.001))
        yield index


class Gate:
    """Records that lie on the topic, in a transaction, and all become readable when it is opened."""

    def __init__(self, kafka: Kafka, topic: str, records: Iterable[bytes | Record]) -> None:
        """`records`: values, or keys with values."""
        self._producer = Producer(
            {
                "bootstrap.servers": kafka.bootstrap,
                "transactional.id": f"gate-{topic}-{time.monotonic_ns()}",
                "transaction.timeout.ms": 900_000,
                "log_level": 2,
                "linger.ms": 20,
                "batch.size": 256 << 10,
                "compression.type": "lz4",
                # As Kafka's own producers do, and as Kafka Streams expects it for a foreign-key join's tables.
                "partitioner": "murmur2_random",
                "queue.buffering.max.messages": 200_000,
                "sticky.partitioning.linger.ms": 20,
            }
        )
        self._producer.init_transactions(30)
        self._producer.begin_transaction()
        for record in records:
            key, value, *at = record if isinstance(record, tuple) else (None, record)
            while True:
                try:
                    self._producer.produce(topic, value, key, timestamp=at[0] if at else 0)
                    break
                except BufferError:
                    self._producer.poll(0.05)
        self._producer.flush(120)

    def open(self) -> float:
        """Commits; returns the time just before."""
        now = time.monotonic()
        self._producer.commit_transaction(60)
        return now


@dataclass
class Ends:
    """The committed ends of a topic, each with the time when it was seen."""

    times: list[float] = field(default_factory=list)
    ends: list[tuple[int, ...]] = field(default_factory=list)

    def reached(self, end: tuple[int, ...]) -> float:
        """The first time at which every partition was committed up to `end`."""
        for seen_at, seen in zip(self.times, self.ends, strict=True):
            if all(a >= b for a, b in zip(seen, end, strict=True)):
                return seen_at
        raise ValueError(f"{end} was never reached")


class Watch:
    """Reads the committed end of an output topic every 20 ms, which costs the system under test next to nothing.

    The content of the records is read afterwards: `counts` are the latest of each key. Without `by_key` they are not
    kept, and every record stands for one more word (true where no word comes twice).
    """

    def __init__(self, kafka: Kafka, topic: str, partitions: int, by_key: bool = True) -> None:
        self._by_key = by_key
        self._partitions = [TopicPartition(topic, number) for number in range(partitions)]
        self._admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        self._consumer = Consumer(
            {
                "bootstrap.servers": kafka.bootstrap,
                "group.id": f"watch-{topic}",
                "log_level": 2,
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "enable.partition.eof": False,
                "fetch.wait.max.ms": 50,
                "auto.offset.reset": "earliest",
            }
        )
        self._consumer.assign([TopicPartition(p.topic, p.partition, 0) for p in self._partitions])
        self._position = [0] * partitions
        self._stopping = threading.Event()
        self.ends = Ends()
        self.counts: dict[bytes, int] = {}
        self.records = 0
        self.backwards = 0
        self.total = 0
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        while not self._stopping.wait(POLL_SECONDS):
            end = self._committed_end()
            if not self.ends.ends or end != self.ends.ends[-1]:
                self.ends.times.append(time.monotonic())
                self.ends.ends.append(end)

    def _committed_end(self) -> tuple[int, ...]:
        futures = self._admin.list_offsets(
            dict.fromkeys(self._partitions, _LATEST), isolation_level=IsolationLevel.READ_COMMITTED
        )
        return tuple(futures[p].result(30).offset for p in self._partitions)

    def await_total(self, total: int, seconds: float, check: Callable[[], None], quiet: float = 1.0) -> float:
        """Waits until the latest counts sum up to `total`; returns when that became visible.

        Reads the output only while it stands still. `check` raises when there is nothing left to wait for.
        """
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            time.sleep(0.05)
            check()
            if not self.ends.times or time.monotonic() - self.ends.times[-1] < quiet:
                continue
            end = self.ends.ends[-1]
            for _ in self._read_to(end):
                pass
            if self.total == total:
                return self.ends.reached(end)
            if self.total > total:
                raise AssertionError(f"the counts sum up to {self.total}, more than the {total} words sent")
        raise TimeoutError(f"after {seconds:.0f} s the counts sum up to {self.total} of {total}")

    def _read_to(self, end: tuple[int, ...]) -> Iterator[None]:
        while any(at < to for at, to in zip(self._position, end, strict=True)):
            for message in self._consumer.consume(10_000, 0.2):
                if message.error():
                    raise RuntimeError(str(message.error()))
                self.records += 1
                if not self._by_key:
                    self.total += 1
                    continue
                # A deletion takes its number out.
                key, value = message.key() or b"", int(message.value() or 0)
                before = self.counts.get(key, 0)
                self.counts[key] = value
                self.total += value - before
                self.backwards += value < before
            # A partition often ends in transaction markers, which are offsets without a record.
            for index, place in enumerate(self._consumer.position(self._partitions)):
                self._position[index] = max(self._position[index], place.offset)
            yield

    def verify(self, expected: np.ndarray, name: str) -> None:
        """Every count must be exact.

        Raises:
            AssertionError: naming the first word that is not.
        """
        wrong = [word for word in range(len(expected)) if self.counts.get(b"w%d" % word, 0) != expected[word]]
        if wrong:
            word = wrong[0]
            raise AssertionError(
                f"{name}: {len(wrong)} of {len(expected)} counts are wrong, e.g. w{word}: "
                f"{self.counts.get(b'w%d' % word, 0)} instead of {expected[word]}"
            )

    def close(self) -> None:
        self._stopping.set()
        self._thread.join(5)
        self._consumer.close()


def lines(count: int, per_line: int, words: int, seed: int) -> tuple[list[bytes], np.ndarray]:
    """Lines of words `w0`, `w1`, …, drawn evenly, and how often each word was drawn."""
    drawn = np.random.default_rng(seed).integers(0, words, (count, per_line))
    names = [b"w%d" % number for number in range(words)]
    made = [b" ".join([names[number] for number in row]) for row in drawn.tolist()]
    return made, np.bincount(drawn.ravel(), minlength=words)
