# SPDX-License-Identifier: Apache-2.0
"""`table`: a topic as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from pydantic import Field

from streamapp.companions import Rule, Rules, without_from
from streamapp.durations import format_duration, parse_duration
from streamapp.fields import Duration, FormatSpec, Model, PositiveDuration, SourceFormatField
from streamapp.nodes import TABLE, Columns, Origins, StoredTable
from streamapp.operations.making import Making
from streamapp.operations.steps import F, FormatLike, Starts, given, written_format
from streamapp.operations.stream import Stream
from streamapp.operations.ttl import TTL, expiring, ttl_in_words
from streamapp.origins import all_declared
from streamapp.outline import Outline

if TYPE_CHECKING:
    from streamapp.manifest.node import NodeSpec


class TableSpec(Model):
    """A topic as a table: its latest record of each key."""

    topic: Annotated[str, Field(description="The topic to read; a compacted one keeps what a table needs.")]
    key: Annotated[SourceFormatField, Field(description="Format of the key.")] = FormatSpec(format="text")
    value: Annotated[SourceFormatField, Field(description="Format of the value.")] = FormatSpec(format="text")
    timestamp: Annotated[
        str | None,
        Field(description="Event time: an expression, or `processing`. Default: the record's own timestamp."),
    ] = None
    max_ahead: Annotated[
        Duration,
        Field(description="How far an extracted event time may be ahead of the record's own timestamp."),
    ] = "1 hour"
    ttl: Annotated[PositiveDuration | None, Field(description=TTL)] = None
    history: Annotated[
        PositiveDuration | None,
        Field(
            description="For how long, in event time, earlier versions of a row are kept, for joins with `asOf`. The "
            "record with the latest event time is then the row of its key, in whatever order records come. Default: "
            "none are kept."
        ),
    ] = None
    bootstrap: Annotated[
        bool,
        Field(description="Whether streams wait, at the first start, until the table was read to its end of then."),
    ] = True


_HISTORY: Rules = (
    Rule(
        "history",
        "a row that expires would have no end in its history",
        "remove `ttl`, or read the topic as a second table",
        excludes=("ttl",),
    ),
)

Given = Annotated[TableSpec | None, Field(description="Reads a topic as a table.")]
"""The field of the manifest."""


@dataclass(frozen=True)
class Table(Stream):
    """A topic as a table. Each record is the row of its key from then on; one without a value deletes the row."""

    store: str = ""
    bootstrap: bool = True
    """Whether, at the first start, it is read to its end of that time before a stream's record looks it up."""
    ttl_ms: int = 0
    """How long a row stays that is not updated; 0: for ever."""
    history_ms: int = 0
    """For how long old rows are kept; 0: not at all."""

    operation: ClassVar[str] = "table"
    outline: ClassVar[Outline] = Outline(
        rules=(without_from("table", "`from` is not for a table, which reads a topic"),),
        expressions=(("table", "timestamp"),),
        inner_rules={"table": _HISTORY},
        aside=(("table", "key"), ("table", "ttl"), ("table", "history")),
    )
    keyed: ClassVar[bool] = True

    @classmethod
    def of(cls, spec: NodeSpec, making: Making) -> tuple[Self, ...]:
        table = spec.global_table if cls is GlobalTable else spec.table
        assert table is not None
        key, value = table.key.to_format(), table.value.to_format()
        made = cls(
            spec.name,
            (table.topic,),
            None,
            key,
            value,
            table.timestamp,
            parse_duration(table.max_ahead),
            store=spec.store or spec.name,
            bootstrap=table.bootstrap,
            ttl_ms=parse_duration(table.ttl or "0s"),
            history_ms=parse_duration(table.history or "0s"),
        )
        return (made,)

    @property
    def in_task(self) -> bool:
        return True

    @property
    def stores(self) -> tuple[str, ...]:
        return (self.store,)

    def stored_table(self, store: str, inputs: Sequence[Columns] = ()) -> StoredTable:
        return StoredTable(("key",), self.output_columns(()).value, False)

    def output_kind(self, inputs: Sequence[str]) -> str:
        return TABLE

    def description(self, inputs: Sequence[Columns]) -> str:
        kept = f", with a history of {format_duration(self.history_ms)}" if self.history_ms else ""
        return super().description(inputs) + ttl_in_words(self.ttl_ms) + kept

    def output_columns(self, inputs: Sequence[Columns]) -> Columns:
        columns = super().output_columns(inputs)
        return replace(columns, meta=tuple(name for name in columns.meta if name == "timestamp"))

    def state_shape(self, inputs: Sequence[Columns], before: Sequence[Origins]) -> Any:
        origins = self.origins(inputs, before)
        return {
            "operation": "table",
            "key": origins["__key"],
            "values": all_declared(self.output_columns(inputs).value, origins),
            **expiring(self.ttl_ms),
            **({"history": True} if self.history_ms else {}),
        }


class GlobalTableSpec(TableSpec):
    """A topic as a table for lookups by any column of a stream's records."""


GlobalGiven = Annotated[
    GlobalTableSpec | None,
    Field(description="Reads a topic as a table that streams look up by any column, and keep their key."),
]
"""The field of the manifest."""


@dataclass(frozen=True)
class GlobalTable(Table):
    """A table that a stream's records look up, and keep their own key. Like any table it lies with the tasks of its
    key, and no process has a copy of all of it: records go to these tasks."""

    operation: ClassVar[str] = "globalTable"
    outline: ClassVar[Outline] = Outline(
        rules=(without_from("globalTable", "`from` is not for a global table, which reads a topic"),),
        expressions=(("globalTable", "timestamp"),),
        inner_rules={"globalTable": _HISTORY},
        aside=(("globalTable", "key"), ("globalTable", "ttl"), ("globalTable", "history")),
    )


class TableStart(Starts[F]):
    """The builder's method."""

    def table(
        self,
        name: str,
        *,
        topic: str,
        key: FormatLike | None = None,
        value: FormatLike | None = None,
        timestamp: str | None = None,
        ttl: str | None = None,
        history: str | None = None,
        bootstrap: bool | None = None,
        store: str | None = None,
    ) -> F:
        """A topic as a table: its latest record of each key.

        >>> from streamapp.builder import StreamBuilder
        >>> StreamBuilder("app").table("users", topic="users").builder.build().spec.topology[0].table.topic
        'users'
        """
        fields = {"topic": topic, "timestamp": timestamp, "ttl": ttl, "history": history, "bootstrap": bootstrap}
        return self._add(name, None, table=_written(key, value, fields), store=store)

    def global_table(
        self,
        name: str,
        *,
        topic: str,
        key: FormatLike | None = None,
        value: FormatLike | None = None,
        timestamp: str | None = None,
        ttl: str | None = None,
        history: str | None = None,
        bootstrap: bool | None = None,
        store: str | None = None,
    ) -> F:
        """The same for lookups by any column of a stream's records, which keep their key.

        >>> from streamapp.builder import StreamBuilder
        >>> b = StreamBuilder("app")
        >>> b.global_table("countries", topic="countries").builder.build().spec.topology[0].operation
        'globalTable'
        """
        fields = {"topic": topic, "timestamp": timestamp, "ttl": ttl, "history": history, "bootstrap": bootstrap}
        return self._add(name, None, globalTable=_written(key, value, fields), store=store)


def _written(key: FormatLike | None, value: FormatLike | None, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields as the manifest has them, without those that are not given."""
    return given(**fields, key=written_format(key), value=written_format(value))
