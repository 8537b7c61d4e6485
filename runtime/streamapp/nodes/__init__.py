# SPDX-License-Identifier: Apache-2.0
"""The topology as data: typed nodes, each with the user's own name, and the columns that flow between them."""

from __future__ import annotations

from streamapp.nodes.columns import RECORD_COLUMNS, Columns
from streamapp.nodes.internal import (
    Broken,
    DeadLetter,
    LateRecords,
    MovesSource,
    RepartitionSink,
    RepartitionSource,
    is_given,
)
from streamapp.nodes.node import STREAM, TABLE, Node, NodeExpression, OneInput, Origin, Origins, Role, StoredTable
from streamapp.nodes.topology import Topology, sort_nodes

__all__ = [
    "RECORD_COLUMNS",
    "STREAM",
    "TABLE",
    "Broken",
    "Columns",
    "DeadLetter",
    "LateRecords",
    "MovesSource",
    "Node",
    "NodeExpression",
    "OneInput",
    "Origin",
    "Origins",
    "RepartitionSink",
    "RepartitionSource",
    "Role",
    "StoredTable",
    "Topology",
    "is_given",
    "sort_nodes",
]
