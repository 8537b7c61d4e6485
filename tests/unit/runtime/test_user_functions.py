# SPDX-License-Identifier: Apache-2.0
"""Functions of the user's over Arrow batches, as the processes beside the executors call them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from streamapp.spark.usercode import UserCodeError, UserFunction

MODULE = """
import pandas as pd
import pyarrow as pa

CALLS = []

def same(row):
    CALLS.append(row)
    return {"v": row["v"]}

def none(row):
    return None

def twice(row):
    return [{"v": row["v"]}, {"v": -row["v"]}]

def give(value):
    return lambda *_: {"v": value}

text, half, huge, truth, missing = (give(value) for value in ("x", 1.5, 2**70, True, None))

def short(row):
    return {}

def long(row):
    return {"v": 1, "w": 2}

def no_dict(row):
    return "v"

def fails(row):
    return int("x")

def as_frame(frame):
    return frame[["v"]]

def largest_first(frame):
    return frame[frame.v > 1].sort_values("v", ascending=False)[["v"]]

def no_index(frame):
    return frame[frame.v > 1].reset_index(drop=True)[["v"]]

def every_row_twice(frame):
    return pd.concat([frame, frame])[["v"]]

def no_frame(frame):
    return [1]

def inside_pandas(frame):
    return frame.rename({}).set_axis([1])

def column_less(frame):
    return frame[[]]

def halves(frame):
    return frame.assign(v=frame.v / 2)[["v"]]

def types(frame):
    return pd.DataFrame({"v": [str(frame.v.dtype)] * len(frame)}, index=frame.index)

def as_batch(batch):
    return batch.select(["v"])

def as_table(batch):
    return pa.table({"v": batch.column("v")})

def one_less(batch):
    return batch.slice(1).select(["v"])

def no_batch(batch):
    return batch.column("v")

three = 3

LAST = {}

def reused(row):
    LAST["v"] = row["v"]
    return LAST

def leaves(row):
    raise SystemExit(3)

def halves_as_objects(frame):
    return frame.assign(v=(frame.v / 2).astype(object))[["v"]]

def words_as_objects(frame):
    return frame.assign(v=pd.Series(["1"] * len(frame), index=frame.index, dtype=object))[["v"]]

def truths(frame):
    return frame.assign(v=frame.v > 1)[["v"]]

def texts(batch):
    return pa.table({"v": batch.column("v").cast(pa.string())})

def loud(row):
    raise ValueError("x" * 3_000_000)
