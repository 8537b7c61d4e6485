# SPDX-License-Identifier: Apache-2.0
"""The JSON form of a record: what `produce --json` reads and `consume --json` writes."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamapp.errors import InputError
from streamapp.kafka.console import Record, line_of, parse_json_line


@dataclass
class FakeMessage:
    """The part of a Kafka message that `line_of` uses."""

    content: bytes | None
    name: bytes | None = None
    at: tuple[int, int] = (1, 1704067200000)
    head: list[tuple[str, bytes | None]] = field(default_factory=list)

    def value(self) -> bytes | None:
        return self.content

    def key(self) -> bytes | None:
        return self.name

    def headers(self) -> list[tuple[str, bytes | None]]:
        return self.head

    def timestamp(self) -> tuple[int, int]:
        return self.at

    def partition(self) -> int:
        return 3

    def offset(self) -> int:
        return 7


def shown(message: Any) -> dict[str, Any]:
    row: dict[str, Any] = json.loads(line_of(message, as_json=True))
    return row


def parsed(**row: Any) -> Record:
    return parse_json_line(json.dumps(row).encode(), number=1)


def test_text_stands_for_itself() -> None:
    assert parsed(key="a", value="1") == Record(value=b"1", key=b"a")


@pytest.mark.parametrize(
    ("value", "sent"),
    [
        ({"b": 1, "a": "ü"}, '{"b":1,"a":"ü"}'.encode()),
        ([1, None], b"[1,null]"),
        (5, b"5"),
        (True, b"true"),
        (None, None),
    ],
)
def test_other_json_stands_for_its_text(value: Any, sent: bytes | None) -> None:
    assert parsed(value=value).value == sent


def test_bytes_come_as_base64() -> None:
    assert parsed(keyBase64="/w==", valueBase64="AAE=") == Record(value=b"\0\1", key=b"\xff")


@pytest.mark.parametrize(
    "timestamp",
    [
        1704067200000,
        "2024-01-01T00:00:00Z",
        "2024-01-01T00:00:00",
        "2024-01-01T01:00:00+01:00",
        "2024-01-01",
        "2024-01-01T00:00:00.000999Z",
    ],
)
def test_timestamps(timestamp: Any) -> None:
    assert parsed(timestamp=timestamp).timestamp == 1704067200000


def test_headers_in_both_forms() -> None:
    assert parsed(headers={"a": "x", "b": None}).headers == [("a", b"x"), ("b", None)]
    assert parsed(headers=[["a", "x"], ["a", "y"]]).headers == [("a", b"x"), ("a", b"y")]


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b"text", "line 9: not JSON"),
        (b"\xff", "line 9: not JSON"),
        (b"[1]", "line 9: not a JSON object"),
        (b'{"vaule": 1}', "line 9: unknown field 'vaule'; known are headers, key"),
        (b'{"timestamp": "yesterday"}', "line 9: timestamp 'yesterday' is neither"),
        (b'{"timestamp": true}', "line 9: timestamp True is neither"),
        (b'{"headers": 5}', "line 9: headers are 5"),
        (b'{"partition": -1}', "line 9: partition -1 is not"),
        (b'{"valueBase64": "?"}', "line 9: 'valueBase64' is not base64"),
        (b'{"valueBase64": 5}', "line 9: 'valueBase64' is not base64"),
        (b'{"value": "a", "valueBase64": "AAE="}', "line 9: both 'value' and 'valueBase64'"),
    ],
)
def test_a_wrong_line_is_named(line: bytes, complaint: str) -> None:
    with pytest.raises(InputError) as raised:
        parse_json_line(line, number=9)
    assert str(raised.value).startswith(complaint)


def test_a_record_is_shown_with_where_it_was() -> None:
    assert shown(FakeMessage(b"text", b"a")) == {
        "key": "a",
        "value": "text",
        "timestamp": "2024-01-01T00:00:00.000Z",
        "partition": 3,
        "offset": 7,
    }


def test_json_objects_are_shown_as_such_and_other_json_as_text() -> None:
    assert shown(FakeMessage(b'{"a": 1}'))["value"] == {"a": 1}
    assert shown(FakeMessage(b"[1]"))["value"] == [1]
    assert shown(FakeMessage(b"5"))["value"] == "5"
    assert shown(FakeMessage(b'"5"'))["value"] == '"5"'
    assert shown(FakeMessage(b"{broken"))["value"] == "{broken"
    assert shown(FakeMessage(b'{"a": NaN}'))["value"] == '{"a": NaN}'


def test_plain_lines() -> None:
    assert line_of(FakeMessage(b"\xff"), as_json=False) == b"\xff"  # type: ignore[arg-type]
    assert line_of(FakeMessage(None), as_json=False) == b"null"  # type: ignore[arg-type]


def test_headers_keep_doubles() -> None:
    assert shown(FakeMessage(b"", head=[("a", b"x"), ("b", None)]))["headers"] == {"a": "x", "b": None}
    assert shown(FakeMessage(b"", head=[("a", b"x"), ("a", b"y")]))["headers"] == [["a", "x"], ["a", "y"]]


json_documents = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(key=st.none() | st.binary(), value=st.none() | st.binary())
def test_any_bytes_survive_the_round_trip(key: bytes | None, value: bytes | None) -> None:
    record = parse_json_line(line_of(FakeMessage(value, key), as_json=True), number=1)  # type: ignore[arg-type]
    assert record.key == key or json.loads(record.key or b"") == json.loads(key or b"")
    assert record.value == value or json.loads(record.value or b"") == json.loads(value or b"")


@given(document=json_documents)
def test_any_json_means_the_same_after_the_round_trip(document: Any) -> None:
    message = FakeMessage(json.dumps(document).encode())
    record = parse_json_line(line_of(message, as_json=True), number=1)  # type: ignore[arg-type]
    assert json.loads(record.value or b"") == document


@given(milliseconds=st.integers(min_value=0, max_value=4102444800000))
def test_timestamps_survive_the_round_trip(milliseconds: int) -> None:
    line = line_of(FakeMessage(b"", at=(1, milliseconds)), as_json=True)  # type: ignore[arg-type]
    assert parse_json_line(line, number=1).timestamp == milliseconds


def test_a_text_that_is_nested_too_deep_is_a_text() -> None:
    deep = b"[" * 100_000
    assert shown(FakeMessage(deep))["value"] == deep.decode()
    with pytest.raises(InputError, match="line 3: not JSON: nested too deep"):
        parse_json_line(deep, 3)
