# SPDX-License-Identifier: Apache-2.0
"""The current time over rows of tables: refused where a row's old value must come out again."""

from __future__ import annotations

from collections.abc import Callable

import pytest

Problems = Callable[[str], list[str]]

TABLE = "- {name: t, table: {topic: t, value: {format: json, schema: 'a INT, seen TIMESTAMP'}}}\n"
OTHER = "- {name: u, table: {topic: u, value: {format: json, schema: 'b INT'}}}\n"
NEW = "- {name: new, from: t, filter: seen > current_timestamp() - interval 1 day}\n"
OUT = "- {name: out, to: {topic: o}}\n"
WHY = "a row's old value is computed again when the row changes, and must be the same again"


@pytest.mark.parametrize(
    "behind",
    [
        "- {name: counts, groupBy: [a], aggregate: {count: count(*)}}\n",
        "- {name: more, with: {b: a + 1}}\n- {name: both, join: {with: u, type: outer}}\n",
        "- {name: named, from: new, join: {with: u, by: [a]}}\n",
    ],
    ids=["grouped", "joined", "foreign key"],
)
def test_changes_that_are_kept_do_not_go_by_the_clock(problems: Problems, behind: str) -> None:
    (said,) = [one for one in problems(TABLE + OTHER + NEW + behind + OUT) if "clock" in one or "epoch" in one]
    assert said.startswith(f"node 'new': `filter`: `current_timestamp` is the time of the epoch: {WHY}")


def test_groups_of_a_table_do_not_go_by_it(problems: Problems) -> None:
    said = problems(TABLE + "- {name: ages, groupBy: [{old: 'seen < now()'}], aggregate: {count: count(*)}}\n" + OUT)
    assert [one.split(":")[:2] for one in said] == [["node 'ages'", " `groupBy.old`"]]


@pytest.mark.parametrize(
    "behind",
    [
        "",
        "- {name: changes, toStream: {}}\n- {name: counts, groupBy: [a], aggregate: {count: count(*)}}\n",
        "- {name: s, stream: {topic: s, value: text}}\n- {name: met, join: {with: new, select: {a: new.a}}}\n",
    ],
    ids=["written", "a stream again", "looked up"],
)
def test_elsewhere_they_may(problems: Problems, behind: str) -> None:
    assert problems(TABLE + NEW + behind + OUT) == []
