# SPDX-License-Identifier: Apache-2.0
"""The origins of the columns of a node's output, for the fingerprints of stores.

Computed ones are digests, so that chains of nodes, and columns used twice, cannot make them grow.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from streamapp.expressions import normalise, quote, read_expression
from streamapp.nodes import Columns, Origin, Origins
from streamapp.nodes.pairs import Pairs

UNKNOWN = "unknown"


def computed(text: str, columns: Origins) -> Origin:
    """The origin of an expression over these columns. A column that is only renamed keeps its own."""
    used = read_expression(text).columns
    if len(used) == 1 and len(used[0]) == 1 and normalise(text) == normalise(quote(used[0][0])):
        return columns.get(used[0][0].lower(), UNKNOWN)
    return digest(["expression", expression(text, columns)])


def all_computed(pairs: Pairs, columns: Origins) -> dict[str, Origin]:
    """The origin of each of several expressions, by its column."""
    return {name.lower(): computed(text, columns) for name, text in pairs}


def kept(names: Iterable[str], origins: Origins) -> dict[str, Origin]:
    """The origins of these columns alone."""
    return {name.lower(): origins[name.lower()] for name in names}


def without_value(columns: Columns, origins: Origins) -> dict[str, Origin]:
    """The origins of the key and of the record's own columns."""
    return kept((*columns.key, *columns.meta), origins)


def in_all(inputs: Sequence[Origins]) -> dict[str, Origin]:
    """The origins of the columns that all inputs have, where each record comes from one of them."""
    first, *others = inputs
    found: dict[str, Origin] = {}
    for name, origin in first.items():
        different = sorted({json.dumps(columns[name]) for columns in inputs if name in columns})
        if all(name in columns for columns in others):
            found[name] = origin if len(different) == 1 else digest(["any", different])
    return found


def expression(text: str, columns: Origins) -> Any:
    """An expression, and the origin of each column it uses."""
    return [normalise(text), {name: columns.get(name, UNKNOWN) for name in used_by(text)}]


def aggregated(text: str, columns: Origins) -> Any:
    """The part of an aggregate that its state depends on: the expression, and its columns' declared types."""
    return [normalise(text), {name: declared(columns.get(name)) for name in used_by(text)}]


def used_by(text: str) -> tuple[str, ...]:
    """The columns that an expression uses, in lower case, sorted."""
    return tuple(sorted({parts[0].lower() for parts in read_expression(text).columns}))


def declared(origin: Origin | None) -> str | None:
    """The type of a column that comes unchanged from a topic or a function; None for a computed one."""
    return origin[1] if isinstance(origin, tuple) else None


def all_declared(names: Iterable[str], origins: Mapping[str, Origin]) -> dict[str, str | None]:
    """The type of each of several columns, by its name."""
    return {name.lower(): declared(origins[name.lower()]) for name in names}


def all_typed(names: Iterable[str], origins: Mapping[str, Origin]) -> dict[str, Origin]:
    """The declared type of each of several columns, or how it is computed where it has none, by its name."""
    return {name.lower(): declared(origin := origins[name.lower()]) or origin for name in names}


def digest(value: Any) -> str:
    """16 hexadecimal digits for plain data."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]
