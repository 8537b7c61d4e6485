# SPDX-License-Identifier: Apache-2.0
"""Turns nodes into DataFrames: one `visit_…` method per node type."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import reduce

from pyspark.errors import PySparkException
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructField, StructType, _parse_datatype_string

from streamapp import nodes as n
from streamapp import operations as o
from streamapp.errors import ManifestError
from streamapp.formats import Format
from streamapp.operations import Filter
from streamapp.plan import SubTopology
from streamapp.spark import formats
from streamapp.spark.cogroups import cogrouped
from streamapp.spark.complaints import problems_of
from streamapp.spark.flow import DELETED, EVENT_TIME, PLACE, Flow, all_null, column, hidden
from streamapp.spark.folds import entering, folded
from streamapp.spark.foreign_keys import answered, moved_rows
from streamapp.spark.grouped import grouped
from streamapp.spark.guard import expression, require_allowed
from streamapp.spark.hops import HOP_OFFSET, HOP_PLACE, Hops
from streamapp.spark.merged import merged
from streamapp.spark.pairs import pairs_of
from streamapp.spark.records import HEADERS, PLACE_FIELDS, RECORD_COLUMNS
from streamapp.spark.sources import Sources, dead_letters
from streamapp.spark.streamtime import tags_of, with_stream_time, with_times_of_hop
from streamapp.spark.tables import TaskRows, joined_with_table, signed_rows
from streamapp.spark.windows_in_tasks import table_of


class Visitor:
    """Builds the flows of one sub-topology after the other, in the plan's order."""

    def __init__(self, sources: Sources) -> None:
        self.sources = sources
        self._hops = Hops(sources.read)
        self._tags: Mapping[str, str] = {}
        self._ordered = False

    def enter(self, part: SubTopology) -> None:
        """Begins a sub-topology: the next nodes to visit belong to it."""
        self._tags = tags_of(part)
        self._ordered = part.keeps_order

    def visit(self, node: n.Node, inputs: list[Flow]) -> Flow:
        """The flow of `node` over the flows of its inputs.

        Raises:
            ManifestError: when Spark cannot make sense of an expression, naming the node.
        """
        method = getattr(self, "visit_" + type(node).__name__.lower())
        return self.checked(node, inputs, lambda *flows: method(node, *flows))

    def checked(self, node: n.Node, inputs: list[Flow], make: Callable[..., Flow]) -> Flow:
        """The flow that `make` makes of the inputs; its errors count as errors of that node.

        Raises:
            ManifestError: when Spark cannot make sense of an expression, naming the node.
        """
        try:
            flow = make(*inputs)
            require_allowed(flow.frame)
        except PySparkException as error:
            raise ManifestError(problems_of(node, inputs, error)) from error
        return flow

    # Sources

    def visit_stream(self, node: o.Stream) -> Flow:
        return self._timed(node, self.sources.rows(node), *map(hidden, PLACE_FIELDS))

    def visit_table(self, node: o.Table) -> Flow:
        flow = replace(self.visit_stream(node), fields=("timestamp",), table=True)
        return _with_key(node, flow.selected_from(flow.frame))

    def _timed(self, node: n.Node, flow: Flow, topic: str, partition: str, offset: str) -> Flow:
        """A source's rows with stream time, where windows close by it or rows are in its order.

        Rows that a filter drops later count for it too.
        """
        tag = self._tags.get(node.name)
        if tag is None:
            return flow
        hopped = isinstance(node, n.RepartitionSource)
        add = with_times_of_hop if hopped else with_stream_time
        frame = add(flow.frame, tag, topic, partition)
        if self._ordered:
            frame = frame.withColumn(
                PLACE,
                F.struct(
                    *(column(at).alias(name) for at, name in zip((topic, partition, offset), PLACE_FIELDS, strict=True))
                ),
            )
        return replace(flow, timed=True, hopped=hopped and self._ordered, placed=self._ordered).selected_from(frame)

    def visit_deadletter(self, node: n.DeadLetter, source: Flow) -> Flow:
        return dead_letters(node, source)

    def visit_repartitionsource(self, node: n.RepartitionSource) -> Flow:
        read = self._hops.read(node)
        return self._timed_hop(node, signed_rows(read, HOP_PLACE) if read.changes else read)

    def visit_movessource(self, node: n.MovesSource) -> Flow:
        return self._timed_hop(node, moved_rows(self._hops.read(node), node.by, column(HOP_OFFSET), HOP_PLACE))

    def _timed_hop(self, node: n.RepartitionSource, read: Flow) -> Flow:
        flow = self._timed(node, read, *HOP_PLACE)
        return flow.selected_from(flow.frame)

    # Stateless operations

    def visit_filter(self, node: Filter, flow: Flow) -> Flow:
        passes = F.coalesce(expression(node.condition), F.lit(False))
        scope = flow.scope()
        if flow.table:  # a row that stops matching is deleted downstream
            deleted = column(DELETED) | ~passes
            return flow.selected_from(
                scope.withColumn(DELETED, F.coalesce(flow.null_in_other_branches(deleted), column(DELETED)))
            )
        return flow.selected_from(scope.filter(flow.or_other_branch(passes)))

    def visit_arm(self, node: o.Arm, flow: Flow) -> Flow:
        condition = F.lit(True) if node.condition is None else F.coalesce(expression(node.condition), F.lit(False))
        for earlier in node.earlier:
            condition = condition & ~F.coalesce(expression(earlier), F.lit(False))
        return flow.selected_from(flow.scope().filter(flow.or_other_branch(condition)))

    def visit_branch(self, node: o.Branch, flow: Flow) -> Flow:
        return flow

    def visit_select(self, node: o.Select, flow: Flow) -> Flow:
        return flow.with_values({name: expression(sql) for name, sql in node.columns})

    def visit_with(self, node: o.With, flow: Flow) -> Flow:
        return flow.with_values({name: expression(sql) for name, sql in node.columns}, keep=flow.columns)

    def visit_flatmap(self, node: o.FlatMap, flow: Flow) -> Flow:
        listed = flow.with_values({"__elements": expression(node.array)}, keep=flow.columns)
        elements = column("__elements")
        if flow.guard is not None:  # other branches' rows must survive: they get one element to explode
            elements = F.when(flow.guard, elements).otherwise(F.array(F.lit(None)))
        columns = (*(c for c in flow.columns if c != node.column), node.column)
        exploded = replace(listed, columns=columns)
        names = [name for name in exploded.physical() if name != node.column]
        frame = listed.frame.select(*(column(name) for name in names), F.explode(elements).alias(node.column))
        return exploded.selected_from(frame)

    def visit_python(self, node: o.Python, flow: Flow) -> Flow:
        # Imported here, as it imports Arrow and NumPy, which takes a sixth of a second of each start.
        from streamapp.spark.usercode import MINE, UserFunction

        schema = _parse_datatype_string(node.schema)
        assert isinstance(schema, StructType)
        after = replace(flow, columns=tuple(schema.names))
        kept = tuple(name for name in after.physical() if name not in (*after.columns, DELETED))
        seen = dict(flow.visible())
        function = UserFunction(
            node=node.name,
            function=node.function,
            mode=node.mode,
            sees=tuple(seen.items()),
            kept=kept,
            returns=to_arrow_schema(schema, timezone="UTC"),
            table=flow.table,
        )
        is_own = F.lit(True) if flow.guard is None else flow.guard
        given = flow.frame.select(
            is_own.alias(MINE), *(column(name) for name in dict.fromkeys((DELETED, *kept, *seen.values())))
        )
        types = {f.name: f.dataType for f in given.schema}
        types |= {f.name: f.dataType for f in schema}
        # The rows of other branches do not have the new columns.
        returned = StructType([StructField(name, types[name]) for name in (*kept, DELETED, *schema.names)])
        return after.selected_from(given.mapInArrow(function, returned))

    def visit_keyby(self, node: o.KeyBy, flow: Flow) -> Flow:
        key = tuple((name, f"__key_{i}") for i, name in enumerate(node.columns))
        computed = {physical: flow.null_in_other_branches(column(name)) for name, physical in key}
        frame = flow.scope().withColumns(computed)
        fields = tuple(field for field in flow.fields if field != "key")  # the record's old key is gone
        return replace(flow, key=key, fields=fields).selected_from(frame)

    def visit_merge(self, node: o.Merge, *flows: Flow) -> Flow:
        whole, rows = merged(node, flows)
        frames = (flow.frame.select(*columns) for flow, columns in zip(flows, rows, strict=True))
        return replace(whole, frame=reduce(lambda a, b: a.unionByName(b), frames))

    def visit_cogroupedrecords(self, node: o.CogroupedRecords, flow: Flow) -> Flow:
        return cogrouped(node, flow)

    # State

    def visit_aggregate(self, node: o.Aggregate, flow: Flow) -> Flow:
        if not node.folds:
            return grouped(node, flow)
        if node.window is not None:
            return table_of(node, node.window, flow, TaskRows(flow.frame.sparkSession))
        return folded(node, entering(node, flow))

    def visit_join(self, node: o.Join, left: Flow, right: Flow) -> Flow:
        return pairs_of(node, left, right, TaskRows(left.frame.sparkSession))

    def visit_tablejoin(self, node: o.TableJoin, left: Flow, right: Flow) -> Flow:
        return joined_with_table(node, left, right, TaskRows(left.frame.sparkSession))

    visit_columnlookup = visit_tablejoin

    def visit_deduplicate(self, node: o.Deduplicate, flow: Flow) -> Flow:
        return flow

    def visit_suppress(self, node: o.Suppress, flow: Flow) -> Flow:
        return flow

    def visit_foreignrows(self, node: o.ForeignRows, left: Flow, right: Flow) -> Flow:
        return answered(node, left, right, TaskRows(left.frame.sparkSession))

    def visit_foreignresults(self, node: o.ForeignResults, flow: Flow) -> Flow:
        table = replace(flow, moves=False, table=True)
        return table.selected_from(table.frame)

    visit_globaltable = visit_table

    def visit_totable(self, node: o.ToTable, flow: Flow) -> Flow:
        table = replace(flow, fields=tuple(f for f in flow.fields if f == "timestamp"), table=True)
        return _with_key(node, table.selected_from(table.frame))

    def visit_tostream(self, node: o.ToStream, flow: Flow) -> Flow:
        return replace(flow, table=False)

    # Sinks: rows of (topic, key, value, timestamp, headers)

    def visit_sink(self, node: o.Sink, flow: Flow) -> Flow:
        types: dict[str, object] = {name: flow.frame.schema[physical].dataType for name, physical in flow.key}
        key_columns = [(name, column(physical)) for name, physical in flow.key]
        if node.key is None or not key_columns:
            key = formats.key_text(key_columns, types)
        else:
            key = formats.encode(key_columns, node.key)
        # The record's own key lies beside the value; a key that was made from columns is not written twice.
        in_key = {name for name, physical in flow.key if physical != hidden("key")}
        values = [(name, column(name)) for name in flow.columns if name not in in_key]
        value = formats.encode(values, node.value or Format("json", None))
        return self._records(flow, node.topic, key, F.when(~column(DELETED), value))

    def visit_laterecords(self, node: n.LateRecords, flow: Flow) -> Flow:
        """Late records, which are a topic's records already (spark/late.py)."""
        return replace(flow, frame=flow.frame.select(*map(column, (*flow.carried, *RECORD_COLUMNS))))

    def visit_repartitionsink(self, node: n.RepartitionSink, flow: Flow) -> Flow:
        rows, key, value = self._hops.written(node, flow)
        return self._records(rows, node.topic, key, value)

    def unwritten(self, flow: Flow) -> Flow:
        """The rows of a table that no sink takes, as records for no topic."""
        nothing = F.lit(None).cast("binary")
        return self._records(flow, None, nothing, nothing)

    def _records(self, flow: Flow, topic: str | None, key: Column, value: Column) -> Flow:
        has_time = "timestamp" in flow.fields
        frame = flow.frame.select(
            *(column(name) for name in flow.carried),
            F.lit(topic).cast("string").alias("topic"),
            key.alias("key"),
            value.alias("value"),
            (F.unix_millis(column(EVENT_TIME)) if has_time else F.lit(None).cast("bigint")).alias("timestamp"),
            F.lit(None).cast(HEADERS).alias("headers"),
        )
        return replace(flow, frame=frame)


def _with_key(node: n.Node, flow: Flow) -> Flow:
    """A table's rows: as in Kafka Streams, a record without a key is left out. Such records are counted."""
    without = all_null(column(physical) for _, physical in flow.key)
    return flow.selected_from(
        flow.frame.observe(f"keyless:{node.name}", F.count_if(without).alias("bad")).filter(~without)
    )
