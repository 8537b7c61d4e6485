# SPDX-License-Identifier: Apache-2.0
"""`join` of a stream with a global table by columns that are not the table's key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from streamapp.errors import Problem
from streamapp.nodes import Columns, Origins, Topology
from streamapp.operations.table_join import TableJoin
from streamapp.origins import all_declared
from streamapp.scope import listed

__all__ = ["ColumnLookup"]


@dataclass(frozen=True)
class ColumnLookup(TableJoin):
    """A stream's record meets all rows that have its values in some columns, and keeps its key.

    The table's rows lie with the tasks of their key. So its changes go by an internal topic to the tasks of these
    columns, which keep the rows by them (decision 106).
    """

    operation: ClassVar[str] = "lookup by columns"

    @property
    def _own_store(self) -> str:
        return self.store or self.name

    @property
    def stores(self) -> tuple[str, ...]:
        return (self._own_store,)

    @property
    def tables_needed(self) -> tuple[str, ...]:
        return ()

    def met_by(self, name: str) -> tuple[str, ...]:
        return self.by if name == self.left else self.match

    def hop_name(self, upstream: str) -> str:
        return f"{self._own_store}-{'left' if upstream == self.left else 'right'}"

    def check(self, topology: Topology) -> Iterator[Problem]:
        if self.as_of:
            found = f"earlier versions of the rows of '{self.right}' are found by its key"
            message = f"{found}, and not by {listed(self.match)}"
            yield Problem(self.name, "join.asOf", None, message, "remove `asOf`, or match the table's key")
        elif self.grace is not None:
            yield self.without_grace(self.grace)
        if self.type == "outer":
            yield self.outer_with_table()
        yield from self.check_columns(topology)
        yield from self.check_deterministic()

    def state_shape(self, inputs: Sequence[Columns], before: Sequence[Origins]) -> Any:
        """The shape of the table's rows, and the columns that they are found by."""
        (_, right), (_, origins) = inputs, before
        return {
            "operation": "rows by columns",
            "by": [origins[name.lower()] for name in self.match],
            "key": [origins[name.lower()] for name in right.key],
            "values": all_declared(right.value, origins),
        }
