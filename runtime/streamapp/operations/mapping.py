# SPDX-License-Identifier: Apache-2.0
"""The common part of `select` and `with`: columns that are computed of each record."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from streamapp.errors import Problem
from streamapp.nodes import Columns, NodeExpression, OneInput, Role, Topology
from streamapp.nodes.pairs import Pairs, described, placed
from streamapp.scope import check_expression, check_key_kept, check_names


@dataclass(frozen=True)
class Mapping(OneInput):
    """Computes columns of the value. All see the input's columns, not each other. The key stays."""

    columns: Pairs

    row_wise: ClassVar[bool] = True

    def expressions(self) -> tuple[NodeExpression, ...]:
        return placed(Role.COLUMN, self.operation, self.columns)

    def description(self, inputs: Sequence[Columns]) -> str:
        return described(self.columns)

    def check(self, topology: Topology) -> Iterator[Problem]:
        columns = topology.columns(self.input)
        yield from check_names(self.name, self.operation, self.columns)
        for name, text in self.columns:
            field = f"{self.operation}.{name}"
            yield from check_expression(self.name, field, text, columns)
            yield from check_key_kept(self.name, field, name, text, columns)
