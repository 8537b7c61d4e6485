# SPDX-License-Identifier: Apache-2.0
"""`join`: pairs of records of two streams."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from pydantic import BeforeValidator, Field

from streamapp.companions import Rule, Rules
from streamapp.durations import format_duration, parse_duration
from streamapp.errors import Problem
from streamapp.expressions import normalise, quote, read_expression
from streamapp.fields import MOST_COLUMNS, Duration, Expressions, Model, one_of
from streamapp.nodes import (
    RECORD_COLUMNS,
    STREAM,
    TABLE,
    Columns,
    Node,
    NodeExpression,
    Origins,
    Role,
    Topology,
    is_given,
)
from streamapp.nodes.columns import with_event_time
from streamapp.nodes.pairs import Pairs, described, names_of, pairs_of, placed
from streamapp.operations.making import Making
from streamapp.operations.steps import ColumnMap, Steps, given
from streamapp.origins import UNKNOWN, all_declared, digest, kept
from streamapp.outline import Outline
from streamapp.scope import check_column, check_joined_expression, check_names, key_changed, listed

if TYPE_CHECKING:
    from streamapp.manifest.node import NodeSpec

TYPES = ("inner", "left", "outer")
SIDES = ("left", "right")


PAIRING: Rules = (
    Rule(
        "with",
        "`within` is missing",
        "a stream-stream join needs a window, e.g. within: 5 minutes, or before: 0s, after: 1 hour",
        needs=("within", "before", "after"),
        told="within",
    ),
    Rule(
        "within",
        "`within` stands for `before` and `after`",
        "remove it, or both of them",
        excludes=("before", "after"),
    ),
    Rule("match", "there are `by` and `match`", "remove `by`", excludes=("by",)),
)
"""Of the fields under `join`."""


def _described(before_ms: int, after_ms: int) -> str:
    """
    >>> _described(90_000, 90_000), _described(0, 3_600_000)
    ('90s', '0s before to 1 hour after')
    """
    before, after = format_duration(before_ms), format_duration(after_ms)
    return before if before == after else f"{before} before to {after} after"


class JoinSpec(Model):
    """Records of another stream with the same key, close in time."""

    with_: Annotated[str, Field(alias="with", description="The other node: the right side.")]
    by: Annotated[
        list[str] | None,
        Field(
            min_length=1,
            description="Columns of the left side, matched to the right side's key. Default: the left key.",
        ),
    ] = None
    match: Annotated[
        dict[str, str] | None,
        Field(
            min_length=1,
            max_length=MOST_COLUMNS,
            description="In place of `by`: columns of the left side, each with the column of the right side that is to "
            "equal it.",
        ),
    ] = None
    type: Annotated[
        str,
        BeforeValidator(lambda value: one_of(value, TYPES)),
        Field(
            description="Which records give a result without a partner, when none can come any more: inner (none), "
            "left (those of the left side) or outer (those of both).",
            json_schema_extra={"enum": list(TYPES)},
        ),
    ] = "inner"
    within: Annotated[
        Duration | None,
        Field(description="How far apart in event time two records may be: as `before` and `after` of this length."),
    ] = None
    before: Annotated[
        Duration | None,
        Field(description="How much earlier than the left record the right one may be. Default, with `after`: 0s."),
    ] = None
    after: Annotated[
        Duration | None,
        Field(description="How much later than the left record the right one may be. Default, with `before`: 0s."),
    ] = None
    grace: Annotated[Duration, Field(description="How long to wait for late records.")] = "0s"
    select: Annotated[
        Expressions | None,
        Field(
            description="The result's columns. In the expressions a column is NODE.column, or left.column and "
            "right.column."
        ),
    ] = None


Given = Annotated[JoinSpec | None, Field(description="Joins another stream.")]
"""The field of the manifest."""


_BOTH_SIDES = 2
"""How the state is laid out: since 2 by an operator of ours. Another number, another fingerprint."""


@dataclass(frozen=True)
class Join(Node):
    """Pairs of a left and a right record with equal keys and event times that are near enough."""

    left: str
    right: str
    by: tuple[str, ...]
    """Columns of the left side, matched in order to `match`; none: its key."""
    type: str
    before_ms: int
    """How much earlier than the left record the right one may be."""
    after_ms: int
    """How much later."""
    grace_ms: int
    select: Pairs | None
    """The result's columns; in the expressions a column is `NODE.column`. None: both sides' columns."""
    store: str
    left_as: str = ""
    """How `select` calls the left side; empty: by its node's name."""
    right_as: str = ""
    match: tuple[str, ...] = ()
    """Columns of the right side; none: its key."""

    operation: ClassVar[str] = "join"
    outline: ClassVar[Outline] = Outline(
        inner_rules={"join": PAIRING},
        columns=(("join", "select"), ("join", "match")),
        aside=tuple(("join", field) for field in ("type", "within", "before", "after", "grace")),
    )
    keyed: ClassVar[bool] = True

    @classmethod
    def of(cls, spec: NodeSpec, making: Making) -> tuple[Self, ...]:
        join, left = spec.join, making.input
        assert join is not None
        right = making.resolve("join.with", join.with_)
        by, match = tuple(join.by or ()), ()
        if join.match is not None:
            by, match = zip(*pairs_of(join.match), strict=True)
        select = pairs_of(join.select) if join.select is not None else None
        by_side = right == left or (not {left, right} & set(SIDES) and _sides_of(select or ()) & set(SIDES))
        left_as, right_as = SIDES if by_side else ("", "")
        made = cls(
            spec.name,
            left,
            right or making.stand_in("join.with"),
            by=by,
            type=join.type,
            before_ms=parse_duration(join.within or join.before or "0s"),
            after_ms=parse_duration(join.within or join.after or "0s"),
            grace_ms=parse_duration(join.grace),
            select=select,
            store=spec.store or spec.name,
            left_as=left_as,
            right_as=right_as,
            match=match,
        )
        return (made,)

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.left, self.right)

    @property
    def aliases(self) -> tuple[str, str]:
        """The names that `select` has for the two sides: those of the user's own nodes, or left and right."""
        return (self.left_as or self.left, self.right_as or self.right)

    def with_inputs(self, renamed: Mapping[str, str]) -> Self:
        """The join keeps its sides' names for its `select`."""
        if not any(name in renamed for name in self.inputs):
            return self
        left, right = (renamed.get(name, name) for name in self.inputs)
        left_as, right_as = self.aliases
        return replace(self, left=left, right=right, left_as=left_as, right_as=right_as)

    @property
    def timed(self) -> bool:
        return True

    @property
    def gives_later(self) -> str | None:
        return None if self.type == "inner" else "a partner that may still come"

    @property
    def stores(self) -> tuple[str, ...]:
        return (self.store,)

    @property
    def subtopology(self) -> str:
        """The store's name: it lasts as long as the state does, and the node may be renamed."""
        return self.store

    def expressions(self) -> tuple[NodeExpression, ...]:
        by = (NodeExpression(Role.KEY, self._field, name) for name in self.by)
        right = quote(self.aliases[1])
        on = (NodeExpression(Role.JOINED, self._field, f"{right}.{quote(name)}") for name in self.match)
        return (*by, *on, *placed(Role.JOINED, "join.select", self.select or ()))

    def matched(self, left: tuple[str, ...], right: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The columns of each side that rows meet by, where these are the sides' keys."""
        return self.by or left, self.match or right

    @property
    def _field(self) -> str:
        """Where the manifest says what rows meet by."""
        return "join.match" if self.match else "join.by"

    def output_kind(self, inputs: Sequence[str]) -> str:
        return STREAM

    def output_columns(self, inputs: Sequence[Columns]) -> Columns:
        left, right = inputs
        key = self.by or left.key
        if self.select is not None:
            names = names_of(self.select)
        else:
            names = tuple(dict.fromkeys((*left.fields, *right.fields)))
        keys = {name.lower() for name in key}
        value = tuple(name for name in names if name.lower() not in keys)
        return replace(with_event_time(key, value), known=left.known and right.known)

    @cached_property
    def used(self) -> frozenset[str]:
        """The columns that `select` uses, with the side that it has them of, in lower case."""
        return frozenset(name for _, text in self.select or () for name in _used(text))

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
                said = f"'{side}' is a table; only joins of two streams are available in this version"
                yield Problem(self.name, "join", side, said, "join the streams")
        left, right = topology.columns(self.left), topology.columns(self.right)
        by, on = self.matched(left.key, right.key)
        for names, columns, side in ((self.by, left, self.left), (self.match, right, self.right)):
            for name in names:
                hint = f"it is to be a column of '{side}'"
                yield from check_column(self.name, self._field, name, columns, hint=hint)
        if left.known and right.known and len(by) != len(on):
            yield Problem(
                self.name,
                "join.by",
                ", ".join(self.by) or None,
                f"{listed(by)} of '{self.left}' does not match the key of '{self.right}', {listed(right.key)}",
                f"name as many columns, or give '{self.right}' another key with a `keyBy` node",
            )
        if self.select is None:
            yield from self._check_clashes(left, right, by, on)
        else:
            yield from self._check_select(self.select, topology, by, on)

    def _check_select(
        self, select: Pairs, topology: Topology, by: tuple[str, ...], on: tuple[str, ...]
    ) -> Iterator[Problem]:
        yield from check_names(self.name, "join.select", select)
        both = zip(self.aliases, self.inputs, strict=True)
        sides = {alias: topology.columns(side) for alias, side in both if is_given(topology.node(side))}
        left, right = map(quote, self.aliases)
        for name, text in select:
            field = f"join.select.{name}"
            yield from check_joined_expression(self.name, field, text, sides, whole=len(sides) == 2)
            if name.lower() in {key.lower() for key in by}:
                matched = zip(by, on, strict=False)
                theirs = [f"{right}.{quote(theirs)}" for ours, theirs in matched if ours.lower() == name.lower()]
                if normalise(text) not in {normalise(same) for same in (f"{left}.{quote(name)}", *theirs)}:
                    yield key_changed(self.name, field, name, text)

    def _check_clashes(
        self, left: Columns, right: Columns, by: tuple[str, ...], on: tuple[str, ...]
    ) -> Iterator[Problem]:
        if not (left.known and right.known):
            return
        # A pair of matched columns of one name is one column: both sides have the same in it.
        same = {a.lower() for a, b in zip(by, on, strict=False) if a.lower() == b.lower()}
        ours = {name.lower() for name in (*left.fields, *by)} - same
        clashing = [name for name in right.fields if name.lower() in ours]
        if clashing:
            name, (first, second) = quote(clashing[0]), map(quote, self.aliases)
            example = f"{{{name}: {first}.{name}, {clashing[0]}_right: {second}.{name}}}"
            said, fix = f"both sides have {listed(tuple(clashing))}", f"name them with select, e.g. select: {example}"
            yield Problem(self.name, "join.select", None, said, fix)

    def origins(self, inputs: Sequence[Columns], before: Sequence[Origins]) -> Origins:
        left, right = before
        keys = kept(self.by or inputs[0].key, left)
        if self.select is None:
            return {**right, **left, "timestamp": "latest", **keys}
        sides = {
            f"{alias}.{name}".lower(): origin
            for alias, columns in zip(self.aliases, before, strict=True)
            for name, origin in columns.items()
        }
        found = {
            name.lower(): digest(["joined", normalise(text), {u: sides.get(u, UNKNOWN) for u in sorted(_used(text))}])
            for name, text in self.select
        }
        return {"timestamp": "latest", **found, **keys}

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
        """What `select` uses of the records' own columns, for each side: a join keeps those, and no others."""
        return [
            [n for n in RECORD_COLUMNS if f"{alias}.{n}".lower() in self.used and columns.find(n) not in columns.value]
            for alias, columns in zip(self.aliases, inputs, strict=True)
        ]


def _sides_of(select: Pairs) -> set[str]:
    """What its expressions have before the dots, in lower case."""
    return {parts[0].lower() for _, text in select for parts in read_expression(text).columns if len(parts) > 1}


def _used(text: str) -> set[str]:
    """The columns that an expression over both sides uses, with the side, in lower case."""
    return {".".join(parts[:2]).lower() for parts in read_expression(text).columns}


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
        select: ColumnMap | None = None,
        store: str | None = None,
    ) -> Self:
        """Joins another stream whose key equals the columns `by` (default: the key) of this one, or two columns of each
        pair of `match`.

        >>> from streamapp.builder import StreamBuilder
        >>> b = StreamBuilder("app")
        >>> orders, paid = b.stream("orders", topic="a"), b.stream("paid", topic="b")
        >>> _ = orders.join("both", paid, within="5 minutes", select={"order": "orders.value", "bill": "paid.value"})
        >>> b.build().spec.topology[2].join.with_
        'paid'
        """
        near = {"within": within, "before": before, "after": after, "grace": grace}
        fields = given(by=by, match=match, type=type, **near, select=dict(select) if select else None)
        found: Self = self._then(name, join={"with": other.name, **fields}, store=store)
        return found
