# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re

import pytest

from streamapp.formats.ddl import fields_of


def test_fields_come_in_order_with_one_spelling_of_their_types() -> None:
    ddl = "a: STRING, `b c` Decimal(5), d ARRAY<STRUCT<x: INT NOT NULL, y: MAP<STRING, LONG>>> COMMENT 'it''s'"
    assert fields_of(ddl.replace("''", "\\'")) == (
        ("a", "string"),
        ("b c", "decimal(5,0)"),
        ("d", "array<struct<x:int,y:map<string,bigint>>>"),
    )


@pytest.mark.parametrize(
    ("ddl", "said"),
    [
        ("", "ends where a field's name is expected"),
        ("user", "ends where the type of field `user` is expected"),
        ("user STRNG", "unknown type `STRNG` of field `user`; did you mean `STRING`?"),
        ("user STRING amount DOUBLE", "expected a comma and not `amount`"),
        ("user STRING, User INT", "field `User` is there twice"),
        ("n DECIMAL(50, 2)", "at most 38 digits"),
        ("a ARRAY<INT", "expected `>` and not the end"),
        ("a INT;", "cannot be read from `;`"),
        ("__key STRING", "the engine's own"),
        ("a " + "ARRAY<" * 100, "nested more than 50 deep"),
        ("a STRUCT<" + "a: STRUCT<" * 100, "nested more than 50 deep"),
    ],
)
def test_a_wrong_schema_is_named(ddl: str, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        fields_of(ddl)
