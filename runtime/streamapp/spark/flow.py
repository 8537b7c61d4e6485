# SPDX-License-Identifier: Apache-2.0
"""A node's output while a sub-topology is being put together: a DataFrame and what its columns mean.

Physical columns are the value columns under their own names and hidden ones that start with two underscores:
`__timestamp` and the other record fields, the key's columns, and `__deleted` (the record has no value: a tombstone).
User expressions see the value columns and, where no value column has the name, the record fields.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from typing import cast

from py4j.java_gateway import JavaGateway
from pyspark import SparkContext
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructField, StructType

DELETED = "__deleted"
EVENT_TIME = "__timestamp"
STREAM_TIME = "__stream_time"
"""The stream time at the row, in microseconds; see `spark.streamtime`."""
ORDER_TIME = "__order_time"
"""For a row of an internal topic: the latest event time that was read from its partition, in microseconds. It takes the
place of STREAM_TIME in the order of rows."""
PLACE = "__place"
"""The topic, partition and offset that the row was read from. They order the rows of one stream time."""
WAS, IS = "__was", "__is"
"""The rows before and after a table's change, as structs; null where there is none."""
SIGN = "__sign"
"""The sign of a change's row: -1 for the row before, 1 for the row after."""

MOVE = "__move"
"""A struct in a row on its way to the key that it names, and in the answer: `version` gives the order of the row's
moves, `what` the fate of the row there (spark/foreign_keys.py)."""


def quoted(name: str) -> str:
    """The name as a Spark SQL identifier, whatever characters it has."""
    return "`" + name.replace("`", "``") + "`"


def column(name: str) -> Column:
    """The column of that name; dots in it do not reach into structs."""
    return _column(name, SparkContext._gateway)


# Cached: a new column takes several messages to the Java process, and a topology names few columns thousands of times.
@lru_cache(maxsize=1000)
def _column(name: str, of: JavaGateway) -> Column:
    return F.col(quoted(name))


def all_null(columns: Iterable[Column]) -> Column:
    """Whether all of a key's columns are null: such a record belongs to no row and to no group."""
    return reduce(lambda a, b: a & b, (each.isNull() for each in columns), F.lit(True))


def hidden(field: str) -> str:
    """The physical column of a record field (key, timestamp, topic, …)."""
    return "__" + field


def _field(schema: DataType, name: str) -> StructField:
    """The column of that name; like Spark, whatever its case."""
    (found,) = (field for field in cast(StructType, schema) if field.name.lower() == name.lower())
    return found


