# SPDX-License-Identifier: Apache-2.0
"""Which source of the version before gives its position to a source of the next one."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from streamapp.formats import Format
from streamapp.inputs import Input, Numbering, numbered
from streamapp.operations import Stream
from streamapp.plan import Plan
from streamapp.spark.predecessors import inputs_from_json, inputs_to_json, inputs_to_note, numberings_of, read_known

Compile = Callable[[str], Plan]
TEXT = Format("text", None)


def stream(name: str, *topics: str, pattern: str | None = None) -> Stream:
    return Stream(name, topics, pattern, TEXT, TEXT, None)


def found(before: list[Stream], now: list[Stream]) -> Numbering:
    return numbered(now, dict(enumerate(map(Input.of, before))))


A, B = stream("a", "s"), stream("b", "t")


@pytest.mark.parametrize(
    ("now", "numbers", "new", "gone"),
    [
        ([A, B], {"a": 0, "b": 1}, set(), set()),
        ([B, A], {"a": 0, "b": 1}, set(), set()),
        ([stream("x", "s"), B], {"x": 0, "b": 1}, set(), set()),
        ([stream("b", "s"), stream("a", "t")], {"b": 0, "a": 1}, set(), set()),
        ([A, stream("b", "t", "u")], {"a": 0, "b": 1}, set(), set()),
        ([A, stream("b", pattern="t|u")], {"a": 0, "b": 1}, set(), {"t"}),
        ([A, stream("b", "u")], {"a": 0, "b": 2}, {"b"}, {"t"}),
        ([A], {"a": 0}, set(), {"t"}),
        ([stream("c", "u"), A, B, stream("d", "v")], {"c": 2, "a": 0, "b": 1, "d": 3}, {"c", "d"}, set()),
    ],
    ids=["same", "order", "name", "names-swapped", "topics", "pattern", "another-topic", "fewer", "more"],
)
def test_a_source_keeps_its_number(now: list[Stream], numbers: dict[str, int], new: set[str], gone: set[str]) -> None:
    numbering = found([A, B], now)
    assert numbering.numbers == numbers
    assert numbering.new == new
    assert {topic for each in numbering.gone.values() for topic in each.topics} == gone
    assert numbering.back == {}


def test_of_two_that_read_the_same_the_name_decides() -> None:
    twice = [stream("first", "s"), stream("second", "s")]
    assert found(twice, twice[::-1]).numbers == {"first": 0, "second": 1}
    assert found(twice, [stream("third", "s"), twice[0]]).numbers == {"first": 0, "third": 1}


def test_a_topic_that_is_left_out_has_ended() -> None:
    numbering = found([stream("a", "s", "t", "u")], [stream("a", "u"), B])
    assert numbering.numbers == {"a": 0, "b": 1}
    assert numbering.gone == {2: Input("a", frozenset({"s", "t"}))}


@pytest.mark.parametrize("by_topic", [False, True])
def test_what_has_ended_does_not_come_back(by_topic: bool) -> None:
    before = {0: Input("a", frozenset({"s"})), 1: Input("b", frozenset({"t"}), until=7)}
    assert numbered([A], before, by_topic=by_topic).back == {}
    for now in ([A, B], [stream("b", "s", "t")] if by_topic else [stream("b", "t")]):
        assert numbered(now, before, by_topic=by_topic).back == {"b": before[1]}
    another = numbered([A, stream("c", "t")], before, by_topic=by_topic)
    assert set(another.back) == ({"c"} if by_topic else set())
    assert another.numbers == {"a": 0, "c": 2}
    more = numbered([stream("a", "s", "t")], before, by_topic=by_topic)
    assert (more.numbers, set(more.back)) == ({"a": 0}, {"a"} if by_topic else set())


@pytest.mark.parametrize("by_topic", [False, True])
def test_what_has_ended_with_a_position_goes_on_there(by_topic: bool) -> None:
    at = '{"t":{"0":5}}'
    before = {0: Input("a", frozenset({"s"})), 1: Input("b", frozenset({"t"}), until=7, position=at)}
    again = numbered([A, B], before, by_topic=by_topic)
    assert (again.numbers, again.positions, again.new, again.back) == ({"a": 0, "b": 1}, {"b": at}, frozenset(), {})
    renamed = numbered([A, stream("c", "t")], before, by_topic=by_topic)
    assert renamed.positions == ({"c": at} if by_topic else {})
    assert renamed.numbers == {"a": 0, "c": 1 if by_topic else 2}
    more = numbered([A, stream("b", "t", "u")], before, by_topic=by_topic)
    assert (more.numbers, set(more.back), more.positions) == ({"a": 0, "b": 2}, {"b"}, {})
    # It has come back, and the app died before it was read.
    noted = {**before, 1: Input("b", frozenset({"t"}), position=at)}
    assert numbered([A, B], noted, by_topic=by_topic) == again
    assert set(numbered([A], noted, by_topic=by_topic).gone) == {1}


def test_a_pattern_does_not_come_back_either() -> None:
    before = {0: Input("a", frozenset({"s"})), 1: Input("p", frozenset(), "x.*", until=7)}
    assert set(numbered([A, stream("p", pattern="x.*")], before).back) == {"p"}
    at = {**before, 1: Input("p", frozenset(), "x.*", until=7, position="{}")}
    assert numbered([A, stream("p", pattern="x.*")], at).numbers == {"a": 0, "p": 1}
    assert set(numbered([A, stream("p", pattern="y.*")], before).back) == set()


def test_they_are_on_record() -> None:
    inputs = {
        0: Input("a", frozenset({"s"})),
        3: Input("p", frozenset(), "x.*", until=7),
        5: Input("back", frozenset({"t"}), position='{"t":{"0":9}}'),
    }
    assert inputs_from_json(inputs_to_json(inputs)) == inputs
    position = 'v2\n{}\n0:{"s":{"0":5}}\n4:-'
    text = inputs_to_json(inputs | {4: Input("new", frozenset({"n"}))})
    notes = {"sources": text}
    files = {"stateful": True, "offsets": position, "planned": 8, "committed": 8, "notes": notes}
    known = read_known(json.dumps({"part": files}))["part"]
    assert known.topics == {"s"}
    assert known.inputs == inputs  # the new one has read nothing yet
    assert set(known.noted) == {0, 3, 4, 5}
    assert known.positions == {0: '{"s":{"0":5}}'}
    files["offsets"] = position + '\n3:{"x1":{"0":1}}'
    assert read_known(json.dumps({"part": files}))["part"].inputs[3] == Input("p", frozenset(), "x.*")


@pytest.mark.parametrize("committed", [8, 7])
def test_a_position_is_kept_where_all_before_it_has_been_processed(plan: Compile, committed: int) -> None:
    topology = "- {name: a, stream: {topic: s, value: text}}\n- {name: out, to: {topic: o, value: text}}\n"
    made = plan(topology)
    inputs = {0: Input("a", frozenset({"s"})), 1: Input("b", frozenset({"t"}))}
    text = inputs_to_json(inputs)
    files = {"stateful": False, "offsets": 'v2\n{}\n0:{"s":{"0":5}}\n1:{"t":{"0":6}}', "planned": 8}
    known = read_known(json.dumps({"a": {**files, "committed": committed, "notes": {"sources": text}}}))
    ((name, noted),) = inputs_to_note(made, known, numberings_of(made, known))
    position = '{"t":{"0":6}}' if committed == 8 else None
    assert (name, noted) == ("a", {0: inputs[0], 1: Input("b", frozenset({"t"}), None, 8, position)})
