# SPDX-License-Identifier: Apache-2.0
"""Records expected against records seen: equal, or a difference that people can read."""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Mapping
from datetime import UTC, datetime
from difflib import SequenceMatcher
from itertools import repeat, zip_longest
from typing import Any

from streamapp.plain import read_json
from streamapp.testing.cases import EXPECTED_FIELDS, Expect, Row


def difference(expected: Expect, seen: Iterable[Row]) -> tuple[str, ...]:
    """The missing (-) and the surplus (+) records, one per line, among the records that agree; empty when all agree.

    A record is compared by the fields that it names; key and value count for all records when any of them names them.

    >>> expected = Expect(topic="t", records=[{"key": "a", "value": {"n": 2}}, {"key": "b", "value": None}])
    >>> difference(expected, [{"key": "b", "value": None}, {"key": "a", "value": {"n": 2.0}}])
    ()
    >>> print(*difference(expected, [{"key": "a", "value": {"n": 3}}, {"key": "b", "value": None}]), sep="\\n")
    - key "a" value {"n": 2}
    + key "a" value {"n": 3}
      key "b" value null
    """
    named = {field for record in expected.records for field in record} or {"key", "value"}
    order = "any" if expected.order == "key" and "key" not in named else expected.order
    shared = named & {"key", "value"}
    records, others = (_ordered(group, order, shared) for group in (expected.records, seen))
    fields = [shared | record.keys() for record in records]
    wanted = [_line(record, own) for record, own in zip(records, fields, strict=True)]
    same_count = len(records) == len(others)
    found = [_line(record, own) for record, own in zip(others, fields if same_count else repeat(named))]  # noqa: B905
    return () if wanted == found else tuple(_aligned(wanted, found))


def rows_difference(wanted: Iterable[Mapping[str, Any]], seen: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """The same for rows of a store, in any order. It compares the columns that any wanted row names."""
    rows = list(wanted)
    named = {column for row in rows for column in row}
    lines = sorted(canonical(row) for row in rows)
    found = sorted(canonical({name: row[name] for name in row if name in named or not rows}) for row in seen)
    return () if lines == found else tuple(_aligned(lines, found))


def canonical(value: Any) -> str:
    """The canonical JSON of a value: sorted keys, whole numbers without a fraction.

    >>> canonical({"b": 1.0, "a": True})
    '{"a": true, "b": 1}'
    """
    return json.dumps(_plain_numbers(value), sort_keys=True, ensure_ascii=False)


def _ordered(records: Iterable[Row], order: str, shared: Iterable[str]) -> list[Row]:
    """The records in an order in which equal ones meet."""
    if order == "exact":
        return list(records)
    if order == "last":
        last = {canonical(_content(record.get("key"))): record for record in records}
        return [last[key] for key in sorted(last)]
    # A stable sort by the key keeps the order within each.
    by = ["key"] if order == "key" else sorted(shared)
    return sorted(records, key=lambda record: [canonical(_content(record.get(field))) for field in by])


def _line(record: Row, fields: Container[str]) -> str:
    return " ".join(f"{field} {canonical(_field(record, field))}" for field in EXPECTED_FIELDS if field in fields)


def _field(record: Row, field: str) -> Any:
    value = record.get(field)
    if field in ("key", "value"):
        return _content(value)
    if field == "headers":
        return value or {}
    return _moment(value) if field == "timestamp" else value


def _content(value: Any) -> Any:
    """A key or value as the topic has it: text, or the object or list that the text stands for."""
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            return read_json(value)
        except ValueError:
            return value
    if value is None or isinstance(value, str | dict | list):
        return value
    return json.dumps(value)


def _moment(value: Any) -> Any:
    """The time in milliseconds since 1970. A value that is no time stays as it is, and so the difference shows it."""
    if not isinstance(value, str):
        return value
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return value
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return moment.astimezone(UTC).isoformat(timespec="milliseconds")


def _plain_numbers(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain_numbers(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain_numbers(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _aligned(wanted: list[str], found: list[str]) -> Iterable[str]:
    for kind, a, b, c, d in SequenceMatcher(None, wanted, found, autojunk=False).get_opcodes():
        if kind == "equal":
            yield from (f"  {line}" for line in wanted[a:b])
        else:
            for missing, extra in zip_longest(wanted[a:b], found[c:d]):
                yield from () if missing is None else (f"- {missing}",)
                yield from () if extra is None else (f"+ {extra}",)
