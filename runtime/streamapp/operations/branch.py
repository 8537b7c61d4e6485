# SPDX-License-Identifier: Apache-2.0
"""`branch`: splits a stream by the first condition that is true."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Self

from pydantic import Field

from streamapp.errors import Problem
from streamapp.fields import Model
from streamapp.nodes import Columns, Node, NodeExpression, OneInput, Role, Topology
from streamapp.operations.making import Making
from streamapp.operations.steps import Steps, given
from streamapp.outline import Outline
from streamapp.scope import check_expression, require_stream

if TYPE_CHECKING:
    from streamapp.manifest.node import NodeSpec

MOST_BRANCHES = 50
"""The most branches of one node."""


class ArmSpec(Model):
    """One branch."""

    name: Annotated[str, Field(description="The branch's name: it is a node.")]
    when: Annotated[
        str | None,
        Field(description="The condition for records that take this branch; a last branch without it takes the rest."),
    ] = None


Given = Annotated[
    list[ArmSpec] | None,
    Field(min_length=1, max_length=MOST_BRANCHES, description="Splits by the first match."),
]
"""The field of the manifest."""


@dataclass(frozen=True)
class Branch(OneInput):
    """The place where a stream is split; its arms say which records go where."""

    arms: tuple[str, ...]

    operation: ClassVar[str] = "branch"
    outline: ClassVar[Outline] = Outline(expressions=(("branch", "when"),))

    @classmethod
    def of(cls, spec: NodeSpec, making: Making) -> tuple[Node, ...]:
        arms = spec.branch or []
        made: list[Node] = [cls(spec.name, making.input, tuple(arm.name for arm in arms))]
        earlier: list[str] = []
        for i, arm in enumerate(arms):
            if arm.when is None and i + 1 < len(arms):
                message = "`when` is missing, and only the last branch may take the rest"
                making.problems.append(Problem(arm.name, "when", None, message, "add when: …"))
            made.append(Arm(arm.name, spec.name, arm.when, tuple(earlier)))
            if arm.when is not None:
                earlier.append(arm.when)
        return tuple(made)

    def description(self, inputs: Sequence[Columns]) -> str:
        return "first match of " + ", ".join(self.arms)

    def check(self, topology: Topology) -> Iterator[Problem]:
        return require_stream(self, topology)


@dataclass(frozen=True)
class Arm(OneInput):
    """One arm of its input, a Branch: the records for which its condition is true (None: all), and none of the
    `earlier` arms' conditions."""

    condition: str | None
    earlier: tuple[str, ...]

    operation: ClassVar[str] = "when"

    def expressions(self) -> tuple[NodeExpression, ...]:
        own = () if self.condition is None else (NodeExpression(Role.CONDITION, "when", self.condition),)
        return (*own, *(NodeExpression(Role.EARLIER, "when", text) for text in self.earlier))

    def description(self, inputs: Sequence[Columns]) -> str:
        return self.condition or ("the rest" if self.earlier else "everything")

    def check(self, topology: Topology) -> Iterator[Problem]:
        if self.condition is not None:
            yield from check_expression(self.name, "when", self.condition, topology.columns(self.input))


class BranchStep(Steps):
    """The builder's method."""

    def branch(self, name: str, *arms: tuple[str, str | None]) -> tuple[Self, ...]:
        """Splits by the first match: (name, condition) each; the last condition may be None: the rest.

        >>> from streamapp.builder import StreamBuilder
        >>> lines = StreamBuilder("app").stream("lines", topic="text")
        >>> long, short = lines.branch("sizes", ("long", "length(value) > 80"), ("short", None))
        >>> [arm.when for arm in long.builder.build().spec.topology[1].branch]
        ['length(value) > 80', None]
        """
        self._then(name, branch=[given(name=arm, when=when) for arm, when in arms])
        return tuple(self._at(arm) for arm, _ in arms)
