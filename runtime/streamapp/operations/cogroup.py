# SPDX-License-Identifier: Apache-2.0
"""`cogroup`: a table with the aggregates of groups of several streams' records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from pydantic import Field

from streamapp.companions import Rule, Rules, only_for, without_from
from streamapp.errors import Problem
from streamapp.expressions import quote
from streamapp.fields import Expressions, Model
from streamapp.nodes import (
    TABLE,
    Columns,
    Node,
    NodeExpression,
    OneInput,
    Origins,
    Role,
    Topology,
)
from streamapp.nodes.pairs import Pairs, names_of, pairs_of, placed
from streamapp.operations.group_checks import check_groups
from streamapp.operations.making import Making
from streamapp.operations.ttl import expiring
from streamapp.operations.window import Window, group_columns
from streamapp.origins import aggregated, digest, expression

if TYPE_CHECKING:
    from streamapp.manifest.node import NodeSpec

RULES: Rules = (
    only_for("cogroup", "groupBy"),
    Rule(
        "cogroup",
        "`cogroup` says itself what each stream comes to",
        "write it into the items of `cogroup`",
        excludes=("aggregate", "reduce"),
    ),
    without_from("cogroup", "`from` is not for cogroup, whose items name what they read"),
)
MOST_STREAMS = 50
"""The most streams of one cogroup: each is a branch of the plan, and a column of the shuffle."""


class CogroupSpec(Model):
    """One of the streams."""

    from_: Annotated[str, Field(alias="from", description="The stream to read. It has the columns of groupBy.")]
    aggregate: Annotated[Expressions, Field(description="Column to aggregate expression, over this stream's columns.")]


_STRUCT = "__part_"


def struct_of(part: int) -> str:
    """The column with the values to aggregate of a stream's records, by the stream's place in the list."""
    return f"{_STRUCT}{part}"


def place_of(struct: str) -> str:
    """Where the aggregates over that column stand in the manifest."""
    return f"cogroup.{struct.removeprefix(_STRUCT)}.aggregate"


Given = Annotated[
    list[CogroupSpec] | None,
    Field(
        min_length=2,
        max_length=MOST_STREAMS,
        description="With groupBy: several streams, aggregated into one table.",
    ),
]
"""The field of the manifest."""


@dataclass(frozen=True)
class Part:
    """One of the streams of a cogroup."""

    input: str
    columns: Pairs
    """Aggregates (name, expression), sorted by name."""


@dataclass(frozen=True)
class _Grouping:
    """One of the streams as a `groupBy` of its own, to be checked like one."""

    name: str
    input: str
    by: Pairs
    columns: Pairs
    window: Window | None
    reduce: Pairs = ()
    reduced: tuple[str, ...] = ()
    top: None = None

    @property
    def values(self) -> Pairs:
        return self.columns


@dataclass(frozen=True)
class Cogroup(Node):
    """A table: one row per group (and window) with the aggregates of its records in several streams. A pass makes a
    `groupBy` of it (compile/cogroups.py)."""

    by: Pairs
    """Group columns (name, expression), in the key's order; the expressions are over each stream's columns."""
    parts: tuple[Part, ...]
    window: Window | None
    grace_ms: int
    emit: str
    store: str
    retention_ms: int = 0
    ttl_ms: int = 0
    late: str | None = None
    """The topic that late records go to, each with the columns of its own stream; None: none."""

    operation: ClassVar[str] = "cogroup"

    @classmethod
    def of(cls, spec: NodeSpec, making: Making, **fields: Any) -> Self:
        """The node.

        Args:
            fields: what it has in common with every `groupBy`.
        """
        parts: list[Part] = []
        for i, part in enumerate(spec.cogroup or ()):
            read = making.resolve(f"cogroup.{i}.from", part.from_) or making.stand_in(f"cogroup.{i}.from")
            if read in (before.input for before in parts):
                message = f"'{part.from_}' is there twice"
                fix = "write all its aggregates into one item"
                making.problems.append(Problem(spec.name, f"cogroup.{i}.from", None, message, fix))
                read = making.stand_in(f"cogroup.{i}.from")
            parts.append(Part(read, pairs_of(part.aggregate)))
        return cls(name=spec.name, parts=tuple(parts), **fields)

    @property
    def inputs(self) -> tuple[str, ...]:
        return tuple(part.input for part in self.parts)

    def with_inputs(self, renamed: Mapping[str, str]) -> Self:
        return replace(
            self, parts=tuple(replace(part, input=renamed.get(part.input, part.input)) for part in self.parts)
        )

    @property
    def stores(self) -> tuple[str, ...]:
        return (self.store,)

    @property
    def columns(self) -> Pairs:
        """The aggregates of all streams, sorted by name."""
        return tuple(sorted(pair for part in self.parts for pair in part.columns))

    def output_kind(self, inputs: Sequence[str]) -> str:
        return TABLE

    def output_columns(self, inputs: Sequence[Columns]) -> Columns:
        return group_columns(self.by, self.window, self.columns)

    def check(self, topology: Topology) -> Iterator[Problem]:
        yield from self._check_names()
        of_groups: dict[tuple[str | None, str | None, str], dict[str, Problem]] = {}
        streams = [part for part in self.parts if topology.kind(part.input) != TABLE]
        for i, part in enumerate(self.parts):
            if part not in streams:
                message = f"'{part.input}' is a table, and cogroup takes streams"
                fix = "join tables of the same key instead, with type: outer"
                yield Problem(self.name, f"cogroup.{i}.from", None, message, fix)
                continue
            for found in check_groups(_Grouping(self.name, part.input, self.by, part.columns, self.window), topology):
                if (found.field or "").startswith("aggregate"):
                    yield replace(found, field=f"cogroup.{i}.{found.field}")
                else:
                    of_groups.setdefault((found.field, found.value, found.message), {})[part.input] = found
        for same in of_groups.values():
            if len(same) == len(streams):
                yield next(iter(same.values()))
            else:
                yield from (replace(one, message=f"{one.message} in '{name}'") for name, one in same.items())

    def _check_names(self) -> Iterator[Problem]:
        taken: dict[str, str] = {}
        for i, part in enumerate(self.parts):
            for name, text in part.columns:
                if name.lower() in taken:
                    message = f"column `{name}` is already one of '{taken[name.lower()]}'"
                    yield Problem(self.name, f"cogroup.{i}.aggregate.{name}", text, message, "give it another name")
            taken |= {name.lower(): part.input for name, _ in part.columns}

    def origins(self, inputs: Sequence[Columns], before: Sequence[Origins]) -> Origins:
        found = {
            name.lower(): digest(["aggregate", expression(text, source)])
            for part, source in zip(self.parts, before, strict=True)
            for name, text in part.columns
        }
        groups = {name.lower(): digest(["any", self._group(text, before)]) for name, text in self.by}
        return {"timestamp": "latest", "window_start": "window", "window_end": "window", **found, **groups}

    def _group(self, text: str, before: Sequence[Origins]) -> list[Any]:
        """The expression of a group column over each of the streams, in an order that does not depend on theirs."""
        return sorted((expression(text, source) for source in before), key=digest)

    def state_shape(self, inputs: Sequence[Columns], before: Sequence[Origins]) -> Any:
        return {
            "operation": "cogroup",
            "window": [self.window.kind, self.window.shape] if self.window else None,
            "key": [[name.lower(), self._group(text, before)] for name, text in self.by],
            "values": {
                name.lower(): aggregated(text, source)
                for part, source in zip(self.parts, before, strict=True)
                for name, text in part.columns
            },
            **expiring(self.ttl_ms),
        }


@dataclass(frozen=True)
class CogroupedRecords(OneInput):
    """The records of one of the streams of a cogroup: their group, and the values to aggregate in a struct."""

    by: Pairs
    fields: tuple[str, ...]
    """The columns in the struct."""
    struct: str
    of: str
    """The cogroup."""

    operation: ClassVar[str] = "cogrouped records"

    @property
    def owner(self) -> str:
        return self.of

    def expressions(self) -> tuple[NodeExpression, ...]:
        fields = (NodeExpression(Role.COLUMN, "cogroup", quote(name)) for name in self.fields)
        return (*placed(Role.COLUMN, "groupBy", self.by), *fields)

    def output_columns(self, inputs: Sequence[Columns]) -> Columns:
        (given,) = inputs
        return given.with_values((*names_of(self.by), self.struct))

    def description(self, inputs: Sequence[Columns]) -> str:
        return f"for {self.of}: {', '.join((*names_of(self.by), *self.fields))}"
