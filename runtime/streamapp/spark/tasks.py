# SPDX-License-Identifier: Apache-2.0
"""The stateful nodes of a sub-topology that share a task: their entries, their steps and their exits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

from streamapp import nodes as n
from streamapp import operations as o
from streamapp.plan import SubTopology
from streamapp.spark.column_lookups import looked_up_by_columns
from streamapp.spark.entries import ORDER, TIME, Entry, in_one_frame, slim
from streamapp.spark.exits import CHANGES, LATE, ROWS, Exit, timed, wanted_by
from streamapp.spark.flow import SIGN, STREAM_TIME, Flow, column
from streamapp.spark.folds import answers_of, entering, entering_windows, folded, rows_kept
from streamapp.spark.foreign_keys import foreign_results, foreign_rows
from streamapp.spark.joins import chosen, keys_of
from streamapp.spark.pairs import paired
from streamapp.spark.records import RECORD_COLUMNS
from streamapp.spark.tables import TaskRows, changes, deletions, joined_with_table, kept
from streamapp.spark.windows_in_tasks import windowed


class Visits(Protocol):
    """Makes the flows of nodes, and names the node that a mistake of the author is in."""

    def visit(self, node: n.Node, inputs: list[Flow]) -> Flow: ...
    def checked(self, node: n.Node, inputs: list[Flow], make: Callable[..., Flow]) -> Flow: ...


class Task:
    """Puts the task of a sub-topology together."""

    def __init__(self, part: SubTopology, spark: SparkSession, visitor: Visits) -> None:
        self._part = part
        self._topology = part.topology
        self._spark = spark
        self._visitor = visitor
        self._rows = TaskRows(spark)
        self._task: Any = self._rows.task
        self._places: dict[str, int] = {}
        self._flows: dict[str, Flow] = {}
        self._entered: dict[tuple[str, int], tuple[int, Flow]] = {}
        self._late: dict[str, str] = {}

    def exits(self, entries: Sequence[Entry], flows: Sequence[Flow]) -> tuple[list[Exit], DataFrame]:
        """The exits of the task, and its output, in which each exit has a column.

        Args:
            entries: the entries of the task.
            flows: the rows of the entries.
        """
        keys = []
        flows = self._entering(entries, flows)
        for i, (entry, flow) in enumerate(zip(entries, flows, strict=True)):
            schema = flow.schema()
            bare = replace(flow, packed=None, timed=False, hopped=False, placed=False, by=())
            given = replace(bare, frame=self._rows.of(schema))
            self._entered[entry.reader.name, entry.number] = self._task.entry(i, schema.json()), given
        for node in self._part.nodes:
            if node.name in self._part.task:
                self._places[node.name], flow = self._step(node)
                self._flows[node.name] = replace(flow, frame=self._rows.of(flow.schema()))
        for entry, flow in zip(entries, flows, strict=True):
            keys.append([physical for _, physical in self._key_of(entry, flow)])
        found = [exit for node in self._part.nodes if node.name in self._part.task for exit in self._leaving(node)]
        # Rows of internal topics are ordered by another time (ORDER_TIME) than their stream time.
        hopped = any(flow.hopped for flow in flows)
        order = (*ORDER, STREAM_TIME) if hopped else ORDER
        rows = in_one_frame(flows, [not entry.of_table for entry in entries], keys, order)
        carries = bool(self._part.hops_with_time)
        times = (STREAM_TIME if hopped else TIME, STREAM_TIME if carries else "")
        made = self._task.frame(rows._jdf, len(keys[0]), len(order), *times)
        output: DataFrame = ClassicDataFrame(made, self._spark)
        read = {exit.flow.packed for exit in found}
        for name, late in self._late.items():
            output = output.observe(f"late:{name}", F.count_if(column(late).isNotNull()).alias("late"))
            if late not in read:
                output = output.filter(column(late).isNull())
        if carries:
            output, found = timed(output, found)
        return [replace(exit, flow=replace(exit.flow, frame=output)) for exit in found], output

    def _entering(self, entries: Sequence[Entry], flows: Sequence[Flow]) -> list[Flow]:
        """The rows as the task takes them. The flows may share a frame, in which each row belongs to one of them."""
        frame, found = flows[0].frame, []
        for entry, flow in zip(entries, flows, strict=True):
            if isinstance(entry.reader, o.Deduplicate):
                found.append(flow)
            elif not isinstance(entry.reader, o.Aggregate):
                found.append(slim(entry.reader, flow))
            elif flow.packed is None:
                found.append(self._prepared(entry.reader, flow))
            else:
                frame, prepared = self._prepared_among_others(entry.reader, replace(flow, frame=frame), flow.packed)
                found.append(prepared)
        return [flow if flow.packed is None else replace(flow, frame=frame) for flow in found]

    def _prepared(self, node: o.Aggregate, flow: Flow) -> Flow:
        enter = entering if node.window is None else entering_windows
        return self._visitor.checked(node, [flow], lambda given: enter(node, given))

    def _prepared_among_others(self, node: o.Aggregate, flow: Flow, packed: str) -> tuple[DataFrame, Flow]:
        """The prepared rows of a struct column in a frame that other flows share: a new frame and the flow over it."""
        theirs = flow.frame.columns
        own = column(packed).isNotNull()
        spread = flow.frame.select(
            *map(column, theirs), *(flow.physically(name).alias(name) for name in flow.physical())
        )
        given = replace(flow, frame=spread, packed=None, guard=own, carried=tuple(theirs))
        prepared = replace(self._prepared(node, given), guard=flow.guard, carried=flow.carried)
        row = F.struct(*(column(name).alias(name) for name in prepared.physical()))
        others = (column(name) for name in theirs if name != packed)
        frame = prepared.frame.select(*others, F.when(own, row).alias(packed))
        return frame, replace(prepared, frame=frame, packed=packed)

    def _key_of(self, entry: Entry, flow: Flow) -> Sequence[tuple[str, str]]:
        if isinstance(entry.reader, o.Join | o.ColumnLookup):
            return keys_of(entry.reader, self._input(entry.reader, 0)[1], self._input(entry.reader, 1)[1])[entry.number]
        if isinstance(entry.reader, o.TableJoin):
            ours, _ = keys_of(entry.reader, flow, self._flows[entry.reader.right])
            return ours
        if isinstance(entry.reader, o.Deduplicate):
            return chosen(flow, entry.reader.by)
        return [(name, name) for name in flow.by] or flow.key

    def _input(self, node: n.Node, number: int = 0) -> tuple[int, Flow]:
        if (found := self._entered.get((node.name, number))) is not None:
            return found
        name = node.inputs[number]
        return self._places[name], self._flows[name]

    def _step(self, node: n.Node) -> tuple[int, Flow]:
        if isinstance(node, o.ForeignRows):
            (left, one), (right, two) = self._input(node, 0), self._input(node, 1)
            return foreign_rows(node, (left, one), (right, two), self._rows)
        if isinstance(node, o.ForeignResults):
            return foreign_results(node, *self._input(node), self._rows)
        if isinstance(node, o.ColumnLookup):
            return looked_up_by_columns(node, self._input(node, 0), self._input(node, 1), self._rows)
        if isinstance(node, o.TableJoin):
            return self._join(node)
        if isinstance(node, o.Join):
            return self._with_late(node, lambda left, right: paired(node, left, right, self._rows))
        if isinstance(node, o.Aggregate) and (window := node.window) is not None:
            return self._with_late(node, lambda rows: windowed(node, window, rows[0], rows[1], self._rows))
        if isinstance(node, o.Aggregate):
            return self._fold(node)
        if isinstance(node, o.Deduplicate):
            return self._deduplicate(node)
        if isinstance(node, o.Suppress):
            return self._suppress(node)
        place, given = self._input(node)
        if not isinstance(node, o.Table | o.ToTable):
            flow = self._visitor.visit(node, [given])
            return self._task.steps(place, flow.frame._jdf, flow.table), flow
        flow = replace(given, table=True, fields=("timestamp",))
        (store,) = node.stores
        table = kept(flow, self._rows)
        frames = (frame._jdf for frame in (table.key, table.value, table.row, table.answers))
        history = node.history_ms * 1000 if isinstance(node, o.Table) else 0
        return self._task.table(place, store, *frames, node.ttl_ms * 1000, history), replace(flow, frame=table.row)

    def _join(self, node: o.TableJoin) -> tuple[int, Flow]:
        (left, one), (right, two) = self._input(node, 0), self._input(node, 1)
        waiting = one
        if node.holds_back:
            # The fingerprint fixes the order of the columns of waiting rows.
            mine = slim(node, one)
            mine = replace(mine, fields=tuple(sorted(mine.fields)), columns=tuple(sorted(mine.columns, key=str.lower)))
            rows = one.frame.select(*map(column, mine.row()))
            left, waiting = self._task.steps(left, rows._jdf, False), replace(mine, frame=self._rows.of(rows.schema))
        flow = joined_with_table(node, one, two, self._rows, waiting)
        result = flow.frame._jdf
        if one.table:
            return self._task.tableJoin(left, right, result, node.type in ("left", "outer"), node.type == "outer"), flow
        ours, _ = keys_of(node, one, two)
        key = self._rows.of(waiting.schema()).select(*(column(physical) for _, physical in ours))
        keeps_all = node.type == "left"
        if not node.holds_back:
            return self._task.lookup(left, right, key._jdf, result, keeps_all, node.as_of), flow
        (store,) = node.stores
        return self._task.heldLookup(left, right, store, key._jdf, result, keeps_all, node.grace_ms * 1000), flow

    def _fold(self, node: o.Aggregate) -> tuple[int, Flow]:
        place, given = self._input(node)
        if (node.name, 0) not in self._entered:
            grouped = self._prepared(node, given)
            place = self._task.steps(place, grouped.frame._jdf, False)
            given = replace(grouped, frame=self._rows.of(grouped.schema()))
        flow = self._visitor.checked(node, [given], lambda rows: folded(node, rows))
        answers = answers_of(node, flow, self._rows)._jdf
        if node.keeps_rows:
            frames = (frame._jdf for frame in rows_kept(given, self._rows))
            return self._task.keptGroup(place, node.store, SIGN, *frames, flow.frame._jdf, answers), flow
        return self._task.group(place, node.store, flow.frame._jdf, answers, node.ttl_ms * 1000), flow

    def _with_late(self, node: n.Node, keep: Callable[..., tuple[int, Flow]]) -> tuple[int, Flow]:
        """Adds a step for which records may be late. `keep` makes it from its input steps and their rows."""
        inputs = [self._input(node, number) for number in range(len(node.inputs))]
        made: list[int] = []

        def kept(*_: Flow) -> Flow:
            place, flow = keep(*inputs)
            made.append(place)
            return flow

        flow = self._visitor.checked(node, [given for _, given in inputs], kept)
        self._late[node.name] = _column(self._task.lateAt())
        return made[0], flow

    def _deduplicate(self, node: o.Deduplicate) -> tuple[int, Flow]:
        place, given = self._input(node)
        key = given.frame.select(*(column(physical) for _, physical in chosen(given, node.by)))
        return self._task.deduplicate(place, node.store, key._jdf, node.within_ms * 1000), given

    def _suppress(self, node: o.Suppress) -> tuple[int, Flow]:
        place, flow = self._input(node)
        key = self._rows.of(flow.schema()).select(*(column(physical) for _, physical in flow.key))
        return self._task.suppress(place, node.store, key._jdf, node.limit_ms * 1000), flow

    def _leaving(self, node: n.Node) -> list[Exit]:
        readers = [reader for reader in self._topology.consumers(node.name) if reader.name not in self._part.task]
        wanted = {wanted_by(reader) for reader in readers}
        place, flow = self._places[node.name], self._flows[node.name]
        found = []
        if ROWS in wanted:
            gone = deletions(flow, self._rows)._jdf if flow.table else None
            found.append(Exit(node.name, replace(flow, packed=_column(self._task.exit(place, gone))), ROWS))
        if CHANGES in wanted:
            both = changes(flow, self._rows)
            at = self._task.exitOfChanges(place, both.frame._jdf)
            found.append(Exit(node.name, replace(both, packed=_column(at)), CHANGES))
        if LATE in wanted:
            records = Flow(flow.frame, RECORD_COLUMNS, (), (), packed=self._late[node.name])
            found.append(Exit(node.name, records, LATE))
        return found


def _column(exit: int) -> str:
    return f"__exit_{exit}"
