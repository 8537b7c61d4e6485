# SPDX-License-Identifier: Apache-2.0
"""One file per operation (decision 64). Those that are not here yet are in `nodes`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar, Protocol

from streamapp.nodes import Node
from streamapp.operations import filter, flat_map, key_by, python, select, to, with_columns
from streamapp.operations.filter import Filter
from streamapp.operations.flat_map import FlatMap
from streamapp.operations.key_by import KeyBy
from streamapp.operations.making import Making
from streamapp.operations.python import Python
from streamapp.operations.select import Select
from streamapp.operations.to import Sink
from streamapp.operations.with_columns import With

if TYPE_CHECKING:
    from streamapp.manifest.node import NodeSpec


class Operation(Protocol):
    """What the class of an operation has besides what every node has."""

    operation: ClassVar[str]

    @classmethod
    def of(cls, spec: NodeSpec, making: Making) -> Iterable[Node]:
        """The nodes that a node of the manifest with this operation stands for; the first has its name."""


OPERATIONS: tuple[type[Operation], ...] = (Filter, Select, With, FlatMap, KeyBy, Python, Sink)
BY_NAME = {cls.operation: cls for cls in OPERATIONS}

__all__ = [
    "BY_NAME",
    "OPERATIONS",
    "Filter",
    "FlatMap",
    "KeyBy",
    "Making",
    "Operation",
    "Python",
    "Select",
    "Sink",
    "With",
    "filter",
    "flat_map",
    "key_by",
    "python",
    "select",
    "to",
    "with_columns",
]
