# SPDX-License-Identifier: Apache-2.0
"""The results of a user's function, as Arrow columns of its declared types: each value is of the type, or refused.

Arrow by itself would turn 1.5 into 1, a number into a time, a time into a date, and a text into a number.
"""

from __future__ import annotations

import math
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_LARGEST_FLOAT = 3.4028235677973366e38
"""The bound beyond which a number becomes infinite in four bytes."""


class WrongType(Exception):
    """A function has returned a value of the wrong type."""


def array_of(values: list[Any], f: pa.Field) -> pa.Array:
    """Python values as a column.

    Raises:
        WrongType: when one of them is of another type.
    """
    wrong = next((value for value in values if not _fits(value, f.type)), None)
    if wrong is not None:
        raise WrongType(_does_not_fit(f, wrong))
    try:
        found = pa.array(values, f.type)
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        raise WrongType(_does_not_fit(f, values[0] if len(values) == 1 else None, error)) from None
    return _not_null(found, f)


def _fits(value: Any, kind: pa.DataType) -> bool:
    """Whether a value is of the type."""
    if value is None:
        return True
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    types = pa.types
    if types.is_boolean(kind):
        return isinstance(value, bool | np.bool_)
    if types.is_integer(kind):
        return whole
    if types.is_floating(kind):
        return whole or (isinstance(value, float | np.floating) and _is_in_range(float(value), kind))
    if types.is_decimal(kind):
        return whole or isinstance(value, Decimal)
    if types.is_string(kind) or types.is_large_string(kind):
        return isinstance(value, str)
    if types.is_binary(kind) or types.is_large_binary(kind):
        return isinstance(value, bytes | bytearray)
    if types.is_date(kind):
        return isinstance(value, date) and not isinstance(value, datetime)
    if types.is_timestamp(kind):
        return isinstance(value, datetime) and not (kind.tz is None and value.tzinfo is not None)
    if types.is_list(kind) or types.is_large_list(kind):
        return isinstance(value, list | tuple | np.ndarray) and all(_fits(item, kind.value_type) for item in value)
    if types.is_map(kind):
        return isinstance(value, dict) and all(
            _fits(key, kind.key_type) and _fits(item, kind.item_type) for key, item in value.items()
        )
    if types.is_struct(kind):
        names = {inner.name for inner in kind}
        return isinstance(value, dict) and value.keys() == names and all(_fits(value[i.name], i.type) for i in kind)
    return True


def _is_in_range(value: float, kind: pa.DataType) -> bool:
    return kind != pa.float32() or not math.isfinite(value) or abs(value) < _LARGEST_FLOAT


def array_of_pandas(series: Any, f: pa.Field) -> pa.Array:
    """A pandas series as a column; NaN in it is no value.

    Raises:
        WrongType: when it is of another type, or one of its values is.
    """
    import pandas as pd

    if series.dtype == object:
        return array_of([None if value is pd.NA or value is pd.NaT or value != value else value for value in series], f)
    try:
        return cast(pa.Array.from_pandas(series), f)
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        raise WrongType(_does_not_fit(f, None, error)) from None


def cast(column: Any, f: pa.Field) -> pa.Array:
    """An Arrow column as one of exactly this type.

    Raises:
        WrongType: when it is of another kind, or a value would change.
    """
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if not _is_same_kind(column.type, f.type):
        raise WrongType(f"column `{f.name}` is to be {f.type}, and is {column.type}")
    try:
        found = column.cast(f.type, safe=True)
    except pa.ArrowException as error:
        raise WrongType(_does_not_fit(f, None, error)) from None
    if f.type == pa.float32() and pc.any(pc.and_(pc.is_inf(found), pc.is_finite(column.cast(pa.float64())))).as_py():
        raise WrongType(_does_not_fit(f, None))
    return _not_null(found, f)


def _is_same_kind(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether a value of the first type, where it fits, is a value of the second."""
    types = pa.types
    if types.is_null(given):
        return True
    numbers = (types.is_integer, types.is_floating, types.is_decimal)
    if any(is_number(wanted) for is_number in numbers):
        return any(is_number(given) for is_number in numbers)
    if types.is_nested(wanted):
        return (
            types.is_nested(given)
            and given.num_fields == wanted.num_fields
            and all(
                (types.is_struct(wanted) is False or given.field(i).name == wanted.field(i).name)
                and _is_same_kind(given.field(i).type, wanted.field(i).type)
                for i in range(wanted.num_fields)
            )
        )
    kinds = (
        types.is_boolean,
        lambda kind: types.is_string(kind) or types.is_large_string(kind),
        lambda kind: types.is_binary(kind) or types.is_large_binary(kind),
        types.is_date,
        lambda kind: types.is_timestamp(kind) and (kind.tz is None) is (wanted.tz is None),
    )
    return any(is_kind(wanted) and is_kind(given) for is_kind in kinds)


def _not_null(found: pa.Array, f: pa.Field) -> pa.Array:
    if not f.nullable and found.null_count:
        raise WrongType(f"column `{f.name}` is NOT NULL, and there is a row without a value")
    return found


def _does_not_fit(f: pa.Field, value: Any, error: Exception | None = None) -> str:
    reason = f": {error}" if error is not None else ""
    what = "" if value is None else f" {value!r:.100}"
    return f"column `{f.name}` is to be {f.type}, and the value{what} is not{reason}"
