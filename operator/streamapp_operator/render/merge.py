# SPDX-License-Identifier: Apache-2.0
"""Lays a user's part of a pod template over ours."""

from __future__ import annotations

from typing import Any


def merged(base: Any, overlay: Any) -> Any:
    """The base with the overlay on top: the overlay wins, map by map. Items of lists with a name are matched by it,
    others are added.

    >>> merged({"a": 1, "b": {"c": 2}}, {"b": {"d": 3}})
    {'a': 1, 'b': {'c': 2, 'd': 3}}
    >>> merged([{"name": "x", "v": 1}], [{"name": "x", "v": 2}, {"name": "y"}])
    [{'name': 'x', 'v': 2}, {'name': 'y'}]
    """
    if isinstance(base, dict) and isinstance(overlay, dict):
        both = {key: merged(base[key], value) if key in base else value for key, value in overlay.items()}
        return {**base, **both}
    if isinstance(base, list) and isinstance(overlay, list) and all(isinstance(i, dict) for i in base + overlay):
        named = {item["name"]: item for item in overlay if "name" in item}
        matched = [merged(item, named.pop(item["name"], {})) if "name" in item else item for item in base]
        return matched + [item for item in overlay if "name" not in item or item["name"] in named]
    return overlay
