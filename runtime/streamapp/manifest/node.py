# SPDX-License-Identifier: Apache-2.0
"""The model of one node of the manifest."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, model_validator

from streamapp import operations
from streamapp.companions import STREAM, faults
from streamapp.fields import (
    Duration,
    Expressions,
    FormatSpec,
    Model,
    PositiveDuration,
    SourceFormatField,
    one_of,
    refuse,
)

OPERATIONS = (
    "stream",
    "filter",
    "select",
    "with",
    "flatMap",
    "keyBy",
    "merge",
    "branch",
    "groupBy",
    "join",
    "python",
    "to",
)
"""Exactly one of these makes a node."""

NOT_YET: dict[str, tuple[str, ...]] = {
    "node": (
        "table",
        "globalTable",
        "reduce",
        "late",
        "cogroup",
        "deduplicate",
        "toStream",
        "toTable",
        "suppress",
        "sql",
        "process",
    ),
    "stream": ("connector", "options"),
    "to": ("connector", "options"),
    "window": ("session", "sliding"),
    "join": ("asOf",),
    "kafka": ("schemaRegistry",),
}
"""Fields of the manifest's language that this version has not got, by the object they would be in."""

LATER = frozenset(name for names in NOT_YET.values() for name in names)

NOT_YET_OPERATIONS = tuple(name for name in NOT_YET["node"] if name not in ("reduce", "late"))


MOST_TOPICS = 500
"""Topics that one node may name."""
MOST_BRANCHES = 50
"""Branches of one node."""
class StreamSpec(Model):
    """A topic, several, or all that match a pattern, as a stream."""

    topic: Annotated[str | None, Field(description="The topic to read.")] = None
    topics: Annotated[
        list[str] | None,
        Field(min_length=1, max_length=MOST_TOPICS, description="Several topics to read as one stream.")
    ] = None
    pattern: Annotated[
        str | None, Field(description="A regular expression; every topic it matches as a whole is read.")
    ] = None
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

    @model_validator(mode="after")
    def _one_place(self) -> StreamSpec:
        for fault in faults(STREAM, self.model_dump(exclude_none=True)):
            refuse(fault.message, fault.fix)
        return self


class ArmSpec(Model):
    """One branch."""

    name: Annotated[str, Field(description="The branch's name: it is a node.")]
    when: Annotated[
        str | None, Field(description="What goes here; the last branch without it takes the rest.")
    ] = None


class WindowSpec(Model):
    """Windows in event time."""

    tumbling: Annotated[
        PositiveDuration | None, Field(description="Windows of this size, one after the other.")
    ] = None
    hopping: Annotated[PositiveDuration | None, Field(description="Windows of this size, overlapping.")] = (
        None
    )
    every: Annotated[
        PositiveDuration | None, Field(description="With hopping: how often a window starts.")
    ] = None


class JoinSpec(Model):
    """Records of another stream with the same key, close in time."""

    with_: Annotated[str, Field(alias="with", description="The other node: the right side.")]
    by: Annotated[
        list[str] | None,
        Field(
            min_length=1,
            description="Columns of the left side, matched to the right side's key. Default: the left key.",
        ),
    ] = None
    type: Annotated[
        str,
        BeforeValidator(lambda value: one_of(value, ("inner",), ("left", "outer"))),
        Field(
            description="Which records without a partner stay: inner, none.",
            json_schema_extra={"enum": ["inner"]},
        ),
    ] = "inner"
    within: Annotated[
        Duration | None, Field(description="How far apart in event time two records may be.")
    ] = None
    grace: Annotated[Duration, Field(description="How long to wait for late records.")] = "0s"
    select: Annotated[
        Expressions | None,
        Field(description="The result's columns. In the expressions a column is NODE.column."),
    ] = None


def _group(value: Any) -> Any:
    if isinstance(value, dict) and len(value) != 1:
        refuse(
            f"one item of groupBy is one column, and this has {len(value)}",
            "write each as an item of its own: [{a: …}, {b: …}]; the order makes the key",
        )
    if not isinstance(value, str | dict):
        refuse(
            "an item of groupBy is a column, or {name: expression}",
            "e.g. groupBy: [user, {day: date(timestamp)}]",
        )
    return value


GroupItem = Annotated[str | dict[str, str], BeforeValidator(_group)]


class NodeSpec(Model):
    """A node: its name, where its input comes from, and exactly one operation."""

    name: Annotated[str, Field(description="Unique name. It names the node's store and internal topics.")]
    from_: Annotated[
        str | None,
        Field(
            alias="from",
            description="The node to read. Default: the node above, where that is no sink and no branch.",
        ),
    ] = None
    stream: Annotated[StreamSpec | None, Field(description="Reads topics.")] = None
    filter: operations.filter.Given = None
    select: operations.select.Given = None
    with_: operations.with_columns.Given = None
    flat_map: operations.flat_map.Given = None
    key_by: operations.key_by.Given = None
    merge: Annotated[
        list[str] | None, Field(min_length=2, description="Streams with the same columns, as one.")
    ] = None
    branch: Annotated[
        list[ArmSpec] | None,
        Field(min_length=1, max_length=MOST_BRANCHES, description="Splits by the first match."),
    ] = None
    group_by: Annotated[
        list[GroupItem] | None,
        Field(min_length=1, description="Group columns in the key's order: a column, or {name: expression}."),
    ] = None
    aggregate: Annotated[
        Expressions | None, Field(description="With groupBy: column to aggregate expression.")
    ] = None
    window: Annotated[WindowSpec | None, Field(description="With groupBy: windows in event time.")] = None
    grace: Annotated[
        Duration | None, Field(description="With window: how late a record may come. Default: 0s.")
    ] = None
    emit: Annotated[
        str | None,
        BeforeValidator(lambda value: one_of(value, ("updates", "final")) if value is not None else None),
        Field(
            description="With groupBy: `updates` (every change, the default) or `final` (closed windows).",
            json_schema_extra={"enum": ["updates", "final"]},
        ),
    ] = None
    store: Annotated[str | None, Field(description="Name of the node's store. Default: the node's name.")] = (
        None
    )
    join: Annotated[JoinSpec | None, Field(description="Joins another stream.")] = None
    python: operations.python.Given = None
    to: operations.to.Given = None

    @property
    def operation(self) -> str:
        """Which of OPERATIONS the node is."""
        given = {info.alias: getattr(self, field) for field, info in type(self).model_fields.items()}
        return next(name for name in OPERATIONS if given[name] is not None)
