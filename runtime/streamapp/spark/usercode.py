# SPDX-License-Identifier: Apache-2.0
"""Calls a user's function on Arrow batches, in Python processes beside the executors. It does not depend on Spark.

The columns that a function returns take the place of the value's columns; the key, the event time and the engine's
other columns of a record stay. So each row of a result must come from a known row of the batch: from the given dict,
from the row with the same index (pandas), or from the row at the same place (Arrow).
"""

from __future__ import annotations

import importlib
import traceback
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from streamapp.spark.usertypes import WrongType, array_of, array_of_pandas, cast

MINE = "__mine"
"""Whether a row is for this node: the rows of other branches are in the same batches."""
DELETED = "__deleted"
_PLACE = ("__topic", "__partition", "__offset")
_FIRST = 1 << 40
"""The index of a frame's first row: an index that a function makes by itself is never taken for one of ours."""
_LONGEST = 1000
_FAULTS = (Exception, SystemExit)


class UserCodeError(Exception):
    """A user's function failed, or returned a wrong result; the message names the node and the record."""


@dataclass(frozen=True)
class UserFunction:
    """The callable that Spark calls with the batches of a partition; Spark sends it to the Python processes.

    Args:
        node: the node's name, for messages.
        function: `module:name`.
        mode: `row`, `pandas` or `arrow`.
        sees: the columns that the function gets: (name, column of the batch).
        kept: the columns of the batch that stay as they are.
        returns: the columns that take the value's place.
        table: whether each row gets one row in its place, or is deleted.
    """

    node: str
    function: str
    mode: str
    sees: tuple[tuple[str, str], ...]
    kept: tuple[str, ...]
    returns: pa.Schema
    table: bool
    loaded: list[Callable[[Any], Any]] = field(default_factory=list, compare=False)
    """The function itself, once it is loaded in this process."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield self._of(batch)

    def _of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        mine, deleted = (batch.column(name).to_pylist() for name in (MINE, DELETED))
        # A table's deletion has no row that a function could get.
        rows = [i for i in range(batch.num_rows) if mine[i] and not (self.table and deleted[i])]
        at = pa.array(rows, pa.int64())
        given = _Given(
            pa.RecordBatch.from_arrays(
                [batch.column(column).take(at) for _, column in self.sees], names=[name for name, _ in self.sees]
            ),
            {name: batch.column(name).take(at) for name in _PLACE if name in self.kept},
        )
        sources, values = self._call(given) if rows else ([], [pa.array([], f.type) for f in self.returns])
        return self._joined(batch, [rows[i] for i in sources], values, set(rows))

    def _joined(
        self, batch: pa.RecordBatch, sources: list[int], values: Sequence[pa.Array], given: set[int]
    ) -> pa.RecordBatch:
        """The function's rows, and those that were not for the function, in the batch's order."""
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

    def _call(self, given: _Given) -> tuple[list[int], list[pa.Array]]:
        """For each row of the result, the row that it comes from; and the result's columns."""
        function = self._function()
        if self.mode == "row":
            return self._by_row(function, given)
        try:
            batch = self._by_batch if self.mode == "arrow" else self._by_frame
            sources, values = batch(function, given.seen)
        except WrongType as error:
            raise self._failed(str(error), given.place()) from None
        except _FAULTS as error:
            raise self._failed(_words(error, self.function), given.place()) from error
        if self.table and len(set(sources)) < len(sources):
            raise self._failed("a table's row becomes one row or none, and it returned several for one", given.place())
        return sources, values

    def _by_row(self, function: Callable[[Any], Any], given: _Given) -> tuple[list[int], list[pa.Array]]:
        sources: list[int] = []
        made: list[dict[str, Any]] = []
        for i, row in enumerate(self._rows(given)):
            try:
                results = _listed(function(row))
                if self.table and len(results) > 1:
                    raise WrongType(f"a table's row becomes one row or none, and it returned {len(results)}")
                for result in results:
                    _require_columns(result, self.returns)
            except WrongType as error:
                raise self._failed(str(error), given.place(i)) from None
            except _FAULTS as error:
                raise self._failed(_words(error, self.function), given.place(i)) from error
            sources += [i] * len(results)
            # Copies: a function may use the same objects for its next row.
            made += [{name: deepcopy(v) if isinstance(v, dict | list) else v for name, v in r.items()} for r in results]
        return sources, [self._column(f, [row[f.name] for row in made], sources, given) for f in self.returns]

    def _rows(self, given: _Given) -> list[dict[str, Any]]:
        try:
            found: list[dict[str, Any]] = given.seen.to_pylist(maps_as_pydicts="strict")
        except Exception:
            for i in range(given.seen.num_rows):
                try:
                    given.seen.slice(i, 1).to_pylist(maps_as_pydicts="strict")
                except Exception as error:
                    message = f"the record cannot be given to Python: {type(error).__name__}: {error}"
                    raise self._failed(message, given.place(i)) from None
            raise
        return found

    def _column(self, f: pa.Field, values: list[Any], sources: list[int], given: _Given) -> pa.Array:
        """The values as a column; an error names the first value that does not fit."""
        try:
            return array_of(values, f)
        except WrongType:
            pass
        for i, value in enumerate(values):
            try:
                array_of([value], f)
            except WrongType as error:
                raise self._failed(str(error), given.place(sources[i])) from None
        raise self._failed(f"column `{f.name}` cannot be made {f.type}", given.place())

    def _by_frame(self, function: Callable[[Any], Any], seen: pa.RecordBatch) -> tuple[list[int], list[pa.Array]]:
        import pandas as pd

        # numpy has no type for a whole number or truth value that may be missing.
        types = {
            pa.int8(): pd.Int8Dtype(),
            pa.int16(): pd.Int16Dtype(),
            pa.int32(): pd.Int32Dtype(),
            pa.int64(): pd.Int64Dtype(),
            pa.bool_(): pd.BooleanDtype(),
        }
        frame = seen.to_pandas(types_mapper=types.get)
        frame.index = pd.RangeIndex(_FIRST, _FIRST + len(frame))
        result = function(frame)
        if not isinstance(result, pd.DataFrame):
            raise WrongType(f"it returned {_kind(result)}, and not a DataFrame")
        _require_names([str(name) for name in result.columns], self.returns)
        sources = [i - _FIRST if isinstance(i, int) else i for i in result.index.tolist()]
        if any(not isinstance(i, int) or not 0 <= i < seen.num_rows for i in sources):
            raise WrongType(
                "the result has another index than the rows that it was given, so that nobody knows of which record "
                "each row came: keep the index, and use no reset_index, merge or ignore_index"
            )
        return sources, [array_of_pandas(result[f.name], f) for f in self.returns]

    def _by_batch(self, function: Callable[[Any], Any], seen: pa.RecordBatch) -> tuple[list[int], list[pa.Array]]:
        result = function(seen)
        if not isinstance(result, pa.RecordBatch | pa.Table):
            raise WrongType(f"it returned {_kind(result)}, and not a RecordBatch or Table")
        if result.num_rows != seen.num_rows:
            raise WrongType(
                f"it was given {seen.num_rows} rows and returned {result.num_rows}: of an Arrow batch each row has one "
                "row in its place; use mode row or pandas to drop rows, or a filter node"
            )
        _require_names(result.schema.names, self.returns)
        return list(range(seen.num_rows)), [cast(result.column(f.name), f) for f in self.returns]

    def _function(self) -> Callable[[Any], Any]:
        if not self.loaded:
            module, _, name = self.function.partition(":")
            try:
                imported = importlib.import_module(module)
            except _FAULTS as error:
                reason = _words(error, self.function)
                raise self._failed(f"module '{module}' cannot be imported: {reason}") from error
            if not hasattr(imported, name):
                raise self._failed(f"module '{module}' has no '{name}'")
            found = getattr(imported, name)
            if not callable(found):
                raise self._failed(f"it is {_kind(found)}, and no function")
            self.loaded.append(found)
        return self.loaded[0]

    def _failed(self, words: str, place: str = "") -> UserCodeError:
        message = " ".join(f"node '{self.node}':{place} function '{self.function}': {words}".split())
        return UserCodeError(message if len(message) <= _LONGEST else f"{message[: _LONGEST - 1]}…")


