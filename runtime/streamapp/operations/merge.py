# SPDX-License-Identifier: Apache-2.0
"""`merge`: several streams as one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, ClassVar, Self

from pydantic import Field

from streamapp.companions import without_from
from streamapp.errors import Problem
from streamapp.nodes import TABLE, Columns, Node, Origins, Topology
from streamapp.operations.making import Making
from streamapp.operations.steps import F, Starts, Steps
from streamapp.origins import in_all
from streamapp.outline import Outline
from streamapp.scope import listed

if TYPE_CHECKING:
    from streamapp.manifest.node import NodeSpec

Given = Annotated[list[str] | None, Field(min_length=2, description="Streams with the same columns, as one.")]
"""The field of the manifest."""


@dataclass(frozen=True)
class Merge(Node):
    """All records of several streams with the same columns."""

    sources: tuple[str, ...]
    cogroup: str | None = None
    """The cogroup whose streams these are: a column that one of them does not have is null in its records. Without a
    cogroup all have the same columns."""

    operation: ClassVar[str] = "merge"
    outline: ClassVar[Outline] = Outline(
        rules=(without_from("merge", "`from` is not for merge, which names what it reads"),),
    )

    @classmethod
    def of(cls, spec: NodeSpec, making: Making) -> tuple[Self, ...]:
        named = spec.merge or []
        for twice in sorted({source for source in named if named.count(source) > 1}):
            making.problems.append(Problem(spec.name, "merge", None, f"'{twice}' is there twice", "name it once"))
        sources = (making.resolve("merge", name) or making.stand_in(f"merge.{name}") for name in dict.fromkeys(named))
        return (cls(spec.name, tuple(sources)),)

    @property
    def inputs(self) -> tuple[str, ...]:
        return self.sources

    def with_inputs(self, renamed: Mapping[str, str]) -> Self:
        return replace(self, sources=tuple(renamed.get(name, name) for name in self.sources))

    def output_columns(self, inputs: Sequence[Columns]) -> Columns:
        first = inputs[0]
        meta = tuple(name for name in first.meta if all(name in other.meta for other in inputs))
        value = (
            tuple(dict.fromkeys(name for each in inputs for name in each.value))
            if self.cogroup is not None
            else first.value
        )
        return Columns(first.key, value, meta, all(other.known for other in inputs))

    @property
    def owner(self) -> str:
        return self.cogroup or self.name

    def hop_name(self, upstream: str) -> str:
        return upstream if self.cogroup is not None else super().hop_name(upstream)

    def description(self, inputs: Sequence[Columns]) -> str:
        return " + ".join(self.sources)

    def check(self, topology: Topology) -> Iterator[Problem]:
        for name in self.sources:
            if topology.kind(name) == TABLE:
                yield Problem(
                    self.name,
                    "merge",
                    name,
                    f"'{name}' is a table, and merge joins streams",
                    "merge before groupBy",
                )
        for other in self.sources[1:]:
            yield from self._check_like_first(other, topology)

    def _check_like_first(self, other: str, topology: Topology) -> Iterator[Problem]:
        first = self.sources[0]
        wanted, columns = topology.columns(first), topology.columns(other)
        if not (wanted.known and columns.known):
            return
        if {c.lower() for c in wanted.value} != {c.lower() for c in columns.value}:
            yield Problem(
                self.name,
                "merge",
                None,
                f"'{first}' has the columns {listed(wanted.value)}, '{other}' has {listed(columns.value)}",
                "make them the same with a `select` node before",
            )
        if [c.lower() for c in wanted.key] != [c.lower() for c in columns.key]:
            yield Problem(
                self.name,
                "merge",
                None,
                f"'{first}' has the key {listed(wanted.key)}, '{other}' has {listed(columns.key)}",
                "give both the same key, with a `keyBy` node before",
            )

    def origins(self, inputs: Sequence[Columns], before: Sequence[Origins]) -> Origins:
        return in_all(before)


class MergeStart(Starts[F]):
    """The builder's method."""

    def merge(self, name: str, *flows: Steps) -> F:
        """All records of several streams with the same columns.

        >>> from streamapp.builder import StreamBuilder
        >>> b = StreamBuilder("app")
        >>> both = b.merge("both", b.stream("ours", topic="a"), b.stream("theirs", topic="b"))
        >>> b.build().spec.topology[2].merge
        ['ours', 'theirs']
        """
        return self._add(name, None, merge=[flow.name for flow in flows])
