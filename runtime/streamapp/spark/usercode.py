# SPDX-License-Identifier: Apache-2.0
"""Calls a user's function on Arrow batches, in Python processes beside the executors: it knows no Spark.

What a function returns takes the place of the value's columns; the key, the event time and whatever else the engine
has of a record stay. So each row of a result must be known to come of a row of the batch: of the dict that was given,
of the row with the same index (pandas), of the row at the same place (Arrow).
"""

from __future__ import annotations

import importlib
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

MINE = "__mine"
"""Whether a row is for this node: the rows of other branches are in the same batches."""
DELETED = "__deleted"
_PLACE = ("topic", "partition", "offset")


class UserCodeError(Exception):
    """A user's function that failed, or gave back what it should not; names the node and the record."""


class _Wrong(Exception):
    """What a function has returned cannot be taken."""


@dataclass(frozen=True)
class UserFunction:
    """What Spark calls with the batches of a partition; it goes to the Python processes as it is.

    Args:
        node: the node's name, for messages.
        function: `module:name`.
        mode: `row`, `pandas` or `arrow`.
        sees: the columns that the function is given: (name, column of the batch).
        kept: the columns of the batch that stay as they are.
        returns: the columns that take the value's place.
        table: each row has one row in its place, or is deleted.
    """

    node: str
    function: str
    mode: str
    sees: tuple[tuple[str, str], ...]
    kept: tuple[str, ...]
    returns: pa.Schema
    table: bool
    loaded: list[Callable[[Any], Any]] = field(default_factory=list, compare=False)
    """The function itself, once it is here."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield self._of(batch)

    def _of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        mine, deleted = (batch.column(name).to_pylist() for name in (MINE, DELETED))
        # A table's deletion has no row that a function could be given.
        rows = [i for i in range(batch.num_rows) if mine[i] and not (self.table and deleted[i])]
        seen = pa.RecordBatch.from_arrays(
            [batch.column(column).take(pa.array(rows, pa.int64())) for _, column in self.sees],
            names=[name for name, _ in self.sees],
        )
        sources, values = self._call(seen) if rows else ([], [pa.array([], f.type) for f in self.returns])
        return self._joined(batch, [rows[i] for i in sources], values, set(rows))

    def _joined(
        self, batch: pa.RecordBatch, sources: list[int], values: Sequence[pa.Array], given: set[int]
    ) -> pa.RecordBatch:
        """The rows that came of rows of the batch, and those that were not for the function, in the batch's order."""
        others = [i for i in range(batch.num_rows) if i not in given]
        dropped: set[int] = set()
        if self.table:
            dropped = given - set(sources)
            others += dropped
        # (row of the batch, row of the values; -1: it has none)
        pairs = sorted([*zip(sources, range(len(sources)), strict=True), *((i, -1) for i in others)])
        at = pa.array([source for source, _ in pairs], pa.int64())
        of = pa.array([None if value < 0 else value for _, value in pairs], pa.int64())
        columns = {name: batch.column(name).take(at) for name in self.kept}
        columns[DELETED] = self._deletions(batch, pairs, dropped)
        columns |= {f.name: values[i].take(of) for i, f in enumerate(self.returns)}
        return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))

    def _deletions(self, batch: pa.RecordBatch, pairs: list[tuple[int, int]], dropped: set[int]) -> pa.Array:
        was = batch.column(DELETED).to_pylist()
        # A stream's record with new values is no tombstone any more; a row that a table's function dropped is one.
        return pa.array([source in dropped or (value < 0 and was[source]) for source, value in pairs], pa.bool_())

    # --- the function -----------------------------------------------------------------------------------------

    def _call(self, seen: pa.RecordBatch) -> tuple[list[int], list[pa.Array]]:
        """For each row of the result the row that it came of, and the result's columns."""
        function = self._function()
        if self.mode == "row":
            return self._by_row(function, seen)
        try:
            found = self._by_batch(function, seen) if self.mode == "arrow" else self._by_frame(function, seen)
        except _Wrong as error:
            raise self._failed(str(error), seen) from None
        except Exception as error:
            raise self._failed(_words(error, self.function), seen) from error
        sources, values = found
        if self.table and len(set(sources)) < len(sources):
            raise self._failed("a table's row becomes one row or none, and it returned several for one", seen)
        return sources, values

    def _by_row(self, function: Callable[[Any], Any], seen: pa.RecordBatch) -> tuple[list[int], list[pa.Array]]:
        sources: list[int] = []
        made: list[dict[str, Any]] = []
        for i, row in enumerate(seen.to_pylist(maps_as_pydicts="strict")):
            try:
                results = _listed(function(row))
                if self.table and len(results) > 1:
                    raise _Wrong(f"a table's row becomes one row or none, and it returned {len(results)}")
                for result in results:
                    _require_columns(result, self.returns)
            except _Wrong as error:
                raise self._failed(str(error), seen.slice(i, 1)) from None
            except Exception as error:
                raise self._failed(_words(error, self.function), seen.slice(i, 1)) from error
            sources += [i] * len(results)
            made += results
        return sources, [self._column(f, [row[f.name] for row in made], sources, seen) for f in self.returns]

    def _column(self, f: pa.Field, values: list[Any], sources: list[int], seen: pa.RecordBatch) -> pa.Array:
        """The values as a column; an error names the first that does not fit."""
        try:
            return _array(values, f)
        except _Wrong:
            pass
        for i, value in enumerate(values):
            try:
                _array([value], f)
            except _Wrong as error:
                raise self._failed(str(error), seen.slice(sources[i], 1)) from None
        raise self._failed(f"column `{f.name}` cannot be made {f.type}", seen)

    def _by_frame(self, function: Callable[[Any], Any], seen: pa.RecordBatch) -> tuple[list[int], list[pa.Array]]:
        import pandas as pd

        # A whole number or truth value that may be missing is none of numpy's.
        types = {
            pa.int8(): pd.Int8Dtype(),
            pa.int16(): pd.Int16Dtype(),
            pa.int32(): pd.Int32Dtype(),
            pa.int64(): pd.Int64Dtype(),
            pa.bool_(): pd.BooleanDtype(),
        }
        result = function(seen.to_pandas(types_mapper=types.get))
        if not isinstance(result, pd.DataFrame):
            raise _Wrong(f"it returned {_kind(result)}, and not a DataFrame")
        _require_names([str(name) for name in result.columns], self.returns)
        sources = list(result.index)
        strange = [i for i in sources if not (isinstance(i, int) and 0 <= i < seen.num_rows)]
        if strange:
            raise _Wrong(
                f"the result's index has {strange[0]!r}, which is no row of the batch: keep the index of the rows that "
                "it was given, and use no reset_index"
            )
        values = [_from_pandas(result[f.name], f) for f in self.returns]
        return sources, values

    def _by_batch(self, function: Callable[[Any], Any], seen: pa.RecordBatch) -> tuple[list[int], list[pa.Array]]:
        result = function(seen)
        if not isinstance(result, pa.RecordBatch | pa.Table):
            raise _Wrong(f"it returned {_kind(result)}, and not a RecordBatch or Table")
        if result.num_rows != seen.num_rows:
            raise _Wrong(
                f"it was given {seen.num_rows} rows and returned {result.num_rows}: of an Arrow batch each row has one "
                "row in its place; use mode row or pandas to drop rows, or a filter node"
            )
        _require_names(result.schema.names, self.returns)
        return list(range(seen.num_rows)), [_cast(result.column(f.name), f) for f in self.returns]

    def _function(self) -> Callable[[Any], Any]:
        if not self.loaded:
            module, _, name = self.function.partition(":")
            try:
                found = getattr(importlib.import_module(module), name)
            except AttributeError:
                raise self._failed(f"module '{module}' has no '{name}'", None) from None
            except Exception as error:
                said = _words(error, self.function)
                raise self._failed(f"module '{module}' cannot be imported: {said}", None) from error
            if not callable(found):
                raise self._failed(f"it is {_kind(found)}, and no function", None)
            self.loaded.append(found)
        return self.loaded[0]

    def _failed(self, words: str, rows: pa.RecordBatch | None) -> UserCodeError:
        where = "" if rows is None else _place_of(rows)
        return UserCodeError(" ".join(f"node '{self.node}':{where} function '{self.function}': {words}".split()))