@dataclass(frozen=True)
class Flow:
    """One node's rows."""

    frame: DataFrame
    columns: tuple[str, ...]
    fields: tuple[str, ...]
    """Record fields that are still there: key, timestamp, topic, partition, offset, headers."""
    key: tuple[tuple[str, str], ...]
    """The key: (name, physical column) in order; empty when the rows have none."""
    table: bool = False
    """True for a table's updates: a later row of a key replaces the earlier one."""
    timed: bool = False
    """Whether its rows have STREAM_TIME."""
    hopped: bool = False
    """Whether its rows have ORDER_TIME."""
    placed: bool = False
    """Whether its rows have PLACE."""
    changes: bool = False
    """Whether its rows are changes of a table: they have its key, WAS and IS, and no columns yet."""
    signed: bool = False
    """Whether its rows are the rows before and after changes, with SIGN."""
    moves: bool = False
    """Whether its rows have MOVE."""
    by: tuple[str, ...] = ()
    """The physical columns that the rows are shuffled by, where these are not the key's."""
    guard: Column | None = None
    """The condition for this node's rows, when several branches share the frame."""
    carried: tuple[str, ...] = ()
    """Physical columns of other branches that must be handed through untouched."""
    packed: str | None = None
    """The struct column that has the physical ones, where the frame has rows of others too; null in theirs."""

    def physically(self, name: str) -> Column:
        """A physical column."""
        return column(name) if self.packed is None else column(self.packed)[name]

    def type_of(self, name: str) -> DataType:
        """The type of a physical column."""
        return self._field(name).dataType

    # Read from the frame's schema: to select the column and ask for that one's schema has Spark analyse another frame.
    def _field(self, name: str) -> StructField:
        """A physical column as Spark's schema has it."""
        if self.packed is None:
            return _field(self.frame.schema, name)
        whole = _field(self.frame.schema, self.packed)
        packed = _field(whole.dataType, name)
        return StructField(packed.name, packed.dataType, whole.nullable or packed.nullable, packed.metadata)

    def physical(self) -> list[str]:
        """Every physical column once, in a fixed order."""
        if self.changes:
            return list(dict.fromkeys((*self.carried, EVENT_TIME, *(p for _, p in self.key), WAS, IS)))
        names = [
            *self.carried,
            DELETED,
            *(hidden(f) for f in self.fields),
            *((STREAM_TIME,) if self.timed else ()),
            *((ORDER_TIME,) if self.hopped else ()),
            *((PLACE,) if self.placed else ()),
            *((SIGN,) if self.signed else ()),
            *((MOVE,) if self.moves else ()),
            *self.by,
            *(p for _, p in self.key),
            *self.columns,
        ]
        return list(dict.fromkeys(names))

    @property
    def order_time(self) -> str:
        """The column that orders the rows by stream time."""
        return ORDER_TIME if self.hopped else STREAM_TIME

    def row(self) -> list[str]:
        """The physical columns of the row itself, without those that say where and when it was read."""
        way = (*self.carried, STREAM_TIME, ORDER_TIME, PLACE, *self.by)
        return [name for name in self.physical() if name not in way]

    def schema(self) -> StructType:
        """The types of `row`."""
        fields = ((name, self._field(name)) for name in self.row())
        return StructType([StructField(name, of.dataType, of.nullable, of.metadata) for name, of in fields])

    def scope(self) -> DataFrame:
        """The frame with the record fields and the key's columns under the names that user expressions use."""
        renamed = {name: column(physical) for name, physical in self.visible() if name != physical}
        return self.frame.withColumns(renamed) if renamed else self.frame

    def visible(self) -> tuple[tuple[str, str], ...]:
        """The names that the user sees, and the physical columns behind them."""
        shadowed = {name.lower() for name in self.columns}
        of_record = {field: hidden(field) for field in self.fields} | dict(self.key)
        return (
            *((name, name) for name in self.columns),
            *((name, physical) for name, physical in of_record.items() if name.lower() not in shadowed),
        )

    def or_other_branch(self, condition: Column) -> Column:
        """The condition for this node's rows; other branches' rows always pass."""
        return condition if self.guard is None else ~self.guard | condition

    def null_in_other_branches(self, value: Column) -> Column:
        """The value for this node's rows, null for other branches'."""
        return value if self.guard is None else F.when(self.guard, value)

    def selected_from(self, frame: DataFrame) -> Flow:
        """The same flow over a frame that has at least the physical columns."""
        return replace(self, frame=frame.select(*(column(name) for name in self.physical())))

    def with_values(self, values: dict[str, Column], *, keep: tuple[str, ...] = ()) -> Flow:
        """Replaces the value columns by new ones, computed in the user's scope. A column in `keep` keeps its place.

        A stream's record with new values is no tombstone any more; a table's deletion stays one.
        """
        new = {name.lower(): name for name in values}
        kept = [new.pop(name.lower(), name) for name in keep]
        after = replace(self, columns=(*kept, *new.values()))
        computed = {name: self.null_in_other_branches(value).alias(name) for name, value in values.items()}
        if not self.table:
            computed[DELETED] = F.lit(False).alias(DELETED)
        return replace(
            after, frame=self.scope().select(*(computed.get(name, column(name)) for name in after.physical()))
        )
