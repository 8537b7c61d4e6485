# SPDX-License-Identifier: Apache-2.0
"""The CustomResourceDefinition is the manifest's model, as a cluster reads it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from streamapp.manifest.model import Spec
from streamapp.manifest.node import OPERATIONS
from streamapp_operator.crd import crd, resource_schema
from streamapp_operator.crd.structural import undescribed
from streamapp_operator.crd.text import crd_text

SPEC = resource_schema()["properties"]["spec"]


def places(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, schema
    for name, field in schema.get("properties", {}).items():
        yield from places(field, f"{path}.{name}")
    for inner in ("items", "additionalProperties"):
        if isinstance(schema.get(inner), dict):
            yield from places(schema[inner], path + "[]")


def test_the_file_is_what_the_model_says(root: Path) -> None:
    assert (root / "crds" / "streamapp.yaml").read_text() == crd_text(), "run `make crd` and look at the diff"


def test_the_text_reads_back() -> None:
    assert yaml.safe_load(crd_text()) == crd()


def test_explain_has_something_to_say_about_every_field() -> None:
    schema = resource_schema()
    assert [path for path in undescribed(schema) if path != ".metadata"] == []


def test_every_setting_and_operation_is_there() -> None:
    assert set(SPEC["properties"]) == {info.alias or name for name, info in Spec.model_fields.items()}
    assert set(OPERATIONS) <= set(SPEC["properties"]["topology"]["items"]["properties"])


def test_defaults_are_the_models() -> None:
    for name, info in Spec.model_fields.items():
        default = SPEC["properties"][info.alias or name].get("default")
        assert default == (None if info.is_required() else info.default), name


def test_every_place_has_a_type_or_is_open() -> None:
    bare = [
        path
        for path, schema in places(resource_schema())
        if "type" not in schema and not schema.get("x-kubernetes-preserve-unknown-fields")
    ]
    assert bare == []


def test_nothing_of_json_schema_is_left_that_a_cluster_does_not_know() -> None:
    text = crd_text()
    for word in ("$ref", "anyOf", "oneOf", "dependentRequired", "examples", "x-positive", "const:"):
        assert word not in text, word


def test_people_find_it() -> None:
    names = crd()["spec"]["names"]
    assert (names["shortNames"], names["categories"]) == (["sapp"], ["streaming"])
    columns = [column["name"] for column in crd()["spec"]["versions"][0]["additionalPrinterColumns"]]
    assert columns[:7] == ["Phase", "Ready", "Replicas", "Desired", "Lag", "Restore", "Age"]