def _place_of(rows: pa.RecordBatch) -> str:
    """Which records these are, as far as their columns tell."""
    if not set(_PLACE) <= set(rows.schema.names) or rows.num_rows == 0:
        return ""
    first, last = ({name: rows.column(name)[i].as_py() for name in _PLACE} for i in (0, rows.num_rows - 1))
    at = f" topic {first['topic']}, partition {first['partition']}, offset {first['offset']}"
    if rows.num_rows > 1:
        to = last["offset"] if (last["topic"], last["partition"]) == (first["topic"], first["partition"]) else "others"
        at += f" to {to} ({rows.num_rows} records)"
    return f"{at}:"


def _listed(result: Any) -> list[Any]:
    if result is None:
        return []
    return list(result) if isinstance(result, list | tuple) else [result]


def _require_columns(result: Any, returns: pa.Schema) -> None:
    if not isinstance(result, dict):
        raise _Wrong(f"it returned {_kind(result)}, and not a dict, a list of dicts, or None")
    _require_names(list(result), returns)


def _require_names(names: list[Any], returns: pa.Schema) -> None:
    if missing := [name for name in returns.names if name not in names]:
        raise _Wrong(f"the result has no column `{missing[0]}`, which `schema` names; None says that there is no value")
    if unknown := [name for name in names if name not in returns.names]:
        raise _Wrong(f"the result has a column `{unknown[0]}`, which `schema` does not name")


