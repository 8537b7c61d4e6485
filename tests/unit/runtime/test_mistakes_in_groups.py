# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E501 (manifests and messages are whole lines)
"""Mistakes in groups whose records are taken in their order, and in `deduplicate`."""

from __future__ import annotations

from collections.abc import Callable

import pytest

Problems = Callable[[str], list[str]]

LINES = "- {name: lines, stream: {topic: t, value: {format: json, schema: 'user STRING, amount DOUBLE'}}}\n"


@pytest.mark.parametrize(
    "node",
    [
        "groupBy: [user], aggregate: {a: first(amount), b: last(amount), c: collect_list(amount), d: 'max_by(user, amount)'}",
        "groupBy: [user], aggregate: {a: 'listagg(user)', b: first(amount) filter (where amount > 1)}",
        "groupBy: [user], window: {tumbling: 1h}, aggregate: {a: array_sort(collect_list(amount))}",
        "groupBy: [user], reduce: {amount: acc.amount + amount}",
        "groupBy: [user], window: {tumbling: 1h}, aggregate: {a: first(amount)}",
        "groupBy: [user], window: {hopping: 1h, every: 1m}, emit: final, reduce: {amount: 'acc.amount + amount + partition'}",
        "groupBy: [user], window: {session: 1h}, grace: 1m, late: {topic: l}, reduce: {amount: 'greatest(acc.amount, amount)'}",
        "groupBy: [{day: date(timestamp)}], reduce: {user: 'coalesce(acc.user, user)', amount: acc.amount}",
        "groupBy: [user], ttl: 1 day, aggregate: {a: count(*)}",
        "deduplicate: {by: [user, amount], within: 1 hour}",
        "deduplicate: {by: [key], within: 1ms}",
    ],
)
def test_these_are_fine(problems: Problems, node: str) -> None:
    assert problems(LINES + f"- {{name: x, {node}}}\n") == []


@pytest.mark.parametrize(
    ("node", "told"),
    [
        ("groupBy: [user], aggregate: {a: mode(amount)}", "follows from how its state lies in memory"),
        (
            "groupBy: [user], aggregate: {a: count(*)}, reduce: {amount: amount}",
            "`aggregate` and `reduce` are both there",
        ),
        (
            "groupBy: [user], window: {session: 1h}, reduce: {amount: acc.amount + partition}",
            "`partition` is no column of this `reduce`, which also makes one of two session windows",
        ),
        (
            "groupBy: [key], window: {sliding: 1h}, reduce: {amount: 'if(user = acc.amount, 1, amount)'}",
            "add `user`, or compute what it takes of it before",
        ),
        ("filter: amount > 1, reduce: {amount: amount}", "`reduce` is only for `groupBy`"),
        ("groupBy: [user], reduce: {total: acc.total + amount}", "`total` is no column of 'lines', and a group begins"),
        ("groupBy: [user], reduce: {amuont: amount}", "did you mean `amount`?"),
        ("groupBy: [user], reduce: {amount: acc.user}", "`acc.user` is no value so far"),
        ("groupBy: [user], reduce: {amount: acc}", "`acc` is no value so far: only columns of this `reduce` have one"),
        ("groupBy: [user], reduce: {user: user}", "column `user` is already one of groupBy"),
        ("groupBy: [user], reduce: {amount: sum(amount)}", "`reduce.amount`"),
        ("groupBy: [user], reduce: {amount: acc.amount + rand()}", "state could not be rebuilt"),
        ("groupBy: [user], ttl: 1h, window: {session: 1h}, aggregate: {a: count(*)}", "`ttl` is there with a `window`"),
        ("groupBy: [user], ttl: 0s, aggregate: {a: count(*)}", "`ttl`"),
        ("toTable: {ttl: never}", "`toTable.ttl`"),
        ("suppress: {untilTimeLimit: 5s}", "`suppress`: 'lines' is a stream, whose records do not replace each other"),
        ("suppress: {}", "`suppress.untilTimeLimit`"),
        ("suppress: {untilTimeLimit: 0s}", "`suppress.untilTimeLimit`"),
        ("deduplicate: {by: [usr], within: 1h}", "unknown column `usr`; did you mean `user`?"),
        ("deduplicate: {by: [upper(user)], within: 1h}", "is not a column's name"),
        ("deduplicate: {by: [user, USER], within: 1h}", "column `USER` is there twice"),
        ("deduplicate: {by: [], within: 1h}", "deduplicate.by"),
        ("deduplicate: {by: [user]}", "deduplicate.within"),
        ("deduplicate: {by: [user], within: 0s}", "deduplicate.within"),
    ],
)
def test_each_mistake_is_told_once(problems: Problems, node: str, told: str) -> None:
    found = problems(LINES + f"- {{name: x, {node}}}\n")
    assert len(found) == 1, found
    assert told in found[0]