"""
LONG = pa.schema([("v", pa.int64())])


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    import sys

    (tmp_path / "user_functions.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "user_functions"
    sys.modules.pop("user_functions", None)


def call(
    name: str,
    mode: str = "row",
    *,
    returns: pa.Schema = LONG,
    table: bool = False,
    v: list[Any] | None = None,
    mine: list[bool] | None = None,
    deleted: list[bool] | None = None,
) -> list[tuple[Any, ...]]:
    """Calls the function on rows with these values and the keys 0, 1, …; returns (key, deleted, value) of each row that
    comes of them."""
    values = [1, 2, 3] if v is None else v
    count = len(values)
    batch = pa.RecordBatch.from_pydict(
        {
            "__mine": pa.array(mine or [True] * count),
            "__deleted": pa.array(deleted or [False] * count),
            "__key": pa.array(list(range(count)), pa.int32()),
            "v": pa.array(values, pa.int64()),
            "__topic": ["t"] * count,
            "__partition": [4] * count,
            "__offset": list(range(7, 7 + count)),
        }
    )
    hidden = ("topic", "partition", "offset", "key")
    sees = (("v", "v"), *((name, f"__{name}") for name in hidden))
    kept = tuple(f"__{name}" for name in hidden)
    function = UserFunction("scored", f"user_functions:{name}", mode, sees, kept, returns, table)
    (result,) = function(iter([batch]))
    columns = [result.column(c).to_pylist() for c in ("__key", "__deleted", *returns.names)]
    return list(zip(*columns, strict=True))


def test_a_row_is_a_dict_of_all_that_an_expression_sees() -> None:
    import importlib

    assert call("same", v=[5]) == [(0, False, 5)]
    assert importlib.import_module("user_functions").CALLS == [
        {"v": 5, "topic": "t", "partition": 4, "offset": 7, "key": 0}
    ]


def test_a_stream_s_row_becomes_none_one_or_several() -> None:
    assert call("none") == []
    assert call("twice", v=[1, 2]) == [(0, False, 1), (0, False, -1), (1, False, 2), (1, False, -2)]


def test_rows_of_other_branches_pass_in_their_places() -> None:
    assert call("twice", v=[1, 2, 3], mine=[True, False, True]) == [
        (0, False, 1),
        (0, False, -1),
        (1, False, None),
        (2, False, 3),
        (2, False, -3),
    ]
    assert call("fails", mine=[False] * 3, deleted=[True, False, False]) == [
        (0, True, None),
        (1, False, None),
        (2, False, None),
    ]


def test_a_stream_s_tombstone_gets_new_values_and_a_table_s_deletion_stays_one() -> None:
    assert call("missing", deleted=[True, False, True]) == [(i, False, None) for i in range(3)]
    assert call("twice", table=True, deleted=[True] * 3) == [(i, True, None) for i in range(3)]
    assert call("none", table=True) == [(i, True, None) for i in range(3)]


def test_a_frame_s_index_says_of_which_row_each_came() -> None:
    assert call("largest_first", "pandas") == [(1, False, 2), (2, False, 3)]
    assert call("largest_first", "pandas", table=True) == [(0, True, None), (1, False, 2), (2, False, 3)]
    assert call("every_row_twice", "pandas", v=[8, 9]) == [(0, False, 8), (0, False, 8), (1, False, 9), (1, False, 9)]


def test_whole_numbers_stay_whole_where_some_are_missing() -> None:
    beyond_double = 2**53 + 1
    assert call("as_frame", "pandas", v=[beyond_double, None]) == [(0, False, beyond_double), (1, False, None)]
    assert call("types", "pandas", returns=pa.schema([("v", pa.string())]))[0] == (0, False, "Int64")


@pytest.mark.parametrize("name", ["as_batch", "as_table"])
def test_of_an_arrow_batch_each_row_has_one_in_its_place(name: str) -> None:
    assert call(name, "arrow", mine=[True, False, True]) == [(0, False, 1), (1, False, None), (2, False, 3)]


def test_values_of_every_kind_are_taken(module: str) -> None:
    import importlib

    noon = datetime(2024, 1, 1, 12, tzinfo=UTC)
    kinds: dict[str, tuple[pa.DataType, Any]] = {
        "time": (pa.timestamp("us", tz="UTC"), noon),
        "price": (pa.decimal128(10, 2), Decimal("1.50")),
        "tags": (pa.list_(pa.string()), ["a", None]),
        "counts": (pa.map_(pa.string(), pa.int32()), [("a", 1)]),
        "inner": (pa.struct([("x", pa.float64())]), {"x": 1.0}),
        "raw": (pa.binary(), b"\x00"),
    }
    functions = importlib.import_module(module)
    for name, (_, value) in kinds.items():
        setattr(functions, name, functions.give(dict(value) if name == "counts" else value))
    for name, (kind, value) in kinds.items():
        assert call(name, returns=pa.schema([("v", kind)]), v=[1]) == [(0, False, value)]


@pytest.mark.parametrize(
    ("name", "mode", "said"),
    [
        (
            "fails",
            "row",
            "offset 7: function 'user_functions:fails': ValueError: invalid literal for int() with base "
            "10: 'x' (user_functions.py, line 32)",
        ),
        ("text", "row", "offset 7: function 'user_functions:text': column `v` is to be int64, and the value 'x' is "),
        ("half", "row", "column `v` is to be int64, and the value 1.5 is not"),
        ("huge", "row", "column `v` is to be int64, and the value 1180591620717411303424 is not"),
        ("truth", "row", "column `v` is to be int64, and the value True is not"),
        ("short", "row", "the result has no column `v`, which `schema` names; None says that there is no value"),
        ("long", "row", "the result has a column `w`, which `schema` does not name"),
        ("no_dict", "row", "it returned a str, and not a dict, a list of dicts, or None"),
        ("no_index", "pandas", "offset 7 to 9 (3 records): function 'user_functions:no_index': the result has "),
        ("no_frame", "pandas", "it returned a list, and not a DataFrame"),
        ("inside_pandas", "pandas", "has 3 elements, new values have 1 elements (user_functions.py, line 50)"),
        ("column_less", "pandas", "the result has no column `v`"),
        ("halves", "pandas", "column `v` is to be int64, and the value is not"),
        ("one_less", "arrow", "it was given 3 rows and returned 2"),
        ("no_batch", "arrow", "and not a RecordBatch or Table"),
        ("halves_as_objects", "pandas", "column `v` is to be int64, and the value 0.5 is not"),
        ("words_as_objects", "pandas", "column `v` is to be int64, and the value '1' is not"),
        ("truths", "pandas", "column `v` is to be int64, and is bool"),
        ("texts", "arrow", "column `v` is to be int64, and is string"),
        ("leaves", "row", "SystemExit: 3 (user_functions.py, line"),
        ("three", "row", "node 'scored': function 'user_functions:three': it is a int, and no function"),
        ("nobody", "row", "node 'scored': function 'user_functions:nobody': module 'user_functions' has no 'nobody'"),
    ],
)
def test_a_function_that_fails_or_returns_something_else_is_told(name: str, mode: str, said: str) -> None:
    with pytest.raises(UserCodeError) as caught:
        call(name, mode)
    assert str(caught.value).startswith("node 'scored': ")
    assert said in str(caught.value)
    if "offset" in said:
        assert "topic t, partition 4, offset 7" in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.list_(pa.int32()), [1, 1.5]),
        (pa.struct([("x", pa.int64())]), {"x": 0.5}),
        (pa.map_(pa.string(), pa.list_(pa.int64())), {"a": [2.5]}),
        (pa.int64(), float("nan")),
        (pa.int64(), Decimal("1.5")),
        (pa.int64(), np.float32(1.5)),
        (pa.list_(pa.int64()), np.array([1.5])),
        (pa.list_(pa.int64()), {1}),
        (pa.map_(pa.string(), pa.int64()), [("a", 1)]),
        (pa.struct([("x", pa.int64())]), {"x": 1, "y": 2}),
        (pa.struct([("x", pa.int64())]), {}),
        (pa.float32(), 1e300),
        (pa.timestamp("us", tz="UTC"), 5),
        (pa.timestamp("us"), datetime(2024, 1, 1, tzinfo=UTC)),
        (pa.date32(), 5.7),
        (pa.date32(), datetime(2024, 1, 1, 23)),
        (pa.string(), b"x"),
    ],
)
def test_no_value_is_made_another_one_wherever_it_stands(kind: pa.DataType, value: Any, module: str) -> None:
    import importlib

    functions = importlib.import_module(module)
    setattr(functions, "cut", functions.give(value))  # noqa: B010
    with pytest.raises(UserCodeError, match="column `v` is to be"):
        call("cut", returns=pa.schema([("v", kind)]))


def test_objects_that_a_function_uses_again_are_taken_as_they_were() -> None:
    assert call("reused") == [(0, False, 1), (1, False, 2), (2, False, 3)]


def test_not_null_is_meant() -> None:
    with pytest.raises(UserCodeError, match="column `v` is NOT NULL, and there is a row without a value"):
        call("missing", returns=pa.schema([pa.field("v", pa.int64(), nullable=False)]))


def test_a_record_that_python_cannot_have_is_named() -> None:
    far = pa.array([0, 2**60], pa.int64()).cast(pa.timestamp("us", tz="UTC"))
    batch = pa.RecordBatch.from_pydict(
        {
            "__mine": [True] * 2,
            "__deleted": [False] * 2,
            "__timestamp": far,
            "__topic": ["t"] * 2,
            "__partition": [4] * 2,
            "__offset": [7, 8],
        }
    )
    kept = ("__timestamp", "__topic", "__partition", "__offset")
    function = UserFunction("n", "user_functions:none", "row", (("timestamp", "__timestamp"),), kept, LONG, False)
    with pytest.raises(UserCodeError, match=r"offset 8: .*: the record cannot be given to Python: OverflowError"):
        list(function(iter([batch])))


def test_what_is_told_has_an_end() -> None:
    with pytest.raises(UserCodeError) as caught:
        call("loud")
    assert len(str(caught.value)) == 1000


def test_a_table_s_row_does_not_become_several() -> None:
    with pytest.raises(UserCodeError, match="a table's row becomes one row or none, and it returned 2"):
        call("twice", table=True)
    with pytest.raises(UserCodeError, match="a table's row becomes one row or none"):
        call("every_row_twice", "pandas", table=True)


def test_a_module_that_cannot_be_imported_is_told(tmp_path: Path) -> None:
    (tmp_path / "broken_functions.py").write_text("import not_there\n")
    (tmp_path / "wrong_functions.py").write_text("import math\nPI = math.pie\n")
    function = UserFunction("n", "broken_functions:f", "row", (("v", "v"),), (), LONG, False)
    batch = pa.RecordBatch.from_pydict({"__mine": [True], "__deleted": [False], "v": [1]})
    with pytest.raises(UserCodeError, match="module 'broken_functions' cannot be imported: ModuleNotFoundError"):
        list(function(iter([batch])))
    function = UserFunction("n", "wrong_functions:f", "row", (("v", "v"),), (), LONG, False)
    with pytest.raises(UserCodeError, match=r"cannot be imported: AttributeError: .* \(wrong_functions.py, line 2\)"):
        list(function(iter([batch])))
