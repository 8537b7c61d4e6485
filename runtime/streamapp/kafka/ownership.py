# SPDX-License-Identifier: Apache-2.0
"""The owner of an applicationId, and the application's own topics and group, as recorded on its metadata topic.

    owner             the resource that the applicationId belongs to (see MetadataTopic.scala)
    own/topic/NAME    an internal topic: its id on Kafka; empty until the topic is made and its id is known
    own/group/NAME    the consumer group that shows the application's position

A name proves nothing: `APP-STORE-changelog` is the same for app `word` with store `count-totals` and for app
`word-count` with store `totals`, and a topic that was made anew has its old name.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

from streamapp.errors import RunError
from streamapp.kafka.client import Troubles, make_client, unreachable
from streamapp.kafka.config import KafkaConfig

READ_SECONDS = 30.0
POLL_SECONDS = 0.2
MOST_RECORDS = 10_000
"""The most records of one application about its own topics and group."""
LONGEST_VALUE = 1024
"""The longest name or id, in bytes."""
MOST_BUFFERED_KIB = 4096
TOPIC, GROUP = "own/topic/", "own/group/"
_OWNER = "owner"
_COMMITTED = re.compile(r"/(?P<app>[^/]+)/(?P<part>[^/]+)/commits/\d+")


@dataclass(frozen=True)
class Ownership:
    """The records of one application's metadata topic about its owner and its own topics and group."""

    owner: str | None = None
    """The owner; None: no driver has ever run."""
    own: Mapping[str, str] = field(default_factory=dict)
    """The records that begin with `own/`."""
    committed: frozenset[str] = frozenset()
    """Names of the sub-topologies that have committed an epoch."""

    @property
    def topics(self) -> dict[str, str]:
        """Names and ids of the application's internal topics; the id is empty where only the intent is known."""
        return {key.removeprefix(TOPIC): value for key, value in self.own.items() if key.startswith(TOPIC)}

    def has_group(self, name: str) -> bool:
        """Whether that consumer group is the application's."""
        return GROUP + name in self.own


def read_ownership(
    kafka: KafkaConfig, metadata_topic: str, group: str, clock: Callable[[], float] = time.monotonic
) -> Ownership:
    """The ownership in a metadata topic's committed records. If the topic is something else, its records are skipped.

    Args:
        kafka: where the topic is.
        metadata_topic: the topic, which must exist.
        group: a group that the credentials allow; nothing is committed, and the group gets no member.
        clock: seconds that never go back.

    Raises:
        RunError: when the topic cannot be read to its end in READ_SECONDS, or has more records than an application has.
    """
    troubles = Troubles()
    settings = {
        "group.id": group,
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
        # Compaction and transaction markers leave gaps: the broker reports the end, the last record does not show it.
        "enable.partition.eof": True,
        "queued.max.messages.kbytes": MOST_BUFFERED_KIB,
    }
    found = _Found()
    with closing(make_client(Consumer, kafka, troubles, **settings)) as consumer:
        consumer.assign([TopicPartition(metadata_topic, 0, OFFSET_BEGINNING)])
        deadline = clock() + READ_SECONDS
        while clock() < deadline:
            message = consumer.poll(POLL_SECONDS)
            if message is None:
                if troubles.fatal:
                    raise unreachable(kafka, troubles)
                continue
            error = message.error()
            if error is not None:
                if error.code() == KafkaError._PARTITION_EOF:
                    return found.ownership()
                if not error.retriable() and error.code() != KafkaError._ALL_BROKERS_DOWN:
                    raise RunError(f"topic {metadata_topic!r} cannot be read: {KafkaException(error).args[0].str()}")
                continue
            found.take(message.key(), message.value())
            if found.too_much:
                raise RunError(
                    f"topic {metadata_topic!r} has more records about owners than an application needs "
                    f"({MOST_RECORDS} of {LONGEST_VALUE} bytes): it is not trusted"
                )
    raise RunError(f"topic {metadata_topic!r} could not be read to its end in {READ_SECONDS:.0f} s: {troubles.words()}")


class _Found:
    """The records read so far. Anybody may have written them."""

    def __init__(self) -> None:
        self._records: dict[str, str] = {}
        self._committed: set[str] = set()
        self.too_much = False

    def take(self, key: bytes | str | None, value: bytes | str | None) -> None:
        if not isinstance(key, bytes) or isinstance(value, str) or len(key) > LONGEST_VALUE:
            return
        name = key.decode(errors="replace")
        if name == _OWNER or name.startswith((TOPIC, GROUP)):
            if value is None:
                self._records.pop(name, None)
            else:
                self._records[name] = value[: LONGEST_VALUE + 1].decode(errors="replace")
                self.too_much |= len(value) > LONGEST_VALUE
        elif value is not None and (found := _COMMITTED.fullmatch(name)):
            self._committed.add(found["part"])
        self.too_much |= len(self._records) + len(self._committed) > MOST_RECORDS

    def ownership(self) -> Ownership:
        own = {key: value for key, value in self._records.items() if key != _OWNER}
        return Ownership(self._records.get(_OWNER), own, frozenset(self._committed))
