# SPDX-License-Identifier: Apache-2.0
"""The model of one node of the manifest."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from streamapp import operations
from streamapp.companions import Rule, Rules
from streamapp.fields import Model

OPERATIONS = tuple(operations.BY_NAME)
"""Exactly one of these makes a node."""
OUTLINES = tuple(cls.outline for cls in operations.OPERATIONS)
RULES: Rules = tuple(
    sorted(
        (rule for outline in OUTLINES for rule in outline.rules),
        key=lambda rule: isinstance(rule, Rule) and bool(rule.excludes),
    )
)
"""Which fields of a node go together: missing fields are reported before those that are too much."""
INNER_RULES: dict[str, Rules] = {field: rules for outline in OUTLINES for field, rules in outline.inner_rules.items()}
"""The same for the objects in a node, by field."""
COLUMNS = tuple(place for outline in OUTLINES for place in outline.columns)
"""Where maps of columns to expressions stand in a node."""
COMPANIONS = tuple(
    dict.fromkeys(
        rule.field for rule in RULES if isinstance(rule, Rule) and rule.needs and rule.field not in OPERATIONS
    )
)
"""Fields of a node that are no operation."""

NOT_YET: dict[str, tuple[str, ...]] = {
    "node": (
        "sql",
        "process",
    ),
    "stream": ("connector", "options"),
    "to": ("connector", "options"),
    "kafka": ("schemaRegistry",),
}
"""Fields of the manifest's language that this version does not have, by the object they would be in."""

LATER = frozenset(name for names in NOT_YET.values() for name in names)

NOT_YET_OPERATIONS = NOT_YET["node"]


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
    stream: operations.stream.Given = None
    table: operations.table.Given = None
    global_table: operations.table.GlobalGiven = None
    filter: operations.filter.Given = None
    select: operations.select.Given = None
    with_: operations.with_columns.Given = None
    flat_map: operations.flat_map.Given = None
    key_by: operations.key_by.Given = None
    merge: operations.merge.Given = None
    branch: operations.branch.Given = None
    group_by: operations.group_by.Given = None
    aggregate: operations.group_by.Aggregates = None
    reduce: operations.group_by.Reduce = None
    top: operations.top.Given = None
    cogroup: operations.cogroup.Given = None
    window: operations.window.Given = None
    grace: operations.group_by.Grace = None
    retention: operations.group_by.Retention = None
    ttl: operations.group_by.Expires = None
    late: operations.late.Given = None
    emit: operations.group_by.Emit = None
    store: Annotated[str | None, Field(description="Name of the node's store. Default: the node's name.")] = None
    deduplicate: operations.deduplicate.Given = None
    join: operations.join.Given = None
    to_table: operations.duality.ToTableGiven = None
    to_stream: operations.duality.ToStreamGiven = None
    suppress: operations.suppress.Given = None
    python: operations.python.Given = None
    to: operations.to.Given = None

    @property
    def operation(self) -> str:
        """Which of OPERATIONS the node is."""
        given = {info.alias: getattr(self, field) for field, info in type(self).model_fields.items()}
        return next(name for name in OPERATIONS if given[name] is not None)
