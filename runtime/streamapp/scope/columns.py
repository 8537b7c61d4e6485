# SPDX-License-Identifier: Apache-2.0
"""Columns in their place: are their names legal, do they exist, does the key stay."""

from __future__ import annotations

from collections.abc import Iterator

from streamapp.errors import Problem, near_miss
from streamapp.expressions import normalise, quote, read_expression
from streamapp.nodes import TABLE, Columns, Node, Topology
from streamapp.nodes.pairs import Pairs

TRUE_AND_FALSE = ("true", "false")
"""Names that no column has: a cluster makes these of keys such as `y` and `no` without quotes."""
READ_AS_BOOLEAN = "without quotes, y, n, yes, no, on and off are read as true and false"
QUOTE_IT = "write the name in quotes, or use another"


def check_names(node: str, field: str, pairs: Pairs) -> Iterator[Problem]:
    """Names that no column can have, and those that are there twice."""
    seen: set[str] = set()
    for name, _ in pairs:
        if not name.strip():
            yield Problem(node, field, name, "a column's name is empty", "name it")
        elif name.startswith("__"):
            yield Problem(
                node,
                field,
                name,
                f"column `{name}`: names that start with two underscores are the engine's own",
                "rename it",
            )
        elif name in TRUE_AND_FALSE:
            yield Problem(node, field, name, f"column `{name}`: {READ_AS_BOOLEAN}", QUOTE_IT)
        if name.lower() in seen:
            yield Problem(
                node,
                field,
                name,
                f"column `{name}` is there twice (the engine does not tell upper from lower case)",
                "rename one",
            )
        seen.add(name.lower())


def check_column(node: str, field: str, name: str, columns: Columns, hint: str) -> Iterator[Problem]:
    """A problem when there is no column of that name.

    Args:
        hint: the fix where the name is an expression.
    """
    if columns.known and columns.find(name) is None:
        parsed = read_expression(name)
        if parsed.faults or parsed.columns != ((name,),):
            yield Problem(node, field, name, f"`{name}` is not a column's name", hint)
        else:
            shown = [known for known in columns.names if not known.startswith("__")]
            fix = near_miss(name, shown) or f"there are: {', '.join(shown)}"
            yield Problem(node, field, name, f"unknown column `{name}`", fix)


def check_key_kept(node: str, field: str, name: str, text: str, columns: Columns) -> Iterator[Problem]:
    """A problem when a column of the key would get another value."""
    if name.lower() in fixed_keys(columns) and normalise(text) != normalise(quote(name)):
        yield key_changed(node, field, name, text)


def fixed_keys(columns: Columns) -> set[str]:
    """Key columns, in lower case, that no value column may be named after. The record's own key may be shadowed."""
    return {key.lower() for key in columns.key if columns.key != ("key",)}


def key_changed(node: str, field: str, name: str, text: str) -> Problem:
    """The problem of a key's column that would get another value."""
    return Problem(
        node,
        field,
        text,
        f"column `{name}` is part of the key, which stays as it is here",
        "use another name, and keyBy after it",
    )


def require_stream(node: Node, topology: Topology) -> Iterator[Problem]:
    """A problem when the node's input is a table."""
    source = node.inputs[0]
    if topology.kind(source) == TABLE:
        yield Problem(
            node.name,
            node.operation,
            None,
            f"its input '{source}' is a table, and {node.operation} of a table is not available yet",
            f"use {node.operation} before groupBy",
        )


def listed(names: tuple[str, ...]) -> str:
    """Names of columns, for people."""
    shown = ["the record's own key" if name in ("key", "__key") else f"`{name}`" for name in names]
    return ", ".join(shown) if shown else "none"