@dataclass(frozen=True)
class _Given:
    """The rows of a batch that a function gets."""

    seen: pa.RecordBatch
    """The rows as the function sees them."""
    places: dict[str, pa.Array]
    """The places that the rows come from, without the fields that are not known any more."""

    def place(self, row: int | None = None) -> str:
        """The place of that row's record in words; None: the places of all records."""
        count = self.seen.num_rows
        if set(self.places) != set(_PLACE) or count == 0:
            return ""
        first, last = (self._at(row), self._at(row)) if row is not None else (self._at(0), self._at(count - 1))
        at = f" topic {first[0]}, partition {first[1]}, offset {first[2]}"
        if row is None and count > 1:
            at += f" to {last[2] if last[:2] == first[:2] else 'others'} ({count} records)"
        return f"{at}:"

    def _at(self, row: int) -> tuple[Any, ...]:
        return tuple(self.places[name][row].as_py() for name in _PLACE)


def _listed(result: Any) -> list[Any]:
    if result is None:
        return []
    return list(result) if isinstance(result, list | tuple) else [result]


def _require_columns(result: Any, returns: pa.Schema) -> None:
    if not isinstance(result, dict):
        raise WrongType(f"it returned {_kind(result)}, and not a dict, a list of dicts, or None")
    _require_names(list(result), returns)


def _require_names(names: list[Any], returns: pa.Schema) -> None:
    if missing := [name for name in returns.names if name not in names]:
        name = missing[0]
        raise WrongType(f"the result has no column `{name}`, which `schema` names; None says that there is no value")
    if unknown := [name for name in names if name not in returns.names]:
        raise WrongType(f"the result has a column `{unknown[0]}`, which `schema` does not name")


def _kind(value: Any) -> str:
    return f"a {type(value).__name__}"


def _words(error: BaseException, function: str) -> str:
    """The exception in words, with the last line of the user's own code in its traceback."""
    package = function.partition(":")[0].split(".")[0]
    frames = [f for f, _ in traceback.walk_tb(error.__traceback__)]
    theirs = [f for f in frames if str(f.f_globals.get("__name__", "")).split(".")[0] == package]
    found = f"{type(error).__name__}: {error}"
    if not theirs:
        return found
    file, line = theirs[-1].f_code.co_filename.rsplit("/", 1)[-1], theirs[-1].f_lineno
    return f"{found} ({file}, line {line})"
