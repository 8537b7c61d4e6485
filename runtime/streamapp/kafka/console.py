# SPDX-License-Identifier: Apache-2.0
"""Topics as unix pipes: lines to a topic, a topic to lines.

A plain line is a record's value. A JSON line is an object with the fields

    key, value     text; an object or array stands for its JSON text; null (or left out) for no key or a
                   tombstone
    keyBase64, valueBase64     in their place, for bytes that are no UTF-8 text
    headers        {"name": text}; as [[name, text], ...] where a name occurs twice
    timestamp      ISO 8601, written in UTC with milliseconds; read with any offset, or as milliseconds since
                   1970
    partition, offset          written by `consume`; read by `produce`: partition is obeyed, offset ignored

`produce` reads the output of `consume`, so `consume --json A | produce --json B` copies a topic.
"""

from __future__ import annotations

import base64
import binascii
import json
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from confluent_kafka import (
    OFFSET_BEGINNING,
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
)

from streamapp.errors import InputError, RunError
from streamapp.internal_topics import looks_internal
from streamapp.kafka.admin import Admin
from streamapp.kafka.client import Troubles, client_settings, is_unreachable, make_client, unreachable
from streamapp.kafka.config import KafkaConfig
from streamapp.kafka.reader import Reader
from streamapp.plain import read_json

DELIVERY_SECONDS = 30.0
DEFAULT_LARGEST_RECORD = 1 << 20
SMALLEST_LIMIT = 1000  # librdkafka takes no lower limit
NEW_PARTITIONS_SECONDS = 5.0
POLL_SECONDS = 0.2
BATCH = 1000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)
JSON_FIELDS = frozenset(
    ("key", "value", "keyBase64", "valueBase64", "headers", "timestamp", "partition", "offset", "topic")
)
Headers = list[tuple[str, bytes | None]]
Delivered = Callable[[KafkaError | None, Message | None], None]


@dataclass(frozen=True)
class Record:
    """The record of a line. No timestamp: the time it is sent; no partition: by the key's hash, as Kafka does."""

    value: bytes | None
    key: bytes | None = None
    timestamp: int | None = None
    headers: Headers | None = None
    partition: int | None = None


# --- produce ------------------------------------------------------------------------------------------------


def produce(kafka: KafkaConfig, topic: str, lines: Iterable[bytes], as_json: bool) -> int:
    """Send each line as a record, and return their number when the brokers have them all (acks=all)."""
    require_topic(kafka, topic, or_else="--create makes it, ")
    troubles = Troubles()
    rejected: list[tuple[int, KafkaError]] = []
    producer = Producer(
        client_settings(
            kafka,
            troubles,
            **{
                "enable.idempotence": True,
                "partitioner": "murmur2_random",  # the partitioner of Java's producers
                "linger.ms": 5,
                "message.timeout.ms": int(DELIVERY_SECONDS * 1000),
                # Also the limit of a batch: the broker would refuse a larger one with all its records.
                "message.max.bytes": _largest_record(kafka, topic),
            },
        )
    )

    def on_delivery(number: int) -> Delivered:
        def delivered(error: KafkaError | None, _: Message | None) -> None:
            if error is not None:
                rejected.append((number, error))

        return delivered

    count = 0
    try:
        for number, line in enumerate(lines, start=1):
            text = line.removesuffix(b"\n")
            record = parse_json_line(text, number) if as_json else Record(value=text)
            _send(producer, topic, record, on_delivery(number))
            count = number
            if rejected:
                break
            producer.poll(0)
    finally:
        # The lines before a bad one are still sent.
        left = producer.flush(DELIVERY_SECONDS + 5)
    if rejected:
        raise _rejection(kafka, topic, troubles, *min(rejected, key=lambda each: each[0]))
    if left:
        raise unreachable(kafka, troubles)
    return count


def parse_json_line(text: bytes, number: int) -> Record:
    """One line of the JSON form. Raises InputError naming the line and what is wrong with it."""

    def wrong(what: str) -> InputError:
        return InputError(f"line {number}: {what}")

    try:
        row = read_json(text)
    except ValueError as error:
        raise wrong(f"not JSON: {error}") from None
    if not isinstance(row, dict):
        raise wrong('not a JSON object; write for example {"key": "a", "value": "text"}')
    if unknown := sorted(row.keys() - JSON_FIELDS):
        raise wrong(f"unknown field {unknown[0]!r}; known are {', '.join(sorted(JSON_FIELDS))}")
    try:
        return record_of(row)
    except ValueError as error:
        raise wrong(str(error)) from None


