# SPDX-License-Identifier: Apache-2.0
"""`join` with `within`: pairs of records of two streams."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

from streamapp.durations import format_duration, parse_duration
from streamapp.errors import Problem
from streamapp.nodes import RECORD_COLUMNS, STREAM, TABLE, Columns, Node, Origins, Topology
from streamapp.nodes.pairs import Pairs, described
from streamapp.operations.joining import PAIRING, Given, Joining, sides_of
from streamapp.operations.late import with_late_records
from streamapp.operations.making import Making
from streamapp.operations.steps import ColumnMap, Steps, given
from streamapp.operations.table_join import TableJoin
from streamapp.origins import all_declared
from streamapp.outline import Outline

if TYPE_CHECKING:
    from streamapp.manifest.node import NodeSpec

__all__ = ["Given", "Join", "JoinStep"]


def _described(before_ms: int, after_ms: int) -> str:
    """
    >>> _described(90_000, 90_000), _described(0, 3_600_000)
    ('90s', '0s before to 1 hour after')
    """
    before, after = format_duration(before_ms), format_duration(after_ms)
    return before if before == after else f"{before} before to {after} after"


_BOTH_SIDES = 2
"""The layout of the state: since 2 that of an operator of ours. Another number makes another fingerprint."""


@dataclass(frozen=True)
class Join(Joining):
    """Pairs of a left and a right record with equal keys and event times that are near enough."""

    left: str
    right: str
    by: tuple[str, ...]
    """Columns of the left side, matched in order to `match`; none: its key."""
    type: str
    before_ms: int
    """How much earlier than the left record the right one may be."""
    after_ms: int
    """How much later than the left record the right one may be."""
    grace_ms: int
    select: Pairs | None
    """The result's columns; in the expressions a column is `NODE.column`. None: both sides' columns."""
    store: str
    left_as: str = ""
    """The name that `select` uses for the left side; empty: its node's name."""
    right_as: str = ""
    match: tuple[str, ...] = ()
    """Columns of the right side; none: its key."""
    late: str | None = None
    """The topic that late records of both sides go to; None: none."""

    operation: ClassVar[str] = "join"
    outline: ClassVar[Outline] = Outline(
        inner_rules={"join": PAIRING},
        columns=(("join", "select"), ("join", "match")),
        aside=tuple(("join", field) for field in ("type", "within", "before", "after", "grace", "asOf", "late")),
    )
    keyed: ClassVar[bool] = True

    @classmethod
    def of(cls, spec: NodeSpec, making: Making) -> tuple[Node, ...]:
        join = spec.join
        assert join is not None
        if join.within is None and join.before is None and join.after is None:
            return (
                TableJoin(
                    spec.name,
                    **sides_of(join, making),
                    grace=join.grace,
                    as_of=bool(join.as_of),
                    store=spec.store or "",
                ),
            )
        made = cls(
            spec.name,
            **sides_of(join, making),
            before_ms=parse_duration(join.within or join.before or "0s"),
            after_ms=parse_duration(join.within or join.after or "0s"),
            grace_ms=parse_duration(join.grace or "0s"),
            store=spec.store or spec.name,
            late=join.late.topic if join.late is not None else None,
        )
        return with_late_records(made, made.late, "join.late")

    @property
    def in_task(self) -> bool:
        return True

    def met_by(self, name: str) -> tuple[str, ...]:
        if self.left == self.right and self.by != self.match:
            return ("",)  # its rows go to two places, and none of its keys leads to both
        return self.by if name == self.left else self.match

    @property
    def lag_ms(self) -> int:
        return max(self.before_ms, self.after_ms) + self.grace_ms

    @property
    def gives_later(self) -> str | None:
        return None if self.type == "inner" else "a partner that may still come"

    @property
    def stores(self) -> tuple[str, ...]:
        return (self.store,)

    def output_kind(self, inputs: Sequence[str]) -> str:
        return STREAM

    def hop_name(self, upstream: str) -> str:
        return f"{self.store}-{'left' if upstream == self.left else 'right'}"

    def description(self, inputs: Sequence[Columns]) -> str:
        left, right = self.aliases
        by = zip(*self.matched(inputs[0].key, inputs[1].key), strict=True)
        matched = ", ".join(f"{left}.{ours} = {right}.{theirs}" for ours, theirs in by)
        text = f"{self.type}, {matched}, within {_described(self.before_ms, self.after_ms)}"
        text += f", grace {format_duration(self.grace_ms)}"
        return text + (f": {described(self.select)}" if self.select is not None else "")

    def check(self, topology: Topology) -> Iterator[Problem]:
        for side in dict.fromkeys(self.inputs):
            if topology.kind(side) == TABLE:
                message = f"'{side}' is a table, and `within` is for two streams"
                yield Problem(self.name, "join", side, message, "remove `within`, or join the streams")
        yield from self.check_columns(topology)
        yield from self.check_deterministic()

    def state_shape(self, inputs: Sequence[Columns], before: Sequence[Origins]) -> Any:
        left, right = inputs
        by = zip(*self.matched(left.key, right.key), strict=True)
        return {
            "operation": "join",
            "layout": _BOTH_SIDES,
            "type": self.type,
            "within": [self.before_ms, self.after_ms],
            "key": [[before[0][ours.lower()], before[1][theirs.lower()]] for ours, theirs in by],
            "left": all_declared(left.fields, before[0]),
            "right": all_declared(right.fields, before[1]),
            **({"fields": fields} if any(fields := self._record_fields(inputs)) else {}),
        }

    def _record_fields(self, inputs: Sequence[Columns]) -> list[list[str]]:
        """The records' own columns that `select` uses, for each side: a join keeps those, and no others."""
        return [
            [n for n in RECORD_COLUMNS if f"{alias}.{n}".lower() in self.used and columns.find(n) not in columns.value]
            for alias, columns in zip(self.aliases, inputs, strict=True)
        ]


class JoinStep(Steps):
    """The builder's method."""

    def join(
        self,
        name: str,
        other: Steps,
        *,
        within: str | None = None,
        before: str | None = None,
        after: str | None = None,
        by: list[str] | None = None,
        match: Mapping[str, str] | None = None,
        type: str | None = None,
        grace: str | None = None,
        as_of: bool | None = None,
        late: str | None = None,
        select: ColumnMap | None = None,
        store: str | None = None,
    ) -> Self:
        """Joins another stream, or a table, whose key equals the columns `by` (default: the key) of this one, or two
        columns of each pair of `match`.

        >>> from streamapp.builder import StreamBuilder
        >>> b = StreamBuilder("app")
        >>> orders, paid = b.stream("orders", topic="a"), b.stream("paid", topic="b")
        >>> _ = orders.join("both", paid, within="5 minutes", select={"order": "orders.value", "bill": "paid.value"})
        >>> b.build().spec.topology[2].join.with_
        'paid'
        """
        near = {"within": within, "before": before, "after": after, "grace": grace, "asOf": as_of}
        topic = {"topic": late} if late is not None else None
        fields = given(by=by, match=match, type=type, **near, late=topic, select=dict(select) if select else None)
        found: Self = self._then(name, join={"with": other.name, **fields}, store=store)
        return found
