# SPDX-License-Identifier: Apache-2.0
"""A resource is read and compiled once as long as it does not change, and the memory of it has a bound."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import yaml

from lib.operator import WORD_COUNT
from streamapp.errors import ManifestError
from streamapp_operator.manifest import app as apps
from streamapp_operator.manifest.app import RESTART_ANNOTATION, read_app


def body(**metadata: Any) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(WORD_COUNT)
    found["metadata"] |= {"namespace": "shop", "uid": "1", "generation": 1, **metadata}
    return found


def test_the_same_resource_is_the_same_app() -> None:
    first = read_app(body())
    assert read_app(body()) is first
    assert read_app(body() | {"status": {"phase": "Running"}}) is first


@pytest.mark.parametrize(
    "metadata",
    [
        {"uid": "2"},
        {"namespace": "billing"},
        {"generation": 2},
        {"annotations": {RESTART_ANNOTATION: "now"}},
    ],
)
def test_another_one_is_another(metadata: dict[str, Any]) -> None:
    first, other = read_app(body()), read_app(body(**metadata))
    assert other is not first
    assert other != first


def test_another_spec_is_another_even_of_the_same_generation() -> None:
    """The spec differs if code of a ConfigMap has been put into it, or a former version goes on."""
    changed = copy.deepcopy(body())
    changed["spec"]["epochInterval"] = "7s"
    assert read_app(changed).plan != read_app(body()).plan


def test_what_cannot_be_read_is_told_each_time() -> None:
    wrong = body()
    wrong["spec"]["guarantee"] = "twice"
    for _ in range(2):
        with pytest.raises(ManifestError, match="guarantee"):
            read_app(wrong)


def test_what_is_remembered_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    read = apps._Read()
    monkeypatch.setattr(apps, "_READ", read)
    monkeypatch.setattr(apps, "_LARGEST", 10_000)
    for number in range(100):
        read_app(body(uid=str(number)))
        assert sum(map(len, read._apps)) == read._size <= 10_000
    assert read._apps
