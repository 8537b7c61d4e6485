# SPDX-License-Identifier: Apache-2.0
"""An operation is defined in its class alone: one that no other file knows passes through all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import pytest

from streamapp import nodes as n
from streamapp import operations as o
from streamapp.check.names import check_names
from streamapp.compile.context import Context
from streamapp.compile.repartition import cut_by_internal_topics
from streamapp.compile.split import split
from streamapp.compile.unused import drop_unused
from streamapp.compile.verify import verify_cut
from streamapp.describe import words
from streamapp.formats import Format
from streamapp.nodes.node import OneInput
from streamapp.operations import Filter
from streamapp.plan import OnBadRecord
from streamapp.plan.codec import NODE_CLASSES

CLASSES = set(NODE_CLASSES.values())
CONTEXT = Context("app", 4, OnBadRecord("Fail"))
LINES = o.Stream("lines", ("text",), None, Format("text"), Format("text"), None)


@dataclass(frozen=True)
class Tag(OneInput):
    """An operation of this test's: adds the column `tag`, on a table as on a stream."""

    text: str
    operation: ClassVar[str] = "tag"

    def expressions(self) -> tuple[n.NodeExpression, ...]:
        return (n.NodeExpression(n.Role.COLUMN, "tag", self.text),)

    def output_columns(self, inputs: Sequence[n.Columns]) -> n.Columns:
        return inputs[0].with_added(("tag",))

    def description(self, inputs: Sequence[n.Columns]) -> str:
        return f"{inputs[0].value[0]} with {self.text}"


@dataclass(frozen=True)
class Gather(n.Node):
    """An operation of this test's: three streams of one key, two stores, of which one can be asked."""

    of: tuple[str, ...]
    operation: ClassVar[str] = "gather"
    keyed: ClassVar[bool] = True

    @property
    def inputs(self) -> tuple[str, ...]:
        return self.of

    def with_inputs(self, renamed: Mapping[str, str]) -> Self:
        return replace(self, of=tuple(renamed.get(name, name) for name in self.of))

    @property
    def stores(self) -> tuple[str, ...]:
        return (f"{self.name}-rows", f"{self.name}-times")

    def stored_table(self, store: str, inputs: Sequence[n.Columns] = ()) -> n.StoredTable | None:
        return n.StoredTable(("key",), ("value",), False) if store.endswith("-rows") else None

    @property
    def subtopology(self) -> str:
        return self.name


def counts(of: str) -> o.Aggregate:
    return o.Aggregate("counts", of, (("tag", "tag"),), (("n", "count(*)"),), None, 0, "updates", "counts")


def test_a_new_operation_has_columns_a_kind_and_words() -> None:
    tag = Tag("tagged", "lines", "upper(value)")
    topology = n.Topology((LINES, tag, counts("tagged")))
    assert topology.columns("tagged").value == ("value", "tag")
    assert (topology.kind("tagged"), topology.kind("counts")) == (n.STREAM, n.TABLE)
    assert (tag.operation, words.details(tag, topology)) == ("tag", "value with upper(value)")
    assert [problem for node in topology.nodes for problem in node.check(topology)] == []


@pytest.mark.parametrize(("text", "cut"), [("upper(value)", False), ("rand()", True)])
def test_what_a_new_operation_computes_decides_the_cut(text: str, cut: bool) -> None:
    topology = n.Topology((LINES, Tag("tagged", "lines", text), counts("tagged")))
    made = cut_by_internal_topics(topology, CONTEXT)
    (reader,) = made.node("counts").inputs
    assert reader == ("counts-repartition-source" if cut else "tagged")


def test_a_name_of_a_column_is_no_expression() -> None:
    """A column may be called as a function that is not deterministic."""
    now = o.With("now", "lines", (("current_date", "1"), ("tag", "value")))
    key = o.KeyBy("keyed", "now", ("current_date",))
    made = cut_by_internal_topics(n.Topology((LINES, now, key, counts("keyed"))), CONTEXT)
    assert made.node("counts").inputs == ("keyed",)


def test_a_node_has_any_number_of_inputs_and_of_stores() -> None:
    twice = Tag("twice", "counts", "n")
    topology = n.Topology(
        (LINES, Tag("tagged", "lines", "value"), counts("tagged"), twice, Gather("all", ("lines", "tagged", "twice")))
    )
    assert list(check_names(topology, "app")) == []
    cut = verify_cut(cut_by_internal_topics(drop_unused(topology, CONTEXT), CONTEXT), CONTEXT)
    assert cut.node("all").inputs == ("lines", "tagged", "all-twice-repartition-source")
    assert {part.name: (part.stateful, part.stores) for part in split(cut)} == {
        "counts": (("counts",), ("counts",)),
        "all": (("all",), ("all-rows", "all-times")),
    }
    clash = n.Topology((LINES, Gather("a", ("lines",)), replace(counts("lines"), store="a-times")))
    assert [problem.value for problem in check_names(clash, "app")] == ["a-times"]


def test_what_can_be_asked_is_said_by_the_node() -> None:
    window = o.Window("tumbling", 1000, 1000)
    assert counts("lines").stored_table("counts") == n.StoredTable(("tag",), ("n",), False)
    windowed = replace(counts("lines"), window=window).stored_table("counts")
    assert windowed == n.StoredTable(("tag",), ("n",), True)
    assert o.Join("j", "a", "b", (), "inner", 1, 1, 0, None, "j").stored_table("j") is None


def test_each_operation_is_called_by_a_name_of_its_own() -> None:
    names = [cls.operation for cls in CLASSES]
    assert len(CLASSES) == 32
    assert len(set(names)) == len(names), sorted(names)


def test_every_expression_stands_in_a_field_of_its_operation() -> None:
    pairs = (("a", "x"), ("b", "y"))
    field = {
        "stream.timestamp": o.Stream("s", ("t",), None, Format("text"), Format("text"), "x"),
        "filter": Filter("f", "s", "x"),
        "select.a select.b": o.Select("c", "s", pairs),
        "with.a with.b": o.With("c", "s", pairs),
        "flatMap.a": o.FlatMap("m", "s", "a", "x"),
        "keyBy keyBy": o.KeyBy("k", "s", ("a", "b")),
        "when when": o.Arm("a", "b", "x", ("y",)),
        "groupBy.a groupBy.b aggregate.a aggregate.b": o.Aggregate("g", "s", pairs, pairs, None, 0, "updates", "g"),
        "join.by join.select.a join.select.b": o.Join("j", "s", "r", ("a",), "inner", 1, 1, 0, pairs, "j"),
        "": o.Python("p", "s", "m:f", "row", "a INT"),
    }
    assert [" ".join(used.field for used in node.expressions()) for node in field.values()] == list(field)


def test_an_input_has_another_name() -> None:
    renamed = {"a": "x"}
    join = o.Join("j", "a", "b", (), "inner", 1, 1, 0, None, "j").with_inputs(renamed)
    assert (join.inputs, join.aliases) == (("x", "b"), ("a", "b"))
    assert o.Merge("m", ("a", "b")).with_inputs(renamed).inputs == ("x", "b")
    assert Filter("f", "a", "x > 1").with_inputs(renamed) == Filter("f", "x", "x > 1")
    unmoved = o.Join("j", "b", "c", (), "inner", 1, 1, 0, None, "j")
    assert unmoved.with_inputs(renamed) is unmoved
