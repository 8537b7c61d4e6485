# SPDX-License-Identifier: Apache-2.0
"""The plans of manifests, as `explain` shows them and as JSON."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from streamapp.compile import compile_manifest
from streamapp.describe import explain_json, explain_mermaid, explain_text
from streamapp.manifest import parse_manifest

HERE = Path(__file__).parent
EXAMPLES = sorted((HERE.parents[1] / "examples").glob("*.yaml"))
MANIFESTS = [*EXAMPLES, *sorted((HERE / "manifests").glob("*.yaml"))]

Golden = Callable[[Path, str], None]


@pytest.mark.parametrize("file", MANIFESTS, ids=lambda file: file.stem)
def test_explain(file: Path, golden: Golden) -> None:
    plan = compile_manifest(parse_manifest(file.read_text()))
    golden(HERE / "plans" / f"{file.stem}.txt", explain_text(plan))


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_plan(file: Path, golden: Golden) -> None:
    golden(HERE / "plans" / f"{file.stem}.json", compile_manifest(parse_manifest(file.read_text())).to_json())


@pytest.mark.parametrize(("show", "ending"), [(explain_mermaid, "mmd"), (explain_json, "explain.json")])
def test_other_pictures(show: Callable[..., str], ending: str, golden: Golden) -> None:
    file = next(file for file in EXAMPLES if file.stem == "orders-payments")
    golden(HERE / "plans" / f"{file.stem}.{ending}", show(compile_manifest(parse_manifest(file.read_text()))))
