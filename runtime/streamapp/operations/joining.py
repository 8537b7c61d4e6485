# SPDX-License-Identifier: Apache-2.0
"""The common part of joins: the manifest's fields, the sides' columns, and the result's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field

from streamapp.companions import Rule, Rules
from streamapp.errors import Problem
from streamapp.expressions import normalise, quote, read_expression
from streamapp.fields import MOST_COLUMNS, Duration, Expressions, Model, one_of
from streamapp.nodes import Columns, Node, NodeExpression, Origins, Role, Topology, is_given
from streamapp.nodes.columns import with_event_time
from streamapp.nodes.pairs import Pairs, names_of, pairs_of, placed
from streamapp.operations.late import LateSpec
from streamapp.operations.making import Making
from streamapp.origins import UNKNOWN, digest, kept
from streamapp.scope import (
    check_column,
    check_joined_expression,
    check_names,
    key_changed,
    listed,
    require_deterministic,
)

TYPES = ("inner", "left", "outer")
SIDES = ("left", "right")

NEEDS_WITHIN = (
    "`within` is missing",
    "a stream-stream join needs a window, e.g. within: 5 minutes, or before: 0s, after: 1 hour",
)
PAIRING: Rules = (
    Rule(
        "within",
        "`within` stands for `before` and `after`",
        "remove it, or both of them",
        excludes=("before", "after"),
    ),
    Rule(
        "asOf",
        "`asOf` is for a table: two streams meet within a time",
        "remove it, or join a table",
        excludes=("within", "before", "after"),
    ),
    Rule(
        "late",
        "`late` is for two streams, which meet within a time",
        "remove it, or add e.g. within: 5 minutes",
        needs=("within", "before", "after"),
    ),
    Rule("match", "there are `by` and `match`", "remove `by`", excludes=("by",)),
)
"""The rules of the fields under `join`."""


class JoinSpec(Model):
    """Records of another stream with the same key, close in time; or rows of a table with the same key."""

    with_: Annotated[str, Field(alias="with", description="The other node: the right side.")]
    by: Annotated[
        list[str] | None,
        Field(
            min_length=1,
            description="Columns of the left side, matched to the right side's key. Default: the left key. In a "
            "join of two tables, other columns make it a foreign-key join.",
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
            description="Which records give a result without a partner: inner (none), left (those of the left side) or "
            "outer (those of both). In a join of two streams it comes when no partner can come any more.",
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
    as_of: Annotated[
        bool | None,
        Field(
            description="For a table with `history`: whether a record meets the row of its own event time. "
            "Default: the row that is there when the record comes."
        ),
    ] = None
    grace: Annotated[
        Duration | None,
        Field(
            description="With `within`: how long to wait for late records. Default: 0s. With `asOf`: a record waits "
            "until event time has passed it by so much, for rows that come late. Default: it does not wait."
        ),
    ] = None
    late: Annotated[
        LateSpec | None,
        Field(description="With `within`: a topic for records that are late. Default: they are dropped, and counted."),
    ] = None
    select: Annotated[
        Expressions | None,
        Field(
            description="The result's columns. In the expressions a column is NODE.column, or left.column and "
            "right.column."
        ),
    ] = None


Given = Annotated[JoinSpec | None, Field(description="Joins another stream, or a table.")]
"""The field of the manifest."""


class Joining(Node):
    """Brings together a left and a right row whose columns are equal. Its subclasses have these fields."""

    left: str
    right: str
    by: tuple[str, ...]
    """Columns of the left side, matched in order to `match`; none: its key."""
    type: str
    select: Pairs | None
    """The result's columns; in the expressions a column is `NODE.column`. None: both sides' columns."""
    left_as: str
    """The name that `select` uses for the left side; empty: its node's name."""
    right_as: str
    match: tuple[str, ...]
    """Columns of the right side; none: its key."""

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.left, self.right)

    @property
    def aliases(self) -> tuple[str, str]:
        """The names that `select` has for the two sides: those of the user's own nodes, or left and right."""
        return (self.left_as or self.left, self.right_as or self.right)

    def with_inputs(self, renamed: Mapping[str, str]) -> Self:
        """The join with other inputs; it keeps its sides' names for its `select`."""
        if not any(name in renamed for name in self.inputs):
            return self
        left, right = (renamed.get(name, name) for name in self.inputs)
        left_as, right_as = self.aliases
        changed: dict[str, Any] = {"left": left, "right": right, "left_as": left_as, "right_as": right_as}
        return replace(self, **changed)

    def expressions(self) -> tuple[NodeExpression, ...]:
        by = (NodeExpression(Role.KEY, self.matched_in, name) for name in self.by)
        right = quote(self.aliases[1])
        on = (NodeExpression(Role.JOINED, self.matched_in, f"{right}.{quote(name)}") for name in self.match)
        return (*by, *on, *placed(Role.JOINED, "join.select", self.select or ()))

    def matched(self, left: tuple[str, ...], right: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The columns of each side that rows meet by; `left` and `right` are the sides' keys."""
        return self.by or left, self.match or right

    def key_of(self, left: Columns) -> tuple[str, ...]:
        """The columns of the left side that are the result's key."""
        return self.by or left.key

    @property
    def matched_in(self) -> str:
        """The manifest's field with the columns that rows meet by."""
        return "join.match" if self.match else "join.by"

    def output_columns(self, inputs: Sequence[Columns]) -> Columns:
        left, right = inputs
        key = self.key_of(left)
        if self.select is not None:
            names = names_of(self.select)
        else:
            names = tuple(dict.fromkeys((*left.fields, *right.fields)))
        keys = {name.lower() for name in key}
        value = tuple(name for name in names if name.lower() not in keys)
        return replace(with_event_time(key, value), known=left.known and right.known)

    @cached_property
    def used(self) -> frozenset[str]:
        """The columns that `select` uses, each with its side, in lower case."""
        return frozenset(name for _, text in self.select or () for name in _used(text))

    def check_deterministic(self) -> Iterator[Problem]:
        """Problems of expressions in `select` that could give another row when they are computed again."""
        for name, text in self.select or ():
            why = "a row that is computed again, when it is deleted or an epoch is repeated, must be the same"
            fix = "compute it in a `with` node before or behind the join"
            yield from require_deterministic(self.name, f"join.select.{name}", text, why, fix)

    def check_columns(self, topology: Topology) -> Iterator[Problem]:
        """Problems of the columns that rows meet by, and of those of the result."""
        left, right = topology.columns(self.left), topology.columns(self.right)
        by, on = self.matched(left.key, right.key)
        for names, columns, side in ((self.by, left, self.left), (self.match, right, self.right)):
            for name in names:
                hint = f"it is to be a column of '{side}'"
                yield from check_column(self.name, self.matched_in, name, columns, hint=hint)
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
            message, fix = (
                f"both sides have {listed(tuple(clashing))}",
                f"name them with select, e.g. select: {example}",
            )
            yield Problem(self.name, "join.select", None, message, fix)

    def origins(self, inputs: Sequence[Columns], before: Sequence[Origins]) -> Origins:
        left, right = before
        keys = kept(self.key_of(inputs[0]), left)
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


def sides_of(join: JoinSpec, making: Making) -> Mapping[str, Any]:
    """The fields that every join has."""
    left, right = making.input, making.resolve("join.with", join.with_)
    by, match = tuple(join.by or ()), ()
    if join.match is not None:
        by, match = zip(*pairs_of(join.match), strict=True)
    select = pairs_of(join.select) if join.select is not None else None
    by_side = right == left or (not {left, right} & set(SIDES) and _sides_of(select or ()) & set(SIDES))
    left_as, right_as = SIDES if by_side else ("", "")
    return {
        "left": left,
        "right": right or making.stand_in("join.with"),
        "by": by,
        "type": join.type,
        "select": select,
        "left_as": left_as,
        "right_as": right_as,
        "match": match,
    }


def _sides_of(select: Pairs) -> set[str]:
    """The names before the dots in its expressions, in lower case."""
    return {parts[0].lower() for _, text in select for parts in read_expression(text).columns if len(parts) > 1}


def _used(text: str) -> set[str]:
    """The columns that an expression over both sides uses, with the side, in lower case."""
    return {".".join(parts[:2]).lower() for parts in read_expression(text).columns}
