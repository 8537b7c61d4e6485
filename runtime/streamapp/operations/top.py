# SPDX-License-Identifier: Apache-2.0
"""`top`: the rows of each group in which an expression is highest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field, StrictInt

from streamapp.companions import Rule, Rules
from streamapp.errors import Problem
from streamapp.expressions import normalise, quote
from streamapp.fields import Model
from streamapp.nodes import Columns, Topology
from streamapp.nodes.pairs import Pairs, names_of
from streamapp.scope import check_expression, require_deterministic

MOST_ROWS = 1000
"""The most rows of a group: they are one value of the state."""
COLUMN = "top"
"""The column that has them."""

RULES: Rules = (
    Rule(
        "top",
        "`top` says itself what a group comes to",
        "make a node of each",
        excludes=("aggregate", "reduce", "cogroup"),
    ),
)


class TopSpec(Model):
    """Which rows of a group are kept."""

    rows: Annotated[StrictInt, Field(ge=1, le=MOST_ROWS, description="How many rows.")]
    by: Annotated[str, Field(description="The expression that ranks the rows: the highest come first.")]


Given = Annotated[
    TopSpec | None, Field(description="With groupBy: the rows of a group in which an expression is highest, as `top`.")
]
"""The field of the manifest."""


@dataclass(frozen=True)
class Top:
    """The first rows of a group."""

    rows: int
    by: str

    def aggregates(self, columns: Columns, groups: Pairs) -> Pairs:
        """The rows as an aggregate over records of these columns."""
        struct = ", ".join(map(quote, self.columns(columns, groups)))
        return ((COLUMN, f"max_by(struct({struct}), ({self.by}), {self.rows})"),)

    @staticmethod
    def columns(columns: Columns, groups: Pairs) -> tuple[str, ...]:
        """The columns of a row, without those that all rows of the group have in common.

        >>> of = Columns(value=("game", "player"))
        >>> Top.columns(of, (("game", "game"),)), Top.columns(of, (("game", "upper(game)"),))
        (('player',), ('game', 'player'))
        """
        common = {name.lower() for name, text in groups if normalise(text) in (normalise(name), normalise(quote(name)))}
        return tuple(name for name in columns.fields if name.lower() not in common)

    def check(self, node: str, name: str, groups: Pairs, topology: Topology) -> Iterator[Problem]:
        """The problems of the `top` of the node `node`, which reads the node `name`."""
        columns = topology.columns(name)
        yield from check_expression(node, "top.by", self.by, columns)
        fix = "compute it in a `with` node before"
        yield from require_deterministic(node, "top.by", self.by, "state could not be rebuilt", fix)
        if columns.known and not self.columns(columns, groups):
            message = f"'{name}' has no columns beside those of the group, and its rows would be empty"
            yield Problem(node, "top", None, message, "compute one in a `with` node before, e.g. with: {user: key}")
        if COLUMN in (group.lower() for group in names_of(groups)):
            message = f"column `{COLUMN}` is already one of groupBy"
            yield Problem(node, "groupBy", COLUMN, message, "give it another name")