def record_of(row: Mapping[str, Any]) -> Record:
    """The record that such an object describes.

    Raises:
        ValueError: when one of its fields cannot be read.
    """
    return Record(
        value=_bytes_of(row, "value"),
        key=_bytes_of(row, "key"),
        timestamp=_milliseconds(row.get("timestamp")),
        headers=_headers(row.get("headers")),
        partition=_partition(row.get("partition")),
    )


def _send(
    producer: Producer,
    topic: str,
    record: Record,
    done: Delivered,
) -> None:
    more: dict[str, Any] = {}
    if record.timestamp is not None:
        more["timestamp"] = record.timestamp
    if record.partition is not None:
        more["partition"] = record.partition
    if record.headers:
        more["headers"] = record.headers
    while True:
        try:
            producer.produce(topic, value=record.value, key=record.key, on_delivery=done, **more)
            return
        except BufferError:  # full: wait until the broker has taken some
            producer.poll(POLL_SECONDS)
        except KafkaException as error:
            done(error.args[0], None)  # refused before it was sent, for example because it is too large
            return


def _largest_record(kafka: KafkaConfig, topic: str) -> int:
    try:
        limit = int(Admin(kafka).configs([topic])[topic]["max.message.bytes"])
    except RunError:  # a right to write does not include the right to ask
        return DEFAULT_LARGEST_RECORD
    return max(limit, SMALLEST_LIMIT)


def _rejection(
    kafka: KafkaConfig, topic: str, troubles: Troubles, number: int, error: KafkaError
) -> InputError | RunError:
    if error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
        return InputError(
            f"line {number}: larger than topic {topic!r} takes; send less, or raise the topic's max.message.bytes"
        )
    if error.code() in (
        KafkaError._UNKNOWN_PARTITION,
        KafkaError.INVALID_RECORD,
        KafkaError.INVALID_TIMESTAMP,
    ):
        return InputError(f"line {number}: topic {topic!r} does not take it: {error.str()}")
    if error.code() == KafkaError._MSG_TIMED_OUT:
        return unreachable(kafka, troubles)
    return RunError(f"line {number}: not written to topic {topic!r}: {error.str()}")


# --- consume ------------------------------------------------------------------------------------------------


def consume(
    kafka: KafkaConfig,
    topic: str,
    from_beginning: bool = False,
    maximum: int | None = None,
    idle_timeout: float | None = None,
) -> Generator[list[Message], None, None]:
    """Batches of committed records, as they come. Ends after `maximum` records, or when none came for
    `idle_timeout`.

    An empty batch says that nothing is there at the moment. No consumer group is joined and nothing is
    committed: looking at a topic leaves no trace.
    """
    partitions = require_topic(kafka, topic)
    troubles = Troubles()
    settings = {
        "group.id": f"streamapp-console-{uuid4()}",
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
        "auto.offset.reset": "error",
        "allow.auto.create.topics": False,
        "fetch.wait.max.ms": 100,
    }
    admin, wanted = Admin(kafka), [(topic, partition) for partition in range(partitions)]
    places = admin.starts_of(wanted) if from_beginning else admin.ends_of(wanted)
    reader = Reader(lambda: make_client(Consumer, kafka, troubles, **settings), places)
    try:
        count = 0
        last_record = last_look = time.monotonic()
        while maximum is None or count < maximum:
            room = BATCH if maximum is None else min(BATCH, maximum - count)
            batch = [_checked(kafka, topic, troubles, message) for message in reader.read(room, POLL_SECONDS)]
            now = time.monotonic()
            if batch:
                last_record = now
                count += len(batch)
            yield batch
            if idle_timeout is not None and now - last_record >= idle_timeout:
                return
            if now - last_look >= NEW_PARTITIONS_SECONDS:
                last_look = now
                partitions = _follow_new_partitions(reader, topic, partitions)
    finally:
        reader.close()


def line_of(message: Message, as_json: bool) -> bytes:
    """One line, without its end. A tombstone's plain form is `null`."""
    value = message.value()
    if not as_json:
        return b"null" if value is None else _as_bytes(value)
    return json.dumps(row_of(message), ensure_ascii=False).encode("utf-8", "surrogatepass")


def row_of(message: Message) -> dict[str, Any]:
    """The object that describes a record."""
    row: dict[str, Any] = {}
    for name, content in (("key", message.key()), ("value", message.value())):
        row.update(_json_field(name, content))
    headers = message.headers()
    if headers:
        row["headers"] = _json_headers(headers.items() if isinstance(headers, dict) else headers)
    kind, milliseconds = message.timestamp()
    row["timestamp"] = None if kind == TIMESTAMP_NOT_AVAILABLE else _iso(milliseconds)
    row["partition"] = message.partition()
    row["offset"] = message.offset()
    return row


