# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E501 (manifests and messages are whole lines)
"""What can be wrong with groups whose records are taken in their order, and with `deduplicate`."""

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
        "groupBy: [{day: date(timestamp)}], reduce: {user: 'coalesce(acc.user, user)', amount: acc.amount}",
        "deduplicate: {by: [user, amount], within: 1 hour}",
        "deduplicate: {by: [key], within: 1ms}",
    ],
)
def test_these_are_fine(problems: Problems, node: str) -> None:
    assert problems(LINES + f"- {{name: x, {node}}}\n") == []


@pytest.mark.parametrize(
    ("node", "told"),
    [
        (
            "groupBy: [user], window: {tumbling: 1h}, aggregate: {a: first(amount)}",
            "`aggregate.a`: `first` depends on the order of the records, which those of a window do not keep "
            '(in "first(amount)"); use e.g. min or max',
        ),
        ("groupBy: [user], aggregate: {a: mode(amount)}", "follows from how its state lies in memory"),
        (
            "groupBy: [user], aggregate: {a: count(*)}, reduce: {amount: amount}",
            "`aggregate` and `reduce` are both there",
        ),
        (
            "groupBy: [user], window: {session: 1h}, reduce: {amount: amount}",
            "`reduce` of a `window` is not available yet",
        ),
        ("filter: amount > 1, reduce: {amount: amount}", "`reduce` is only for `groupBy`"),
        ("groupBy: [user], reduce: {total: acc.total + amount}", "`total` is no column of 'lines', and a group begins"),
        ("groupBy: [user], reduce: {amuont: amount}", "did you mean `amount`?"),
        ("groupBy: [user], reduce: {amount: acc.user}", "`acc.user` is no value so far"),
        ("groupBy: [user], reduce: {amount: acc}", "`acc` is no value so far: only columns of this `reduce` have one"),
        ("groupBy: [user], reduce: {user: user}", "column `user` is already one of groupBy"),
        ("groupBy: [user], reduce: {amount: sum(amount)}", "`reduce.amount`"),
        ("groupBy: [user], reduce: {amount: acc.amount + rand()}", "state could not be rebuilt"),
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


def test_a_table_has_no_order_of_records(problems: Problems) -> None:
    table = LINES + "- {name: table, groupBy: [user], aggregate: {'n': count(*)}}\n"
    for node in ("groupBy: ['n'], aggregate: {a: first(user)}", "groupBy: ['n'], reduce: {user: user}"):
        (found,) = problems(table + f"- {{name: x, {node}}}\n")
        assert "cannot be taken back when a row of the table 'table' changes" in found
    (found,) = problems(table + "- {name: x, deduplicate: {by: [user], within: 1h}}\n")
    assert "deduplicate of a table is not available yet" in found


def test_what_has_been_folded_is_not_hidden_by_a_column(problems: Problems) -> None:
    lines = LINES.replace("amount DOUBLE", "acc DOUBLE")
    (found,) = problems(lines + "- {name: x, groupBy: [user], reduce: {acc: acc.acc}}\n")
    assert "has a column `acc`" in found
