# SPDX-License-Identifier: Apache-2.0
"""Foreign-key joins: rows of one table go to the key that they name, and the results go back to the rows' own key.

A row may leave a place and come to another at the same time, and the answers of both may come back in any order. So
each move has a version: the offset of the change in the internal topic of the left table's changes. It rises for each
key, and is the same when an epoch runs again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BooleanType, LongType, StructField, StructType

from streamapp import operations as o
from streamapp.spark.flow import DELETED, EVENT_TIME, IS, MOVE, WAS, Flow, column
from streamapp.spark.joins import chosen, keys_of, result_of, values_of
from streamapp.spark.tables import TaskRows, sides_of

_HERE, _MOVED, _LEFT, _GONE = range(4)
"""The fates of a row at a place: it is there; it is there and has come from another place; it has left for another
place; it is deleted. The JVM side has the same (ForeignKeys.scala)."""
_VERSION, _THERE, _AWAITED = "__version", "__there", "__awaited"


def moved_rows(flow: Flow, by: Sequence[str], offset: Column, place: Sequence[str]) -> Flow:
    """The rows of a table's changes, with the places that they go to and their fates there.

    Args:
        by: the columns that name a place.
        offset: the offset of the change.
        place: further columns that stay.
    """
    was, now = column(WAS), column(IS)
    same = reduce(lambda a, b: a & b, (was[name].eqNullSafe(now[name]) for _, name in chosen(flow, tuple(by))))
    there, before = now.isNotNull(), was.isNotNull()
    side = (
        F.when(there, F.struct(F.when(before & ~same, _MOVED).otherwise(_HERE).alias("what"), now.alias("row"))),
        F.when(before & there & ~same, F.struct(F.lit(_LEFT).alias("what"), was.alias("row"))),
        F.when(before & ~there, F.struct(F.lit(_GONE).alias("what"), was.alias("row"))),
    )
    sides = F.filter(F.array(*side), lambda one: one.isNotNull())
    exploded = flow.frame.select(EVENT_TIME, *place, offset.alias(_VERSION), F.explode(sides).alias("__side"))
    schema = flow.frame.schema[IS].dataType
    assert isinstance(schema, StructType)
    fields = (F.col("__side.row")[name].alias(name) for name in schema.names if name != EVENT_TIME)
    # Versions begin with 1: the sign of one has a meaning (ForeignKeys.scala).
    move = F.struct((column(_VERSION) + 1).alias("version"), F.col("__side.what").alias("what"))
    frame = exploded.select(EVENT_TIME, *place, move.alias(MOVE), *fields)
    return replace(flow, frame=frame, changes=False, moves=True, table=False)


def answered(node: o.ForeignRows, left: Flow, right: Flow, rows: TaskRows) -> Flow:
    """The flow of a place's answers to the left rows, over one row of each side. Its time is the later one of both.

    Raises:
        ManifestError: when the keys of both sides cannot meet.
    """
    keys_of(node, left, right)
    both, one, two = sides_of(node, left, right, rows)
    key = {name: one[physical] for name, physical in left.key}
    values = values_of(node, (left, one), (right, two))
    if node.select is None:  # the columns of both sides are those that they meet by; only the left row is always there
        values |= {name: one[name] for name in left.columns}
    result = result_of(both, key, values, F.greatest(one[EVENT_TIME], two[EVENT_TIME]), {MOVE: one[MOVE]})
    flow = replace(result, moves=True)
    return flow.selected_from(flow.frame)


def _nothing(node: o.ForeignRows, left: Flow, right: Flow, answers: Flow, rows: TaskRows) -> DataFrame:
    """The same columns for a row without a result."""
    both, one, _ = sides_of(node, left, right, rows)
    kept = {DELETED: F.lit(True), EVENT_TIME: one[EVENT_TIME], MOVE: one[MOVE]}
    mine = {name.lower(): physical for name, physical in left.key}
    kept |= {physical: one[mine[name.lower()]] for name, physical in answers.key}
    kept |= {name: one[mine[name.lower()]] for name in answers.columns if name.lower() in mine}
    fields = answers.frame.schema.fields
    return both.select(*(kept.get(f.name, F.lit(None)).cast(f.dataType).alias(f.name) for f in fields))


def foreign_rows(
    node: o.ForeignRows, left: tuple[int, Flow], right: tuple[int, Flow], rows: TaskRows
) -> tuple[int, Flow]:
    """Adds to a task the step that keeps left rows at the places that they name. Returns the step's number and the flow
    of its answers."""
    (left_at, one), (right_at, two) = left, right
    answers = answered(node, one, two, rows)
    ours, _ = keys_of(node, one, two)
    schema = one.schema()
    given = rows.of(schema)
    foreign = given.select(*(column(physical).alias(f"__foreign_{i}") for i, (_, physical) in enumerate(ours)))
    own = given.select(
        *(column(physical).alias(f"__foreign_{i}") for i, (_, physical) in enumerate(ours)),
        *(column(physical).alias(f"__own_{i}") for i, (_, physical) in enumerate(one.key)),
    )
    # The order of its columns follows from the fingerprint.
    names = sorted({*one.columns, *(physical for _, physical in one.key)}, key=lambda name: (name.lower(), name))
    value = given.select(column(EVENT_TIME), column(MOVE)["version"].alias(_VERSION), *map(column, names))
    here = F.struct(column(_VERSION).alias("version"), F.lit(_HERE).alias("what"))
    stored: Mapping[str, Column] = {DELETED: F.lit(False), MOVE: here}
    row = rows.of(value.schema).select(*(stored.get(f.name, column(f.name)).alias(f.name) for f in schema))
    frames = (foreign, own, value, row, answers.frame, _nothing(node, one, two, answers, rows))
    (store,) = node.stores
    at = rows.task.foreignRows(left_at, right_at, store, MOVE, *(f._jdf for f in frames), node.type == "left")
    return at, answers


def foreign_results(node: o.ForeignResults, at: int, given: Flow, rows: TaskRows) -> tuple[int, Flow]:
    """Adds to a task the step that keeps the latest result of each row. Returns the step's number and the flow of the
    table's rows.

    Beside a result's columns, a row of the store has its version, whether there is a result, and the versions of moves
    of which only one end has answered.
    """
    flow = replace(given, moves=False, table=True)
    state = [StructField(_VERSION, LongType()), StructField(_THERE, BooleanType())]
    state.append(StructField(_AWAITED, ArrayType(LongType(), containsNull=False)))
    head = [column(field.name) for field in state]
    keys = {name.lower(): physical for name, physical in flow.key if name != "key"}
    names = sorted((name for name in flow.columns if name.lower() not in keys), key=str.lower)
    schema = given.schema()
    key = rows.of(schema).select(*(column(physical) for _, physical in flow.key))
    value = rows.of(StructType([*schema, *state])).select(*head, *map(column, (EVENT_TIME, *names)))
    restated = [StructField(f"{field.name}_now", field.dataType) for field in state]
    again = rows.of(StructType([*value.schema, *restated])).select(
        *(column(now.name).alias(field.name) for now, field in zip(restated, state, strict=True)),
        *map(column, (EVENT_TIME, *names)),
    )
    both = rows.of(StructType([*key.schema, *value.schema]))
    source = {DELETED: F.lit(False)} | {n: column(keys[n.lower()]) for n in flow.columns if n.lower() in keys}
    row = both.select(*(source.get(name, column(name)).alias(name) for name in flow.row()))
    shown = [name for name in flow.columns if name.lower() not in keys]
    answers = both.filter(column(_THERE)).select(
        *(column(physical).alias(f"__key_{i}") for i, (_, physical) in enumerate(flow.key)),
        *(column(name).alias(f"__result_{i}") for i, name in enumerate(shown)),
    )
    frames = (key, value, again, row, answers)
    place = rows.task.foreignResults(at, node.store, MOVE, *(frame._jdf for frame in frames))
    return place, replace(flow, frame=row)
