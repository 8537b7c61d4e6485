# SPDX-License-Identifier: Apache-2.0
"""Every field of a manifest, and of its status, as a table for the manual, in the words of the definition."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

Schema = dict[str, Any]

HEAD = ("| field | takes | default | meaning |", "|---|---|---|---|")
STATUS_HEAD = ("| field | is | meaning |", "|---|---|---|")


def reference(schema: Schema) -> str:
    """The fields of `spec` as Markdown, each with the path that `kubectl explain` takes it by.

    Args:
        schema: of the whole resource.

    >>> print(reference({"properties": {"spec": {"properties": {
    ...     "mode": {"type": "string", "enum": ["a", "b"], "default": "a", "description": "How."}}}}}))
    | field | takes | default | meaning |
    |---|---|---|---|
    | `mode` | `a` or `b` | `a` | How. |
    <BLANKLINE>
    """
    return _table(HEAD, _fields(schema["properties"]["spec"]))


def status_reference(schema: Schema) -> str:
    """The fields of `status`, likewise; they have no defaults.

    Args:
        schema: of the whole resource.

    >>> print(status_reference({"properties": {"status": {"properties": {
    ...     "lag": {"type": "object", "description": "Behind.", "additionalProperties": {"type": "integer"}}}}}}))
    | field | is | meaning |
    |---|---|---|
    | `lag` | map | Behind. |
    <BLANKLINE>
    """
    fields = _fields(schema["properties"]["status"])
    return _table(STATUS_HEAD, ((field, kind, meaning) for field, kind, _, meaning in fields))


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    return "\n".join([*head, *(f"| {' | '.join(cells)} |" for cells in rows)]) + "\n"


def _fields(schema: Schema, path: str = "") -> Iterator[tuple[str, str, str, str]]:
    """Path, what it takes, default and meaning of each."""
    required = schema.get("required", ())
    for name, field in schema.get("properties", {}).items():
        default = "required" if name in required else _default(field)
        meaning = field.get("description", "").replace("|", "\\|")
        yield f"`{path}{name}`", _takes(field), default, meaning
        yield from _fields(field, f"{path}{name}.")
        if "items" in field:
            yield from _fields(field["items"], f"{path}{name}[].")


def _default(field: Schema) -> str:
    if "default" not in field:
        return ""
    value = field["default"]
    return f"`{value}`" if isinstance(value, str) else f"`{json.dumps(value)}`"


def _takes(field: Schema) -> str:
    kind = field.get("type")
    if "enum" in field:
        return " or ".join(f"`{word}`" for word in field["enum"])
    if kind == "array":
        return f"list: {_takes(field['items'])}"
    if kind == "object":
        return "fields, below" if "properties" in field else "map"
    if kind == "integer":
        return _bounds(field)
    if field.get("format") == "date-time":
        return "time, in UTC"
    rules = field.get("x-kubernetes-validations", ())
    if any("is not a duration" in rule.get("messageExpression", "") for rule in rules):
        return "duration"
    return {"boolean": "`true` or `false`", "string": "text", "number": "number"}.get(str(kind), "text or map")


def _bounds(field: Schema) -> str:
    low, high = field.get("minimum"), field.get("maximum")
    if low is None:
        return "whole number"
    return f"whole number from {low}" + ("" if high is None else f" to {high}")
