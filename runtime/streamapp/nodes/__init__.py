# SPDX-License-Identifier: Apache-2.0
"""The topology as data: typed nodes, each with the user's own name, and what flows between them."""

from __future__ import annotations

from streamapp.nodes.columns import RECORD_COLUMNS, Columns
from streamapp.nodes.operations import (
    Aggregate,
    Arm,
    Branch,
    Broken,
    DeadLetter,
    Filter,
    FlatMap,
    Join,
    KeyBy,
    Merge,
    Node,
    Python,
    RepartitionSink,
    RepartitionSource,
    Select,
    Sink,
    Stream,
    Window,
    With,
    is_given,
    with_inputs,
)
from streamapp.nodes.topology import STREAM, TABLE, Topology, sort_nodes

__all__ = [
    "RECORD_COLUMNS",
    "STREAM",
    "TABLE",
    "Aggregate",
    "Arm",
    "Branch",
    "Broken",
    "Columns",
    "DeadLetter",
    "Filter",
    "FlatMap",
    "Join",
    "KeyBy",
    "Merge",
    "Node",
    "Python",
    "RepartitionSink",
    "RepartitionSource",
    "Select",
    "Sink",
    "Stream",
    "Topology",
    "Window",
    "With",
    "is_given",
    "sort_nodes",
    "with_inputs",
]
