# SPDX-License-Identifier: Apache-2.0
"""One file per operation (decision 64)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar, Protocol

from streamapp.nodes import Node
from streamapp.operations import (
    branch,
    cogroup,
    column_lookup,
    deduplicate,
    duality,
    filter,
    flat_map,
    foreign_key_join,
    group_by,
    join,
    joining,
    key_by,
    late,
    merge,
    python,
    select,
    stream,
    suppress,
    table,
    to,
    top,
    window,
    with_columns,
)
from streamapp.operations.branch import Arm, Branch
from streamapp.operations.cogroup import Cogroup, CogroupedRecords
from streamapp.operations.column_lookup import ColumnLookup
from streamapp.operations.deduplicate import Deduplicate
from streamapp.operations.duality import ToStream, ToTable
from streamapp.operations.filter import Filter
from streamapp.operations.flat_map import FlatMap
from streamapp.operations.foreign_key_join import ForeignKeyJoin, ForeignResults, ForeignRows
from streamapp.operations.group_by import Aggregate
from streamapp.operations.join import Join
from streamapp.operations.key_by import KeyBy
from streamapp.operations.making import Making
from streamapp.operations.merge import Merge
from streamapp.operations.python import Python
from streamapp.operations.select import Select
from streamapp.operations.stream import Stream
from streamapp.operations.suppress import Suppress
from streamapp.operations.table import GlobalTable, Table
from streamapp.operations.table_join import TableJoin
from streamapp.operations.to import Sink
from streamapp.operations.window import Window
from streamapp.operations.with_columns import With
from streamapp.outline import Outline

if TYPE_CHECKING:
    from streamapp.manifest.node import NodeSpec


class Operation(Protocol):
    """The class of an operation: its members besides those of every node."""

    operation: ClassVar[str]
    outline: ClassVar[Outline]

    @classmethod
    def of(cls, spec: NodeSpec, making: Making) -> Iterable[Node]:
        """The nodes that a node of the manifest with this operation stands for; the first has its name."""


OPERATIONS: tuple[type[Operation], ...] = (
    Stream,
    Table,
    GlobalTable,
    Filter,
    Select,
    With,
    FlatMap,
    KeyBy,
    Merge,
    Branch,
    Aggregate,
    Deduplicate,
    Join,
    ToTable,
    ToStream,
    Suppress,
    Python,
    Sink,
)
"""The operations, in the order in which messages name them."""
BY_NAME = {cls.operation: cls for cls in OPERATIONS}

__all__ = [
    "BY_NAME",
    "OPERATIONS",
    "Aggregate",
    "Arm",
    "Branch",
    "Cogroup",
    "CogroupedRecords",
    "ColumnLookup",
    "Deduplicate",
    "Filter",
    "FlatMap",
    "ForeignKeyJoin",
    "ForeignResults",
    "ForeignRows",
    "GlobalTable",
    "Join",
    "KeyBy",
    "Making",
    "Merge",
    "Operation",
    "Python",
    "Select",
    "Sink",
    "Stream",
    "Suppress",
    "Table",
    "TableJoin",
    "ToStream",
    "ToTable",
    "Window",
    "With",
    "branch",
    "cogroup",
    "column_lookup",
    "deduplicate",
    "duality",
    "filter",
    "flat_map",
    "foreign_key_join",
    "group_by",
    "join",
    "joining",
    "key_by",
    "late",
    "merge",
    "python",
    "select",
    "stream",
    "suppress",
    "table",
    "to",
    "top",
    "window",
    "with_columns",
]
