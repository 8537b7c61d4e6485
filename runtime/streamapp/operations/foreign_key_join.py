# SPDX-License-Identifier: Apache-2.0
"""`join` of a table with another by columns that are not its key: a foreign-key join."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

from streamapp.errors import Problem
from streamapp.nodes import STREAM, TABLE, Columns, OneInput, Origins, StoredTable, Topology
from streamapp.nodes.columns import HIDDEN_KEY
from streamapp.nodes.pairs import Pairs
from streamapp.operations.column_lookup import ColumnLookup
from streamapp.operations.table import GlobalTable
from streamapp.operations.table_join import TableJoin, origin_of
from streamapp.origins import all_declared
from streamapp.scope import listed

__all__ = ["ForeignKeyJoin", "ForeignResults", "ForeignRows", "settled"]


@dataclass(frozen=True)
class ForeignKeyJoin(TableJoin):
    """Each row of the left table with the right table's row that it names. Its result has the left row's key.

    No plan has it: the compiler puts ForeignRows and ForeignResults in its place (decision 80).
    """

    operation: ClassVar[str] = "join by a foreign key"

    @property
    def stores(self) -> tuple[str, ...]:
        return (self.store,)

    @property
    def left_hop(self) -> str:
        """The name of the internal topic with the left table's changes, and of the store with its rows beside those
        that they name."""
        return f"{self.store}-left"

    def hop_name(self, upstream: str) -> str:
        return self.left_hop if upstream == self.left else f"{self.store}-right"

    def key_of(self, left: Columns) -> tuple[str, ...]:
        return left.key

    def stored_table(self, store: str, inputs: Sequence[Columns] = ()) -> StoredTable | None:
        return stored_results(self.output_columns(inputs))

    def check(self, topology: Topology) -> Iterator[Problem]:
        if self.as_of:
            yield from self._check_history(topology, TABLE)
        elif self.grace is not None:
            yield self.without_grace(self.grace)
        if self.type == "outer":
            message = (
                f"an outer join by {listed(self.by)}: a row of '{self.right}' that no row of '{self.left}' names has "
                "no key in the result"
            )
            fix = f"write left, or inner; or group '{self.left}' by {listed(self.by)} before"
            yield Problem(self.name, "join.type", "outer", message, fix)
        yield from self.check_found_by_key(topology, self.right, self.match)
        yield from self.check_columns(topology)
        yield from self.check_deterministic()

    def _check_select(
        self, select: Pairs, topology: Topology, by: tuple[str, ...], on: tuple[str, ...]
    ) -> Iterator[Problem]:
        yield from super()._check_select(select, topology, topology.columns(self.left).key, ())

    def state_shape(self, inputs: Sequence[Columns], before: Sequence[Origins]) -> Any:
        """The shape of both stores. The results of `select` are kept, so that another expression is another state."""
        left, right = inputs
        ours, theirs = self.matched(left.key, right.key)
        origins = self.origins(inputs, before)
        return {
            "operation": "foreign-key join",
            "type": self.type,
            "key": [before[0][name.lower()] for name in left.key],
            "by": [[before[0][one.lower()], before[1][other.lower()]] for one, other in zip(ours, theirs, strict=True)],
            "left": all_declared(left.fields, before[0]),
            "result": {name.lower(): origins[name.lower()] for name in self.output_columns(inputs).value},
        }


@dataclass(frozen=True)
class ForeignRows(ForeignKeyJoin):
    """Keeps each row of the left table by the key that it names, in the task of the right table, and gives the rows'
    results as a stream."""

    of: str = ""
    """The join of the manifest."""

    operation: ClassVar[str] = "foreign-key join"

    @property
    def owner(self) -> str:
        return self.of

    @property
    def stores(self) -> tuple[str, ...]:
        return (self.left_hop,)

    def output_kind(self, inputs: Sequence[str]) -> str:
        return STREAM

    def stored_table(self, store: str, inputs: Sequence[Columns] = ()) -> StoredTable | None:
        return None


@dataclass(frozen=True)
class ForeignResults(OneInput):
    """Keeps the latest result of each row of the left table; those of a place that it has left have no effect."""

    store: str

    operation: ClassVar[str] = "foreign-key results"
    keyed: ClassVar[bool] = True

    @property
    def in_task(self) -> bool:
        return True

    @property
    def stores(self) -> tuple[str, ...]:
        return (self.store,)

    def output_kind(self, inputs: Sequence[str]) -> str:
        return TABLE

    def description(self, inputs: Sequence[Columns]) -> str:
        return f"results by {inputs[0].key_in_words}"

    def stored_table(self, store: str, inputs: Sequence[Columns] = ()) -> StoredTable:
        return stored_results(inputs[0])


def stored_results(columns: Columns) -> StoredTable:
    """A store of results with these columns, as it can be queried."""
    return StoredTable(tuple("key" if name == HIDDEN_KEY else name for name in columns.key), columns.value, False)


def settled(join: TableJoin, topology: Topology) -> TableJoin:
    """The join, by the kinds of its sides: one of two tables by other columns than the left one's key is a foreign-key
    join; a stream's record keeps its key where it looks a global table up, and may do that by any columns."""
    kinds = topology.kind(join.left), topology.kind(join.right)
    left, right = topology.columns(join.left), topology.columns(join.right)
    if kinds == (STREAM, TABLE):
        is_global = bool(join.by) and isinstance(origin_of(topology, join.right), GlobalTable)
        made = replace(join, keeps_key=is_global)
        found_by_key = not right.known or not join.match or _lowered(join.match) == _lowered(right.key)
        if found_by_key or not is_global:
            return made
        # The store's keys have the table's columns in an order that depends on the table alone.
        pairs = sorted(zip(made.by, made.match, strict=True), key=lambda pair: pair[1].lower())
        by, match = zip(*pairs, strict=True)
        return _as(ColumnLookup, replace(made, by=by, match=match))
    if kinds != (TABLE, TABLE) or not join.by:
        return join
    if not (left.known and right.known) or _lowered(join.by) == _lowered(left.key):
        return join
    by, match = join.by, join.match
    if sorted(_lowered(match)) == sorted(_lowered(right.key)):
        # The manifest's pairs have no order; the key's columns have one.
        place = {name.lower(): i for i, name in enumerate(match)}
        in_order = [place[name.lower()] for name in right.key]
        by, match = tuple(by[i] for i in in_order), tuple(match[i] for i in in_order)
    return _as(ForeignKeyJoin, replace(join, by=by, match=match, store=join.store or join.name))


def _as(kind: type[TableJoin], join: TableJoin) -> TableJoin:
    """The same fields in a join of that class."""
    return kind(**{field.name: getattr(join, field.name) for field in fields(join)})


def _lowered(names: tuple[str, ...]) -> list[str]:
    return [name.lower() for name in names]