ORDERS = "- {name: orders, stream: {topic: o, value: {format: json, schema: 'user STRING, cents BIGINT'}}}\n"


def cogroup(*parts: str, by: str = "[user]", more: str = "") -> str:
    return f"{LINES}{ORDERS}- {{name: x, groupBy: {by}, cogroup: [{', '.join(parts)}]{more}}}\n"


CLICKED = "{from: lines, aggregate: {clicks: count(*)}}"


@pytest.mark.parametrize(
    "nodes",
    [
        cogroup(CLICKED, "{from: orders, aggregate: {cents: sum(cents), last: last(cents)}}"),
        cogroup(CLICKED, "{from: orders, aggregate: {orders: count(*)}}", by="[{day: date(timestamp)}, user]"),
        cogroup(CLICKED, "{from: orders, aggregate: {o: count(*)}}", more=", window: {sliding: 1m}, emit: final"),
        cogroup(CLICKED, "{from: orders, aggregate: {o: first(cents)}}", more=", window: {tumbling: 1m}"),
    ],
)
def test_these_cogroups_are_fine(problems: Problems, nodes: str) -> None:
    assert problems(nodes) == []


@pytest.mark.parametrize(
    ("nodes", "told"),
    [
        (cogroup(CLICKED), "`cogroup`: has 1 entries; at least 2"),
        (
            cogroup(CLICKED, "{from: lines, aggregate: {other: count(*)}}"),
            "`cogroup.1.from`: 'lines' is there twice; write",
        ),
        (
            cogroup(CLICKED, "{from: order, aggregate: {o: count(*)}}"),
            "`cogroup.1.from`: there is no node 'order'; did you",
        ),
        (
            cogroup(CLICKED, "{from: orders, aggregate: {CLICKS: count(*)}}"),
            "column `CLICKS` is already one of 'lines'",
        ),
        (
            cogroup(CLICKED, "{from: orders, aggregate: {o: sum(amount)}}"),
            "`cogroup.1.aggregate.o`: unknown column `amount`",
        ),
        (cogroup(CLICKED, "{from: orders, aggregate: {o: cents + 1}}"), "`cogroup.1.aggregate.o`: is no aggregate"),
        (cogroup(CLICKED, "{from: orders, aggregate: {user: count(*)}}"), "column `user` is already one of groupBy"),
        (
            cogroup(CLICKED, "{from: orders, aggregate: {o: count(*)}}", by="[amount]"),
            "`groupBy`: unknown column `amount` in 'orders'",
        ),
        (
            cogroup(CLICKED, "{from: orders, aggregate: {o: count(*)}}", by="[nobody]"),
            "`groupBy`: unknown column `nobody`; there are: key, user, amount",
        ),
        (
            cogroup(CLICKED, "{from: t, aggregate: {o: count(*)}}") + "- {name: t, from: orders, toTable: {}}\n",
            "`cogroup.1.from`: 't' is a table, and cogroup takes streams",
        ),
        (LINES + "- {name: x, filter: amount > 1, cogroup: [" + CLICKED + "]}\n", "`cogroup` is only for `groupBy`"),
    ],
)
def test_each_mistake_of_a_cogroup_is_told_once(problems: Problems, nodes: str, told: str) -> None:
    found = problems(nodes)
    assert len(found) == 1, found
    assert told in found[0]


def test_what_is_of_records_is_refused_over_a_table(problems: Problems) -> None:
    table = LINES + "- {name: table, groupBy: [user], aggregate: {'n': count(*)}}\n"
    (found,) = problems(table + "- {name: x, groupBy: ['n'], ttl: 1h, aggregate: {a: count(*)}}\n")
    assert "a group of the table 'table' has no records whose age counts, but rows; give the table" in found
    (found,) = problems(table + "- {name: x, deduplicate: {by: [user], within: 1h}}\n")
    assert "deduplicate of a table is not available yet" in found


def test_what_has_been_folded_is_not_hidden_by_a_column(problems: Problems) -> None:
    lines = LINES.replace("amount DOUBLE", "acc DOUBLE")
    (found,) = problems(lines + "- {name: x, groupBy: [user], reduce: {acc: acc.acc}}\n")
    assert "has a column `acc`" in found
