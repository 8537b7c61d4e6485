# SPDX-License-Identifier: Apache-2.0
"""Places where a value does not fit its schema, as the API server would find them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

TYPES: Mapping[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
}


def misfits(value: Any, schema: Mapping[str, Any], path: str) -> Any:
    """The places that the API server would refuse."""
    if not isinstance(value, TYPES[schema["type"]]):
        yield f"{path}: {value!r} is no {schema['type']}"
    elif isinstance(value, dict):
        for key, each in value.items():
            known = schema.get("properties", {}).get(key) or schema.get("additionalProperties")
            if known is not None:
                yield from misfits(each, known, f"{path}.{key}")
    elif isinstance(value, list):
        for each in value:
            yield from misfits(each, schema["items"], f"{path}[]")
    elif isinstance(value, int) and abs(value) >= 2**63:
        yield f"{path}: {value} is too large"
