# SPDX-License-Identifier: Apache-2.0
"""The entries of a task, which are the rows that come to it by a shuffle: all in one frame, and in order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from streamapp import nodes as n
from streamapp import operations as o
from streamapp.plan import SubTopology
from streamapp.spark.flow import PLACE, STREAM_TIME, Flow, column
from streamapp.spark.records import PLACE_FIELDS

_RANK = "__rank"
_INPUT = "__input"
TIME = "__time"
ORDER = (TIME, _RANK, PLACE, _INPUT)
"""Rows of an epoch are in the order of their stream times; where these are equal, tables come first. A record that
comes to several nodes comes to all of them before the next one does. Rows made from one record stay in their order."""


@dataclass(frozen=True)
class Entry:
    """Rows that come to a node of the task by a shuffle."""

    reader: n.Node
    number: int
    """The number of the reader's input that they are."""
    source: str
    """The node that gives them: the reader itself where it is a table that reads a topic."""
    of_table: bool
    """Whether they are a table's rows."""


def entries_of(part: SubTopology) -> tuple[Entry, ...]:
    """The entries of the sub-topology's task. Those of nodes with stores come first: other nodes look their rows up."""
    inner = [node for node in part.nodes if node.name in part.task]
    found = [
        Entry(node, number, name, part.topology.kind(name) == n.TABLE)
        for node in inner
        for number, name in enumerate((node.name,) if node.source else node.inputs)
        if node.source or name not in part.task
    ]
    return tuple(sorted(found, key=lambda entry: not entry.reader.stores))


def slim(reader: n.Node, flow: Flow) -> Flow:
    """The flow without the record fields that this reader does not use."""
    used: frozenset[str] = frozenset()
    if isinstance(reader, o.TableJoin):
        used = reader.used_of_left
    elif isinstance(reader, o.Join):
        names = (*(name.rpartition(".")[2] for name in reader.used), *reader.by, *reader.match)
        used = frozenset(name.lower() for name in names)
    wanted = used - {name.lower() for name in flow.columns}
    if isinstance(reader, o.Join) and reader.late is not None:
        wanted |= {*PLACE_FIELDS}
    return replace(flow, fields=tuple(f for f in flow.fields if f == "timestamp" or f in wanted))


def in_one_frame(
    flows: Sequence[Flow], ranks: Sequence[int], keys: Sequence[Sequence[str]], ordering: Sequence[str]
) -> DataFrame:
    """The rows of all entries: the columns that they are shuffled by, those that they are ordered by, and a struct for
    each entry."""
    numbered = list(enumerate(flows))
    if flows[0].packed is None:
        parts = [_selected(flow.frame, [(i, flow)], ranks, keys) for i, flow in numbered]
        rows = reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), parts)
    else:
        rows = _selected(flows[0].frame, numbered, ranks, keys)
    entries = (f"__in_{i}" for i, _ in numbered)
    return rows.select(*(f"__key_{k}" for k in range(len(keys[0]))), *ordering, *entries)


def _selected(
    frame: DataFrame, mine: Sequence[tuple[int, Flow]], ranks: Sequence[int], keys: Sequence[Sequence[str]]
) -> DataFrame:
    def first(values: Iterable[tuple[Flow, Column]]) -> Column:
        return F.coalesce(*(_if_there(flow, value) for flow, value in values))

    width = len(keys[0])
    by = (first((flow, flow.physically(keys[i][k])) for i, flow in mine).alias(f"__key_{k}") for k in range(width))
    times = first((flow, flow.physically(flow.order_time)) for _, flow in mine).alias(TIME)
    now = first((flow, flow.physically(STREAM_TIME)) for _, flow in mine).alias(STREAM_TIME)
    numbers = first((flow, F.lit(i)) for i, flow in mine)
    order = first((flow, F.lit(int(ranks[i]))) for i, flow in mine)
    places = first((flow, flow.physically(PLACE)) for _, flow in mine)
    structs = (
        _if_there(flow, F.struct(*(flow.physically(name).alias(name) for name in flow.row()))).alias(f"__in_{i}")
        for i, flow in mine
    )
    return frame.select(*by, times, order.alias(_RANK), places.alias(PLACE), numbers.alias(_INPUT), now, *structs)


def _if_there(flow: Flow, value: Column) -> Column:
    return value if flow.packed is None else F.when(column(flow.packed).isNotNull(), value)
