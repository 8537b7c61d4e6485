# SPDX-License-Identifier: Apache-2.0
"""The stateful nodes of a sub-topology that share a task: what comes to them, what they do, what leaves them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

from streamapp import nodes as n
from streamapp import operations as o
from streamapp.plan import SubTopology
from streamapp.spark.flow import PLACE, STREAM_TIME, Flow, column
from streamapp.spark.foreign_keys import foreign_results, foreign_rows
from streamapp.spark.joins import keys_of
from streamapp.spark.tables import TaskRows, changes, deletions, joined_with_table, kept

Visit = Callable[[n.Node, list[Flow]], Flow]
_INPUT = "__input"
_ORDER = (STREAM_TIME, _INPUT, PLACE)
"""Rows of an epoch are in the order of their stream times; where these are equal, tables come first. What was made of
one record stays in its order."""


@dataclass(frozen=True)
class Entry:
    """Rows that come to a node of the task by a shuffle."""

    reader: n.Node
    source: str
    """The node that gives them: itself, of a table that reads a topic."""


def entries_of(part: SubTopology) -> tuple[Entry, ...]:
    """Tables first."""
    inner = [node for node in part.nodes if node.name in part.task]
    found = [
        Entry(node, name)
        for node in inner
        for name in ((node.name,) if node.source else node.inputs)
        if node.source or name not in part.task
    ]
    return tuple(sorted(found, key=lambda entry: not entry.reader.stores))


@dataclass(frozen=True)
class Exit:
    """Rows that leave a task."""

    node: str
    flow: Flow
    """In a struct column of the task's output, which all exits share."""
    changes: bool
    """Whether it has of each change what was and what is."""


class Task:
    """Puts the task of a sub-topology together.

    Args:
        visit: makes the flow of a node that computes each row of one.
    """

    def __init__(self, part: SubTopology, spark: SparkSession, visit: Visit) -> None:
        self._part = part
        self._topology = part.topology
        self._spark = spark
        self._visit = visit
        self._rows = TaskRows(spark)
        self._task: Any = self._rows.task
        self._places: dict[str, int] = {}
        self._flows: dict[str, Flow] = {}
        self._entered: dict[tuple[str, str], tuple[int, Flow]] = {}

    def exits(self, entries: Sequence[Entry], flows: Sequence[Flow]) -> tuple[list[Exit], DataFrame]:
        """What leaves it, and its output, where each exit has a column.

        Args:
            entries: what comes to it.
            flows: their rows.
        """
        keys = []
        flows = [_slim(entry, flow) for entry, flow in zip(entries, flows, strict=True)]
        for i, (entry, flow) in enumerate(zip(entries, flows, strict=True)):
            schema = flow.schema()
            given = replace(flow, frame=self._rows.of(schema), packed=None, timed=False, placed=False)
            self._entered[entry.reader.name, entry.source] = self._task.entry(i, schema.json()), given
        for node in self._part.nodes:
            if node.name in self._part.task:
                self._places[node.name], flow = self._step(node)
                self._flows[node.name] = replace(flow, frame=self._rows.of(flow.schema()))
        for entry, flow in zip(entries, flows, strict=True):
            keys.append([physical for _, physical in self._key_of(entry, flow)])
        found = [exit for node in self._part.nodes if node.name in self._part.task for exit in self._leaving(node)]
        rows = _in_one_frame(flows, keys)
        output = ClassicDataFrame(self._task.frame(rows._jdf, len(keys[0]), len(_ORDER)), self._spark)
        return [replace(exit, flow=replace(exit.flow, frame=output)) for exit in found], output

    def _key_of(self, entry: Entry, flow: Flow) -> Sequence[tuple[str, str]]:
        if isinstance(entry.reader, o.TableJoin):
            ours, _ = keys_of(entry.reader, flow, self._flows[entry.reader.right])
            return ours
        return flow.key

    def _input(self, node: n.Node, name: str) -> tuple[int, Flow]:
        return self._entered.get((node.name, name)) or (self._places[name], self._flows[name])

    def _step(self, node: n.Node) -> tuple[int, Flow]:
        if isinstance(node, o.ForeignRows):
            (left, one), (right, two) = (self._input(node, name) for name in node.inputs)
            return foreign_rows(node, (left, one), (right, two), self._rows)
        if isinstance(node, o.ForeignResults):
            return foreign_results(node, *self._input(node, node.input), self._rows)
        if isinstance(node, o.TableJoin):
            return self._join(node)
        name = node.name if node.source else node.inputs[0]
        place, given = self._input(node, name)
        if not isinstance(node, o.Table | o.ToTable):
            flow = self._visit(node, [given])
            return self._task.steps(place, flow.frame._jdf, flow.table), flow
        flow = replace(given, table=True, fields=("timestamp",))
        (store,) = node.stores
        table = kept(flow, self._rows)
        frames = (frame._jdf for frame in (table.key, table.value, table.row, table.answers))
        return self._task.table(place, store, *frames), replace(flow, frame=table.row)

    def _join(self, node: o.TableJoin) -> tuple[int, Flow]:
        (left, one), (right, two) = (self._input(node, name) for name in node.inputs)
        flow = joined_with_table(node, one, two, self._rows)
        result = flow.frame._jdf
        if one.table:
            return self._task.tableJoin(left, right, result, node.type in ("left", "outer"), node.type == "outer"), flow
        ours, _ = keys_of(node, one, two)
        key = self._rows.of(one.schema()).select(*(column(physical) for _, physical in ours))
        return self._task.lookup(left, right, key._jdf, result, node.type == "left"), flow

    def _leaving(self, node: n.Node) -> list[Exit]:
        readers = [reader for reader in self._topology.consumers(node.name) if reader.name not in self._part.task]
        place, flow = self._places[node.name], self._flows[node.name]
        found = []
        if any(not _wants_changes(reader) for reader in readers):
            gone = deletions(flow, self._rows)._jdf if flow.table else None
            found.append(Exit(node.name, replace(flow, packed=_column(self._task.exit(place, gone))), changes=False))
        if any(_wants_changes(reader) for reader in readers):
            both = changes(flow, self._rows)
            at = self._task.exitOfChanges(place, both.frame._jdf)
            found.append(Exit(node.name, replace(both, packed=_column(at)), changes=True))
        return found


