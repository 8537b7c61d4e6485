# SPDX-License-Identifier: Apache-2.0
"""The readable part of a node that has mistakes, so that one mistake does not hide the others in it.

A wrong expression is replaced, so that its column keeps its name; any other wrong value is left out. The
rest is checked like a node without mistakes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from streamapp.formats import ddl
from streamapp.manifest.node import COLUMNS, OPERATIONS, OUTLINES, NodeSpec
from streamapp.manifest.text import Path, dotted
from streamapp.operations.group_by import GROUP

_EXPRESSIONS = frozenset(place for outline in OUTLINES for place in outline.expressions)
_LISTS: tuple[Path, ...] = (("groupBy",), ("keyBy",), ("join", "by"))
_ASIDE: tuple[Path, ...] = (("name",), *(place for outline in OUTLINES for place in outline.aside))
"""Places where a mistake does not change the node's columns."""


@dataclass(frozen=True)
class Salvaged:
    """A node as far as it can be read."""

    spec: NodeSpec
    left_out: tuple[Path, ...] = ()
    """The paths to values that are not in it as they were written; nothing is known about these."""
    columns_known: bool = True
    """False when what was left out decides which columns the node gives."""

    def is_about_left_out(self, field: str | None) -> bool:
        """True for a field about which nothing is known, as its value was left out."""
        return field is not None and any(_overlap(field, dotted(path)) for path in self.left_out)


def salvage(node: dict[str, Any], name: str, wrong: Sequence[Path] = ()) -> Salvaged | None:
    """The node without its mistakes, or None when its operation is not known.

    Args:
        name: what to call it where its own name is missing or no text.
        wrong: paths to values that are known to be wrong.

    >>> found = salvage({"name": "big", "from": ["a"], "filter": "amuont > 3"}, "#1")
    >>> found.spec.filter, found.left_out
    ('amuont > 3', (('from',),))
    """
    rest: dict[str, Any] = deepcopy(node)
    left_out: list[Path] = []
    known = True
    faults = [*_blanks(rest, ()), *wrong]
    while True:
        for fault in faults:
            if not fault:
                return None
            left_out.append(fault)
            known = (_stand_in(rest, fault, name) or _cut(rest, fault)) and known
        try:
            spec = NodeSpec.model_validate(rest)
        except ValidationError as error:
            faults = list(_faults(error, rest))
            continue
        if sum(field in rest for field in OPERATIONS) != 1:
            return None
        known = known and ("groupBy" not in rest or any(field in rest for field in GROUP.needs))
        return Salvaged(spec, tuple(dict.fromkeys(left_out)), known)


def _faults(error: ValidationError, data: Any) -> Iterator[Path]:
    """Where the model complains, in the data's own terms; the deepest first, so that lists are cut from their end."""
    found = set()
    for complaint in error.errors(include_url=False, include_context=False, include_input=False):
        path: list[str | int] = []
        at = data
        for part in complaint["loc"]:
            if (isinstance(at, dict) and part in at) or (isinstance(at, list) and isinstance(part, int)):
                at = at[part]  # type: ignore[index]
                path.append(part)
        if not path and complaint["type"] == "missing":
            path.append(complaint["loc"][0])
        found.add(tuple(path))
    return iter(sorted(found, key=lambda path: [str(part).zfill(6) for part in path], reverse=True))


def _blanks(value: Any, path: Path) -> Iterator[Path]:
    """The paths to blanks: a blank is nothing to the model, and a mistake to us."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in reversed(list(items)):
        if item is None:
            yield (*path, key)
        else:
            yield from _blanks(item, (*path, key))


def _stand_in(data: dict[str, Any], path: Path, name: str) -> bool:
    """Puts something harmless at the path, with which the node has the columns that were meant. False when there is
    nothing of the kind."""
    holder, last = _at(data, path[:-1]), path[-1]
    if not isinstance(holder, dict):
        return False
    meant: Any = None
    if path == ("name",):
        meant = name
    elif _is_expression(path):
        meant = "null"
    elif path in _LISTS and isinstance(holder[last], str):
        meant = [holder[last]]
    elif path == ("to",) and isinstance(holder[last], str):
        meant = {"topic": holder[last]}
    elif path in (("stream", "value"), ("table", "value")) and isinstance(holder[last], dict):
        schema = ddl.with_readable_types(str(holder[last].get("schema")))
        meant = {"format": "json", "schema": schema} if schema is not None else None
    elif path in (("join", "within"), ("join", "before"), ("join", "after")):
        meant = "0s"  # it says that two streams are joined
    elif path == ("python", "schema"):
        meant = ddl.with_readable_types(str(holder[last]))
    elif path == ("python", "function"):
        meant = "unknown:unknown"
    if meant is None or holder.get(last) == meant:
        return False
    holder[last] = meant
    return True


def _cut(data: dict[str, Any], path: Path) -> bool:
    """Takes the value at the path out. True when the node has the columns that it would have with it."""
    holder = _at(data, path[:-1])
    if isinstance(holder, dict):
        holder.pop(path[-1], None)
    elif isinstance(holder, list):
        del holder[int(path[-1])]
    return any(path[: len(harmless)] == harmless for harmless in _ASIDE)


def _at(data: Any, path: Path) -> Any:
    """The value at the path; None when it was taken out with the value around it."""
    for part in path:
        if isinstance(data, dict):
            data = data.get(part)
        elif isinstance(data, list):
            data = data[int(part)]
        else:
            return None
    return data


def _is_expression(path: Path) -> bool:
    place = tuple(part for part in path if isinstance(part, str))
    return place in _EXPRESSIONS or place[:-1] in COLUMNS


def _overlap(field: str, left_out: str) -> bool:
    """Whether one is the other, or inside it. A join's `join.within` is called `within` where it is missing."""
    inside = f"{field}.".startswith(f"{left_out}.") or f"{left_out}.".startswith(f"{field}.")
    return inside or left_out.endswith(f".{field}")
