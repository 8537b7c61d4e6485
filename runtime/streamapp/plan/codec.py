# SPDX-License-Identifier: Apache-2.0
"""Frozen dataclasses to plain data and back, exactly. Nodes carry their class as `operation`."""

from __future__ import annotations

import types
from dataclasses import MISSING, fields, is_dataclass
from functools import lru_cache
from typing import Any, Union, get_args, get_origin, get_type_hints

from streamapp import nodes, operations
from streamapp.nodes import Node

_OPERATION = "operation"
NODE_CLASSES = {
    cls.__name__: cls
    for cls in (*vars(nodes).values(), *vars(operations).values())
    if isinstance(cls, type) and issubclass(cls, Node) and hasattr(cls, "operation")
}
"""Every class of a node, by the name that a plan has for it."""


def to_plain(value: Any) -> Any:
    """Dataclasses become maps, tuples lists.

    >>> from streamapp.operations import FlatMap
    >>> to_plain(FlatMap("words", "lines", "word", "split(value, ' ')"))
    {'operation': 'FlatMap', 'name': 'words', 'input': 'lines', 'column': 'word', 'array': "split(value, ' ')"}
    """
    if is_dataclass(value) and not isinstance(value, type):
        head = {_OPERATION: type(value).__name__} if isinstance(value, Node) else {}
        return head | {f.name: to_plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, tuple):
        return [to_plain(item) for item in value]
    return value


def from_plain(kind: Any, value: Any) -> Any:
    """The value of the given type from plain data.

    Raises:
        ValueError, TypeError: when the data is not of the type.
    """
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        if value is None:
            return None
        (member,) = (arg for arg in get_args(kind) if arg is not type(None))
        return from_plain(member, value)
    if origin is tuple:
        if not isinstance(value, list):
            raise ValueError(f"expected a list and not {value!r}")
        args = get_args(kind)
        if args[-1] is Ellipsis:
            return tuple(from_plain(args[0], item) for item in value)
        return tuple(from_plain(arg, item) for arg, item in zip(args, value, strict=True))
    if is_dataclass(kind):
        return _dataclass(kind, value)
    # bool is an int in Python, and no number in a plan.
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ValueError(f"expected {kind.__name__} and not {value!r}")
    return value


def _dataclass(kind: Any, value: Any) -> Any:
    if not isinstance(value, dict):
        raise ValueError(f"expected a map and not {value!r}")
    data = dict(value)
    if isinstance(kind, type) and issubclass(kind, Node):
        operation = data.pop(_OPERATION, None)
        if operation not in NODE_CLASSES:
            raise ValueError(f"there is no operation {operation!r}")
        kind = NODE_CLASSES[operation]
    hints = _hints(kind)
    known = {f.name: f for f in fields(kind)}
    unknown = sorted(set(data) - set(known))
    if unknown:
        raise ValueError(f"{kind.__name__} has no field {unknown[0]!r}")
    missing = [n for n, f in known.items() if n not in data and f.default is MISSING and f.default_factory is MISSING]
    if missing:
        raise ValueError(f"{kind.__name__} needs the field {missing[0]!r}")
    return kind(**{name: from_plain(hints[name], item) for name, item in data.items()})


@lru_cache(maxsize=64)
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)
