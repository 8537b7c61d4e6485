# SPDX-License-Identifier: Apache-2.0
"""A consumer that goes on after the brokers have been away."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

ANSWER_SECONDS = 2.0
"""How long a question about a topic may take."""


class Reader:
    """Reads partitions from these places on. One thread uses it.

    The last answer of a broker that goes down may be that there are no brokers. librdkafka then forgets all that it
    knows, and does not go back to the addresses that it was given: from then on the client is silent, with no error
    told (confluentinc/librdkafka#5301; seen with 2.13 and 2.16). So whoever hears nothing must ask (`partitions_of`),
    and a client that has no answer is made anew, at the same places.
    """

    def __init__(self, make: Callable[[], Consumer], places: Mapping[tuple[str, int], int]) -> None:
        """
        Args:
            make: a consumer that is assigned nothing yet.
            places: the offset to begin at, by topic and partition.
        """
        self._make = make
        self._places = dict(places)
        self._consumer = self._open()

    def read(self, most: int, seconds: float) -> list[Message]:
        """Up to so many messages, as soon as there are some; a message may be an error of its partition."""
        messages = self._consumer.consume(most, seconds)
        for message in messages:
            if message.error() is None:
                self._places[str(message.topic()), int(message.partition() or 0)] = int(message.offset() or 0) + 1
        return messages

    def partitions_of(self, topic: str) -> int | None:
        """How many the topic has; None where nobody answers, and then the client is made anew.

        Raises:
            KafkaException: there is no such topic, or it is not ours to see.
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
