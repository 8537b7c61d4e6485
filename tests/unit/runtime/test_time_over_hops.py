# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E501 (manifests are whole lines)
"""The internal topics that carry stream time, the writer whose time it is, and the lag of their records behind it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from streamapp.nodes import RepartitionSink, RepartitionSource
from streamapp.plan import Plan

Compile = Callable[..., Plan]

IN = "- {name: in, stream: {topic: t, value: {format: json, schema: 'user STRING, amount DOUBLE'}}}\n"
PAIR = (
    IN
    + "- {name: l, from: in, keyBy: [user]}\n- {name: other, stream: {topic: u, value: {format: json, schema: 'user STRING, paid DOUBLE'}}}\n- {name: r, from: other, keyBy: [user]}\n"
)
DRAWN = "- {name: drawn, with: {d: rand()}}\n"
OUT = "- {name: out, to: {topic: o}}\n"
MINUTE = 60_000
COUNTED = "aggregate: {'n': count(*)}"
WINDOW = f"- {{name: last, groupBy: [{{user: user}}], window: {{tumbling: 1 hour}}, {COUNTED}}}\n" + OUT


def hops(plan: Plan) -> dict[str, tuple[str, int]]:
    """The writer and the writer's lag of each internal topic that carries time. Both ends agree."""
    nodes = [node for part in plan.subtopologies for node in part.nodes]
    read = {node.topic: node for node in nodes if isinstance(node, RepartitionSource)}
    for node in nodes:
        if isinstance(node, RepartitionSink):
            assert node.carries_time == bool(read[node.topic].written_by)
    return {
        topic.removeprefix("app-").removesuffix("-repartition"): (node.written_by, node.writers_lag_ms)
        for topic, node in read.items()
        if node.written_by
    }


def test_a_part_without_state_has_the_time_of_its_sources(plan: Compile) -> None:
    made = plan(IN + DRAWN + WINDOW)
    assert hops(made) == {"last": ("in", 0)}
    assert [part.timed for part in made.subtopologies] == [True, True]


def test_where_nobody_goes_by_time_none_is_carried(plan: Compile) -> None:
    made = plan(IN + DRAWN + f"- {{name: all, groupBy: [user], {COUNTED}}}\n" + OUT)
    assert hops(made) == {}
    assert [part.timed for part in made.subtopologies] == [False, False]


def test_time_goes_through_a_part_that_does_not_go_by_it(plan: Compile) -> None:
    between = f"- {{name: sums, groupBy: [user], {COUNTED}}}\n- {{name: changes, toStream: {{}}}}\n"
    made = plan(IN + DRAWN + between + WINDOW)
    assert hops(made) == {"sums": ("in", 0), "last": ("sums", 0)}


@pytest.mark.parametrize(
    ("node", "lag_ms"),
    [
        (f"groupBy: [user], window: {{tumbling: 1 minute}}, grace: 10s, {COUNTED}", MINUTE + 10_000),
        (f"groupBy: [user], window: {{hopping: 2 minutes, every: 1 minute}}, emit: final, {COUNTED}", 2 * MINUTE),
        (f"groupBy: [user], window: {{session: 30s}}, grace: 5s, {COUNTED}", 35_000),
        (f"groupBy: [user], window: {{sliding: 30s}}, grace: 5s, {COUNTED}", 35_000),
    ],
)
def test_windows_keep_what_makes_their_results(plan: Compile, node: str, lag_ms: int) -> None:
    made = plan(IN + f"- {{name: first, {node}}}\n- {{name: results, toStream: {{}}}}\n" + WINDOW)
    assert hops(made) == {"last": ("first", lag_ms)}


@pytest.mark.parametrize(
    ("join", "lag_ms"),
    [("within: 5s, grace: 1s", 6_000), ("before: 1 minute, after: 2s", MINUTE), ("after: 2s, type: left", 2_000)],
)
def test_a_join_keeps_a_side_for_as_long_as_the_other_may_come(plan: Compile, join: str, lag_ms: int) -> None:
    pairs = f"- {{name: pairs, from: l, join: {{with: r, {join}, select: {{whose: left.user}}}}}}\n"
    made = plan(PAIR + pairs + WINDOW.replace("user: user", "user: whose"))
    assert hops(made) == {"last": ("pairs", lag_ms)}


def test_what_is_held_back_lags(plan: Compile) -> None:
    held = (
        "- {name: prices, table: {topic: p, value: {format: json, schema: 'user STRING, price DOUBLE'}, history: 1 hour}}\n"
        "- {name: priced, from: in, join: {with: prices, asOf: true, grace: 20s, select: {user: left.user}}}\n"
    )
    assert hops(plan(IN + held + WINDOW)) == {"last": ("prices", 20_000)}
    late = "- {name: seldom, suppress: {untilTimeLimit: 10s}}\n- {name: told, toStream: {}}\n"
    counted = f"- {{name: counts, groupBy: [user], {COUNTED}}}\n"
    assert hops(plan(IN + counted + late + WINDOW))["last"][1] == 10_000


def test_many_ways_to_a_topic_are_looked_at_once(plan: Compile) -> None:
    """Each fork doubles the number of ways: a search that goes each way, in a manifest within its limits, would never
    end."""
    forks = "".join(
        f"- {{name: low-{i}, from: all-{i}, filter: amount < {i}}}\n"
        f"- {{name: high-{i}, from: all-{i}, filter: amount >= {i}}}\n"
        f"- {{name: all-{i + 1}, merge: [low-{i}, high-{i}]}}\n"
        for i in range(60)
    )
    made = plan(IN + DRAWN.replace("drawn", "all-0") + forks + WINDOW)
    assert hops(made) == {"last": ("in", 0)}