def _slim(entry: Entry, flow: Flow) -> Flow:
    """Without the record's own fields that nobody in the task uses."""
    reader = entry.reader
    used = reader.used if isinstance(reader, o.TableJoin) else frozenset()
    alias = reader.aliases[0] if isinstance(reader, o.TableJoin) else ""
    return replace(flow, fields=tuple(f for f in flow.fields if f == "timestamp" or f"{alias}.{f}".lower() in used))


def _wants_changes(reader: n.Node) -> bool:
    return isinstance(reader, n.RepartitionSink) and reader.signed


def _column(exit: int) -> str:
    return f"__exit_{exit}"


def _in_one_frame(flows: Sequence[Flow], keys: Sequence[Sequence[str]]) -> DataFrame:
    """The rows of all entries: what they are shuffled by, what they are ordered by, and each entry's in a struct."""
    numbered = list(enumerate(flows))
    if flows[0].packed is None:
        parts = [_selected(flow.frame, [(i, flow)], keys) for i, flow in numbered]
        rows = reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), parts)
    else:
        rows = _selected(flows[0].frame, numbered, keys)
    entries = (f"__in_{i}" for i, _ in numbered)
    return rows.select(*(f"__key_{k}" for k in range(len(keys[0]))), *_ORDER, *entries)


def _selected(frame: DataFrame, mine: Sequence[tuple[int, Flow]], keys: Sequence[Sequence[str]]) -> DataFrame:
    def first(values: Iterable[tuple[Flow, Column]]) -> Column:
        return F.coalesce(*(_if_there(flow, value) for flow, value in values))

    width = len(keys[0])
    by = (first((flow, flow.physically(keys[i][k])) for i, flow in mine).alias(f"__key_{k}") for k in range(width))
    times = first((flow, flow.physically(STREAM_TIME)) for _, flow in mine)
    numbers = first((flow, F.lit(i)) for i, flow in mine)
    places = first((flow, flow.physically(PLACE)) for _, flow in mine)
    structs = (
        _if_there(flow, F.struct(*(flow.physically(name).alias(name) for name in flow.row()))).alias(f"__in_{i}")
        for i, flow in mine
    )
    return frame.select(*by, times.alias(STREAM_TIME), numbers.alias(_INPUT), places.alias(PLACE), *structs)


def _if_there(flow: Flow, value: Column) -> Column:
    return value if flow.packed is None else F.when(column(flow.packed).isNotNull(), value)