def _array(values: list[Any], f: pa.Field) -> pa.Array:
    try:
        found = pa.array(values, f.type)
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        raise _Wrong(_does_not_fit(f, values[0] if len(values) == 1 else None, error)) from None
    wrong = next((value for value in values if _is_cut(value, f.type)), None)
    if wrong is not None:
        raise _Wrong(_does_not_fit(f, wrong, None))
    return found


def _is_cut(value: Any, kind: pa.DataType) -> bool:
    """Whether Arrow would make something else of it without a word: 1 of 1.5."""
    if isinstance(value, float):
        return bool(pa.types.is_integer(kind) and value % 1 != 0)
    if isinstance(value, list | tuple) and pa.types.is_list(kind):
        return any(_is_cut(item, kind.value_type) for item in value)
    if isinstance(value, dict) and pa.types.is_map(kind):
        return any(_is_cut(item, kind.item_type) for item in value.values())
    if isinstance(value, dict) and pa.types.is_struct(kind):
        return any(_is_cut(value.get(inner.name), inner.type) for inner in kind)
    return False


def _from_pandas(series: Any, f: pa.Field) -> pa.Array:
    try:
        found = pa.Array.from_pandas(series, type=f.type, safe=True)
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        raise _Wrong(_does_not_fit(f, None, error)) from None
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found


def _cast(column: Any, f: pa.Field) -> pa.Array:
    try:
        found = column.cast(f.type, safe=True)
    except pa.ArrowException as error:
        raise _Wrong(_does_not_fit(f, None, error)) from None
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found


def _does_not_fit(f: pa.Field, value: Any, error: Exception | None) -> str:
    said = f": {error}" if error is not None else ""
    what = "" if value is None else f" {value!r}"
    return f"column `{f.name}` is to be {f.type}, and the value{what} is not{said}"


def _kind(value: Any) -> str:
    return f"a {type(value).__name__}"


def _words(error: BaseException, function: str) -> str:
    """What was raised, and the last place in the user's own code that it came through."""
    package = function.partition(":")[0].split(".")[0]
    frames = [f for f, _ in traceback.walk_tb(error.__traceback__)]
    theirs = [f for f in frames if str(f.f_globals.get("__name__", "")).split(".")[0] == package]
    found = f"{type(error).__name__}: {error}"
    if not theirs:
        return found
    file, line = theirs[-1].f_code.co_filename.rsplit("/", 1)[-1], theirs[-1].f_lineno
    return f"{found} ({file}, line {line})"
