# SPDX-License-Identifier: Apache-2.0
"""The JSON Schema that editors use allows the same as the parser."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from streamapp.manifest.node import NOT_YET, OPERATIONS
from streamapp.schema import json_schema


def fields(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for owner, definition in [("StreamApp", schema), *schema["$defs"].items()]:
        for name, field in definition.get("properties", {}).items():
            yield f"{owner}.{name}", field


def test_every_field_is_described() -> None:
    schema = json_schema()
    plain = [name for name, field in fields(schema) if "description" not in field and "$ref" not in field]
    assert plain == []


def test_only_what_is_there_is_offered() -> None:
    offered = json_schema()["$defs"]["NodeSpec"]["properties"]
    assert set(OPERATIONS) <= set(offered)
    assert not set(NOT_YET["node"]) & set(offered)


def test_a_node_has_one_operation() -> None:
    assert json_schema()["$defs"]["NodeSpec"]["oneOf"] == [{"required": [name]} for name in OPERATIONS]


def test_it_is_plain_json_without_nulls_or_repeated_titles() -> None:
    text = json.dumps(json_schema())
    assert '"null"' not in text
    assert '"title": "Topology"' not in text
    assert json.loads(text) == json_schema()
