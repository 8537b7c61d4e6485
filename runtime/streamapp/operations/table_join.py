# SPDX-License-Identifier: Apache-2.0
"""`join` with a table: a stream's records with the row of the moment, or the rows of two tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from streamapp.durations import format_duration, parse_duration
from streamapp.errors import Problem
from streamapp.nodes import RECORD_COLUMNS, STREAM, TABLE, Columns, Node, Origins, Topology, is_given
from streamapp.nodes.pairs import Pairs, described
from streamapp.operations.joining import NEEDS_WITHIN, Joining
from streamapp.operations.table import Table
from streamapp.origins import all_typed
from streamapp.scope import listed


@dataclass(frozen=True)
class TableJoin(Joining):
    """Rows whose keys are equal. It keeps no state of its own: the tables do.

    A record of a stream meets the row that the table has at that time. A change of either of two tables is a change of
    the result.
    """

    left: str
    right: str
    by: tuple[str, ...] = ()
    """Columns of the left side, matched in order to `match`; none: its key."""
    type: str = "inner"
    select: Pairs | None = None
    """The result's columns; in the expressions a column is `NODE.column`. None: both sides' columns."""
    left_as: str = ""
    right_as: str = ""
    match: tuple[str, ...] = ()
    grace: str | None = None
    """How long records wait, with `as_of`, as it was given."""
    store: str = ""
    """The store's name as it was given: records wait there, and a foreign-key join keeps its results there. Empty: the
    node's name."""
    as_of: bool = False
    """Whether a record meets the row that was there at its own event time."""

    keeps_key: bool = False
    """Whether the result has the left side's own key: a stream's record that has looked a global table up."""

    operation: ClassVar[str] = "table join"
    keyed: ClassVar[bool] = True

    @property
    def in_task(self) -> bool:
        return True

    @property
    def grace_ms(self) -> int:
        """For how long a record waits."""
        return parse_duration(self.grace or "0s")

    @property
    def holds_back(self) -> bool:
        """Whether records wait."""
        return self.as_of and self.grace is not None

    @property
    def leaves_task(self) -> bool:
        return self.holds_back or self.keeps_key

    def key_of(self, left: Columns) -> tuple[str, ...]:
        return left.key if self.keeps_key else super().key_of(left)

    @property
    def lag_ms(self) -> int:
        return self.grace_ms if self.holds_back else 0

    @property
    def gives_later(self) -> str | None:
        return "the end of their grace" if self.holds_back else None

    @property
    def stores(self) -> tuple[str, ...]:
        return (self.store or self.name,) if self.holds_back else ()

    @property
    def tables_needed(self) -> tuple[str, ...]:
        return (self.right,)

    def met_by(self, name: str) -> tuple[str, ...]:
        return self.by

    def output_kind(self, inputs: Sequence[str]) -> str:
        return inputs[0]

    def hop_name(self, upstream: str) -> str:
        return f"{self.name}-{'left' if upstream == self.left else 'right'}"

    def description(self, inputs: Sequence[Columns]) -> str:
        left, right = self.aliases
        by = zip(*self.matched(inputs[0].key, inputs[1].key), strict=False)
        text = f"{self.type}, {', '.join(f'{left}.{ours} = {right}.{theirs}' for ours, theirs in by)}"
        text += ", keeps its key" if self.keeps_key else ""
        text += ", as of the record's time" if self.as_of else ""
        text += f", held back for {format_duration(self.grace_ms)}" if self.holds_back else ""
        return text + (f": {described(self.select)}" if self.select is not None else "")

    def check(self, topology: Topology) -> Iterator[Problem]:
        kinds = topology.kind(self.left), topology.kind(self.right)
        if kinds == (STREAM, STREAM):
            yield Problem(self.name, "join.within", None, *NEEDS_WITHIN)
        elif kinds == (TABLE, STREAM):
            message = (
                f"'{self.left}' is a table and '{self.right}' a stream: the stream's records look rows of the table up"
            )
            fix = f"change the sides: from: {self.right}, join: {{with: {self.left}}}"
            yield Problem(self.name, "join", self.right, message, fix)
        else:
            yield from self._check_sides(topology, *kinds)
        yield from self.check_columns(topology)
        yield from self.check_deterministic()

    def _check_sides(self, topology: Topology, left: str, right: str) -> Iterator[Problem]:
        if self.as_of:
            yield from self._check_history(topology, left)
        elif self.grace is not None:
            yield self.without_grace(self.grace)
        if self.store and not self.holds_back:
            message = "the join keeps nothing: it is computed of what its tables keep"
            yield Problem(self.name, "store", self.store, message, "remove `store`")
        if self.left == self.right:
            yield Problem(self.name, "join.with", self.right, "a table is joined with itself", "use `select`")
        if left == STREAM and self.type == "outer":
            yield self.outer_with_table()
        yield from self.check_found_by_key(topology, self.left, self.by if left == TABLE else ())
        yield from self.check_found_by_key(topology, self.right, self.match)

    def outer_with_table(self) -> Problem:
        """The problem of a stream's `outer` join."""
        message = f"an outer join of a stream with a table: a row of '{self.right}' gives no result by itself"
        return Problem(self.name, "join.type", "outer", message, "write left, or inner")

    def _check_select(
        self, select: Pairs, topology: Topology, by: tuple[str, ...], on: tuple[str, ...]
    ) -> Iterator[Problem]:
        if self.keeps_key:
            by, on = topology.columns(self.left).key, ()
        yield from super()._check_select(select, topology, by, on)

    def _check_history(self, topology: Topology, left: str) -> Iterator[Problem]:
        if left == TABLE:
            message = f"'{self.left}' is a table: its rows stand for no moment, as a stream's records do"
            yield Problem(self.name, "join.asOf", None, message, "remove `asOf`")
            return
        node = origin_of(topology, self.right)
        if not is_given(node):
            return
        if not isinstance(node, Table):
            message = f"'{self.right}' is computed, and keeps no history: only a `table` that reads a topic does"
            fix = "write what it is to a topic, and read that with table: {history: …}; or remove `asOf`"
            yield Problem(self.name, "join.asOf", None, message, fix)
        elif not node.history_ms:
            message = f"'{node.name}' keeps no history"
            yield Problem(self.name, "join.asOf", None, message, f"add it to '{node.name}', e.g. history: 1 hour")
        elif self.grace_ms > node.history_ms:
            message = (
                f"records wait for {self.grace}, and '{node.name}' has a history of "
                f"{format_duration(node.history_ms)}: the rows that they are to meet would be gone"
            )
            yield Problem(
                self.name, "join.grace", self.grace, message, f"make it shorter, or the history of '{node.name}' longer"
            )

    def check_found_by_key(self, topology: Topology, side: str, names: tuple[str, ...]) -> Iterator[Problem]:
        """A problem where rows of a table are to be found by other columns than its key."""
        key = topology.key_columns(side)
        if names and [name.lower() for name in names] != [name.lower() for name in key]:
            message = f"rows of the table '{side}' are found by its key, {listed(key)}, and not by {listed(names)}"
            other = f"group '{side}' by {listed(names)} before"
            if isinstance(origin_of(topology, side), Table) and topology.kind(self.left) == STREAM:
                other = "read its topic as a `globalTable`, whose rows a stream finds by any columns"
            fix = f"{other}, or name its key"
            yield Problem(self.name, self.matched_in, ", ".join(names), message, fix)

    def without_grace(self, grace: str) -> Problem:
        """The problem of a `grace` of a join that waits for nothing."""
        message = "`grace` is for joins whose records wait: of two streams, or of a stream with a table and `asOf`"
        return Problem(self.name, "join.grace", grace, message, "remove it")

    def state_shape(self, inputs: Sequence[Columns], before: Sequence[Origins]) -> Any:
        """The shape of records that wait: they are kept as rows."""
        if not self.holds_back:
            return None
        (columns, _), (source, _) = inputs, before
        beside = (n for n in RECORD_COLUMNS if n in self.used_of_left and columns.find(n) not in columns.value)
        return {
            "operation": "held records",
            "key": [source[name.lower()] for name in columns.key],
            "values": all_typed(columns.value, source),
            "fields": sorted({*beside} - {"timestamp"}),
        }

    @cached_property
    def used_of_left(self) -> frozenset[str]:
        """The columns of the left side that the join uses, in lower case."""
        alias = self.aliases[0].lower()
        selected = {name.removeprefix(f"{alias}.") for name in self.used if name.startswith(f"{alias}.")}
        return frozenset(selected | {name.lower() for name in self.by})


def origin_of(topology: Topology, name: str) -> Node:
    """The node that has a table's rows, which others pass on row by row to the node of that name."""
    node = topology.node(name)
    while node.row_wise and len(node.inputs) == 1:
        node = topology.node(node.inputs[0])
    return node
