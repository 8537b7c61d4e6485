# SPDX-License-Identifier: Apache-2.0
"""The status that an app has, read once. Pure.

Another version of the operator may have written it, or anybody with rights on it. Only what the definition of the
status has a place for is kept; a field that is missing, or of another type, is not known. Nothing in a status is an
error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cache
from typing import Any

from streamapp_operator.crd.status import LARGEST_NUMBER, Schema, status_schema

_FIRST_YEAR, _LAST_YEAR = 2000, 2999
_schema = cache(status_schema)


class _Unfit(Exception):
    """The value does not fit its place in the schema."""


def status_in(body: Mapping[str, Any]) -> dict[str, Any]:
    """
    Args:
        body: the resource.

    Returns:
        What is known of its status; empty where nothing is.

    >>> status_in({"status": {"phase": "Running", "replicas": "many", "new": 1}})
    {'phase': 'Running'}
    """
    try:
        found: dict[str, Any] = _fitting(body.get("status"), _schema())
    except _Unfit:
        return {}
    return found


def _fitting(value: Any, schema: Schema) -> Any:
    """The value without what has no place in the schema.

    Raises:
        _Unfit: when nothing is left.
    """
    return _READERS[schema["type"]](value, schema)


def _object(value: Any, schema: Schema) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _Unfit
    known, others = schema.get("properties", {}), schema.get("additionalProperties")
    found = {}
    for name, each in value.items():
        place = known.get(name, others)
        if place is not None:
            try:
                found[name] = _fitting(each, place)
            except _Unfit:
                continue
    if any(name not in found for name in schema.get("required", ())):
        raise _Unfit
    return found


def _array(value: Any, schema: Schema) -> list[Any]:
    if not isinstance(value, list):
        raise _Unfit
    found = []
    for each in value:
        try:
            found.append(_fitting(each, schema["items"]))
        except _Unfit:
            continue
    return found


def _string(value: Any, schema: Schema) -> str:
    if not isinstance(value, str) or value not in schema.get("enum", (value,)):
        raise _Unfit
    if schema.get("format") == "date-time" and not _is_moment(value):
        raise _Unfit
    return value


def _is_moment(text: str) -> bool:
    """Whether it is a time that others can be counted from."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return False
    return moment.tzinfo is not None and _FIRST_YEAR <= moment.year <= _LAST_YEAR


def _integer(value: Any, schema: Schema) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > LARGEST_NUMBER:
        raise _Unfit
    return value


def _float(value: Any, schema: Schema) -> float:
    # Neither NaN nor Infinity is between the two.
    if not isinstance(value, int | float) or isinstance(value, bool) or not abs(value) <= LARGEST_NUMBER:
        raise _Unfit
    return value


_READERS: Mapping[str, Callable[[Any, Schema], Any]] = {
    "object": _object,
    "array": _array,
    "string": _string,
    "integer": _integer,
    "number": _float,
}
