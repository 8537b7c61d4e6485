# SPDX-License-Identifier: Apache-2.0
"""Columns with their expressions.

Pairs that come from a map of the manifest are sorted by column, because Kubernetes sorts the keys of maps and a
manifest must mean the same before and after. Pairs that come from a list keep its order.
"""

from __future__ import annotations

from collections.abc import Mapping

from streamapp.errors import shorten
from streamapp.nodes.node import NodeExpression, Role

Pairs = tuple[tuple[str, str], ...]


def pairs_of(columns: Mapping[str, str]) -> Pairs:
    """A map's entries in an order that does not depend on how it was written."""
    return tuple(sorted(columns.items()))


def names_of(pairs: Pairs) -> tuple[str, ...]:
    """The columns."""
    return tuple(name for name, _ in pairs)


def placed(role: Role, operation: str, pairs: Pairs) -> tuple[NodeExpression, ...]:
    """The expressions of a map, each in its place under the operation."""
    return tuple(NodeExpression(role, f"{operation}.{name}", text) for name, text in pairs)


def described(pairs: Pairs) -> str:
    """Columns with their expressions, on one line, shortened."""
    return shorten(", ".join(f"{name} = {text}" for name, text in pairs))
