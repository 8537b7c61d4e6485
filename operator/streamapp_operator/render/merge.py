# SPDX-License-Identifier: Apache-2.0
"""Lays a user's part of a pod template over ours."""

from __future__ import annotations

from typing import Any


def merged(ours: Any, theirs: Any) -> Any:
    """Ours with theirs on top: theirs wins, map by map; items of lists that have a name are matched by it, others are
    added.

    >>> merged({"a": 1, "b": {"c": 2}}, {"b": {"d": 3}})
    {'a': 1, 'b': {'c': 2, 'd': 3}}
    >>> merged([{"name": "x", "v": 1}], [{"name": "x", "v": 2}, {"name": "y"}])
    [{'name': 'x', 'v': 2}, {'name': 'y'}]
    """
    if isinstance(ours, dict) and isinstance(theirs, dict):
        both = {key: merged(ours[key], value) if key in ours else value for key, value in theirs.items()}
        return {**ours, **both}
    if isinstance(ours, list) and isinstance(theirs, list) and all(isinstance(i, dict) for i in ours + theirs):
        named = {item["name"]: item for item in theirs if "name" in item}
        matched = [merged(item, named.pop(item["name"], {})) if "name" in item else item for item in ours]
        return matched + [item for item in theirs if "name" not in item or item["name"] in named]
    return theirs
