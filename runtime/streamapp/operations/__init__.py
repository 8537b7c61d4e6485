# SPDX-License-Identifier: Apache-2.0
"""One file per operation (decision 64). Those that are not here yet are in `nodes`."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

from streamapp.nodes import Node
from streamapp.operations.filter import Filter


class Operation(Protocol):
    """What the class of an operation has besides what every node has."""

    operation: ClassVar[str]

    @classmethod
    def of(cls, name: str, source: str, given: Any) -> Node:
        """The node.

        Args:
            name: of the node.
            source: the node that it reads.
            given: the field of the manifest.
        """


OPERATIONS: tuple[type[Operation], ...] = (Filter,)

__all__ = ["OPERATIONS", "Filter", "Operation"]