def require_topic(kafka: KafkaConfig, topic: str, or_else: str = "") -> int:
    """The number of the topic's partitions. Raises InputError when there is no such topic.

    Args:
        or_else: another fix for the message.
    """
    topics = Admin(kafka).topics()
    if topic not in topics:
        others = sorted(name for name in topics if not name.startswith("__") and not looks_internal(name))
        there = (
            f"there are: {', '.join(others[:10])}{', ...' if len(others) > 10 else ''}" if others else "there is none"
        )
        raise InputError(
            f"topic {topic!r} does not exist at {kafka.bootstrap_servers}; {there}; "
            f"{or_else}`streamapp topics FILE --create` makes those an app needs"
        )
    return topics[topic].partitions


def _follow_new_partitions(reader: Reader, topic: str, known: int) -> int:
    """Adds new partitions of the topic to the reader, from their beginning: all their records are new. Returns the
    number of partitions."""
    try:
        now = reader.partitions_of(topic) or known  # if nobody answers: try again later
    except KafkaException as error:
        raise RunError(f"topic {topic!r} is gone: {error.args[0].str()}") from None
    if now > known:
        reader.add({(topic, each): OFFSET_BEGINNING for each in range(known, now)})
    return max(now, known)


def _checked(kafka: KafkaConfig, topic: str, troubles: Troubles, message: Message) -> Message:
    error = message.error()
    if error is None:
        return message
    if is_unreachable(KafkaException(error)):
        raise unreachable(kafka, troubles)
    raise RunError(f"cannot read topic {topic!r}: {error.str()}")


# --- bytes and JSON -----------------------------------------------------------------------------------------


def _json_field(name: str, content: bytes | str | None) -> dict[str, Any]:
    if content is None:
        return {name: None}
    raw = _as_bytes(content)
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return {f"{name}Base64": base64.b64encode(raw).decode()}
    if text[:1] in ("{", "["):
        try:
            return {name: read_json(text, parse_constant=_no_constant)}
        except ValueError:
            pass  # only looks like JSON
    return {name: text}


def _json_headers(
    headers: Iterable[tuple[str, bytes | str | None]],
) -> dict[str, str | None] | list[list[str | None]]:
    pairs = [(name, None if value is None else _as_bytes(value).decode("utf-8", "replace")) for name, value in headers]
    names = [name for name, _ in pairs]
    return dict(pairs) if len(set(names)) == len(names) else [[name, value] for name, value in pairs]


def _bytes_of(row: Mapping[str, Any], name: str) -> bytes | None:
    encoded = row.get(f"{name}Base64")
    if encoded is not None:
        if row.get(name) is not None:
            raise ValueError(f"both {name!r} and '{name}Base64' are given; leave one out")
        try:
            return base64.b64decode(encoded, validate=True)
        except (binascii.Error, ValueError, TypeError):
            raise ValueError(f"'{name}Base64' is not base64: {encoded!r}") from None
    content = row.get(name)
    if content is None:
        return None
    if isinstance(content, str):
        return content.encode("utf-8", "surrogatepass")
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def _milliseconds(timestamp: Any) -> int | None:
    if timestamp is None:
        return None
    if isinstance(timestamp, int) and not isinstance(timestamp, bool):
        return timestamp
    try:
        moment = datetime.fromisoformat(timestamp)
    except (TypeError, ValueError):
        raise ValueError(
            f"timestamp {timestamp!r} is neither ISO 8601 (2024-01-01T00:00:00Z) nor milliseconds since 1970"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - EPOCH) // MILLISECOND


def _headers(given: Any) -> Headers | None:
    if given is None:
        return None
    pairs = list(given.items()) if isinstance(given, dict) else given
    if not isinstance(pairs, list) or not all(
        isinstance(pair, (list, tuple)) and len(pair) == 2 and isinstance(pair[0], str) for pair in pairs
    ):
        raise ValueError(f'headers are {given!r}; write {{"name": "text"}} or [["name", "text"]]')
    return [(name, None if value is None else _text_of(value).encode()) for name, value in pairs]


def _partition(given: Any) -> int | None:
    if given is None or (isinstance(given, int) and not isinstance(given, bool) and given >= 0):
        return given
    raise ValueError(f"partition {given!r} is not a number of 0 or more")


def _text_of(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _iso(milliseconds: int) -> str:
    moment = EPOCH + milliseconds * MILLISECOND
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"


def _as_bytes(content: bytes | str) -> bytes:
    return content.encode() if isinstance(content, str) else content


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
