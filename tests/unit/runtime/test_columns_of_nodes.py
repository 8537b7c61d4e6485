# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E501 (manifests and messages are whole lines)
"""The columns of each node's output: the key, the value, and what is left of the record."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from streamapp.manifest import parse_manifest
from streamapp.nodes import STREAM, TABLE, Columns, Topology

SOURCE = "- {name: in, stream: {topic: t, value: {format: json, schema: 'user STRING, amount DOUBLE'}}}\n"
RECORD = ("timestamp", "topic", "partition", "offset", "headers")


@pytest.fixture
def topology(text: Callable[..., str]) -> Callable[[str], Topology]:
    return lambda nodes: parse_manifest(text(SOURCE + nodes + "\n- {name: out, to: {topic: o}}")).topology


@pytest.mark.parametrize(
    ("node", "columns"),
    [
        ("filter: amount > 1", Columns(("key",), ("user", "amount"), RECORD)),
        ("select: {b: user, a: amount}", Columns(("key",), ("a", "b"), RECORD)),
        ("with: {'n': 1 + 1, amount: amount * 2}", Columns(("key",), ("user", "amount", "n"), RECORD)),
        ("flatMap: {letter: \"split(user, '')\"}", Columns(("key",), ("user", "amount", "letter"), RECORD)),
        ("select: {timestamp: user}", Columns(("key",), ("timestamp",), RECORD[1:])),
        ("select: {key: user}", Columns(("__key",), ("key",), RECORD)),
        ("keyBy: [user]", Columns(("user",), ("amount",), RECORD)),
        (
            "keyBy: [amount, topic]",
            Columns(("amount", "topic"), ("user",), ("timestamp", "partition", "offset", "headers")),
        ),
        ("keyBy: [key]", Columns(("key",), ("user", "amount"), RECORD)),
        ("groupBy: [user], aggregate: {'n': count(*)}", Columns(("user",), ("n",), ("timestamp",))),
        (
            "groupBy: [{u: upper(user)}, key], aggregate: {b: min(amount), a: max(amount)}",
            Columns(("u", "key"), ("a", "b"), ("timestamp",)),
        ),
        (
            "groupBy: [user], aggregate: {'n': count(*)}, window: {tumbling: 5s}",
            Columns(("user", "window_start", "window_end"), ("n",), ("timestamp",)),
        ),
        ("groupBy: [user], aggregate: {timestamp: max(timestamp)}", Columns(("user",), ("timestamp",), ())),
    ],
)
def test_columns(topology: Callable[[str], Topology], node: str, columns: Columns) -> None:
    assert topology(f"- {{name: x, {node}}}").columns("x") == columns


def test_the_key_stays_when_the_value_is_replaced(topology: Callable[[str], Topology]) -> None:
    found = topology("- {name: k, keyBy: [user]}\n- {name: x, select: {'n': amount, user: user}}")
    assert found.columns("x") == Columns(("user",), ("n",), RECORD)
    assert found.key_columns("x") == ("user",)


def test_a_new_key_gives_the_old_one_back_to_the_value(topology: Callable[[str], Topology]) -> None:
    found = topology("- {name: k, keyBy: [user]}\n- {name: x, keyBy: [amount]}")
    assert found.columns("x") == Columns(("amount",), ("user",), RECORD)


def test_names_are_compared_without_regard_to_case(topology: Callable[[str], Topology]) -> None:
    assert topology("- {name: x, with: {AMOUNT: 2 * amount}}").columns("x").value == ("user", "AMOUNT")
    assert topology("- {name: x, filter: USER = 'a' and Timestamp is not null}").columns("x").find("uSeR") == "user"


JOIN = """
- {name: other, stream: {topic: u, value: {format: json, schema: 'id STRING, paid DOUBLE'}}}
- {name: left, from: in, keyBy: [user]}
- {name: right, from: other, keyBy: [id]}
"""


@pytest.mark.parametrize(
    ("join", "columns"),
    [
        ("within: 5s", Columns(("user",), ("amount", "id", "paid"), ("timestamp",))),
        ("within: 5s, by: [user], select: {p: right.paid}", Columns(("user",), ("p",), ("timestamp",))),
        ("within: 5s, select: {timestamp: right.timestamp}", Columns(("user",), ("timestamp",), ())),
    ],
)
def test_columns_of_joins(topology: Callable[[str], Topology], join: str, columns: Columns) -> None:
    found = topology(JOIN + f"- {{name: x, from: left, join: {{with: right, {join}}}}}")
    assert found.columns("x") == columns
    assert found.kind("x") == STREAM


def test_kinds(topology: Callable[[str], Topology]) -> None:
    found = topology("- {name: t, groupBy: [user], aggregate: {'n': count(*)}}\n- {name: x, filter: n > 1}")
    assert [found.kind(name) for name in ("in", "t", "x", "out")] == [STREAM, TABLE, TABLE, TABLE]


def test_merged_streams_keep_what_all_of_them_have(topology: Callable[[str], Topology]) -> None:
    found = topology(
        "- {name: a, from: in, with: {'n': 'int(1)'}}\n- {name: b, from: in, select: {user: user, amount: amount, 'n': 'int(2)'}}\n"
        "- {name: c, from: b, filter: amount > 1}\n- {name: x, merge: [a, c]}"
    )
    assert found.columns("x") == Columns(("key",), ("user", "amount", "n"), RECORD)
