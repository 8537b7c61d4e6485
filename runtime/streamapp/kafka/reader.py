# SPDX-License-Identifier: Apache-2.0
"""A consumer that goes on after the brokers have been away."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

ANSWER_SECONDS = 2.0
"""The longest time of a question about a topic."""


class Reader:
    """Reads partitions from these places on. One thread uses it.

    The last answer of a broker that goes down may be that there are no brokers. librdkafka then forgets all brokers,
    and does not go back to its bootstrap addresses: from then on the client is silent, without an error
    (confluentinc/librdkafka#5301; seen with 2.13 and 2.16). So a caller that gets no records must ask
    (`partitions_of`). If there is no answer, the client is made anew, at the same places.
    """

    def __init__(self, make: Callable[[], Consumer], places: Mapping[tuple[str, int], int]) -> None:
        """
        Args:
            make: makes a consumer without an assignment.
            places: the offset to begin at, by topic and partition.
        """
        self._make = make
        self._places = dict(places)
        self._consumer = self._open()

    def read(self, most: int, seconds: float) -> list[Message]:
        """Returns up to `most` messages, as soon as there are some; a message may be an error of its partition."""
        messages = self._consumer.consume(most, seconds)
        for message in messages:
            if message.error() is None:
                self._places[str(message.topic()), int(message.partition() or 0)] = int(message.offset() or 0) + 1
        return messages

    def partitions_of(self, topic: str) -> int | None:
        """The number of the topic's partitions; None where nobody answers, and then the client is made anew.

        Raises:
            KafkaException: there is no such topic, or we may not see it.
        """
        try:
            found = self._consumer.list_topics(topic, timeout=ANSWER_SECONDS).topics[topic]
        except KafkaException:
            self._consumer.close()
            self._consumer = self._open()
            return None
        if found.error is not None:
            raise KafkaException(found.error)
        return len(found.partitions)

    def add(self, places: Mapping[tuple[str, int], int]) -> None:
        """Reads these partitions too."""
        self._places.update(places)
        self._consumer.incremental_assign(_positions(places))

    def close(self) -> None:
        self._consumer.close()

    def _open(self) -> Consumer:
        consumer = self._make()
        consumer.assign(_positions(self._places))
        return consumer


def _positions(places: Mapping[tuple[str, int], int]) -> list[TopicPartition]:
    return [TopicPartition(topic, partition, offset) for (topic, partition), offset in places.items()]
