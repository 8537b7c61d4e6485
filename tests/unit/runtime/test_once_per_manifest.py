# SPDX-License-Identifier: Apache-2.0
"""A manifest is read, made into a topology and checked once, however often it is used."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from streamapp.check import check_topology
from streamapp.cli.main import main
from streamapp.errors import ManifestError
from streamapp.here.manifests import load_plan
from streamapp.local import load_manifest
from streamapp.manifest import Manifest, reading
from streamapp.manifest.build import build_partial
from streamapp.manifest.text import read_text as parse_yaml
from streamapp.testing.cases import read_cases
from streamapp.testing.fit import misfits
from streamapp_operator.manifest.app import read_app

STEPS = {f.__code__: f.__name__ for f in (reading._parse, build_partial, check_topology)}
ONCE = {"_parse": 1, "build_partial": 1, "check_topology": 1}
TOPOLOGY = """
    - {name: lines, stream: {topic: text}}
    - {name: scored, python: {function: 'scoring:score', schema: 'score INT'}}
    - {name: out, to: {topic: o}}
"""
MANIFEST = """
apiVersion: streamapp.dev/v1alpha1
kind: StreamApp
metadata: {name: a}
spec:
  kafka: {bootstrapServers: 'kafka:9092'}
  code: CODE
  topology: TOPOLOGY
"""
HERE = "{files: {scoring.py: 'def score(row): return row'}}"


def steps(act: Callable[[], Any]) -> dict[str, int]:
    """Counts how often each step was taken."""
    found: Counter[str] = Counter()

    def count(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code in STEPS:
            found[STEPS[frame.f_code]] += 1

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        act()
    finally:
        sys.setprofile(before)
    return dict(found)


def manifest(code: str) -> str:
    return MANIFEST.replace("CODE", code).replace("TOPOLOGY", TOPOLOGY)


@pytest.mark.parametrize("code", [HERE, "{path: scoring.py}"], ids=["files", "path"])
def test_a_plan_of_a_file(tmp_path: Path, code: str) -> None:
    (tmp_path / "scoring.py").write_text("def score(row): return row\n")
    file = tmp_path / "app.yaml"
    file.write_text(manifest(code))
    assert steps(lambda: load_plan(file)) == ONCE


def test_an_app_of_a_cluster() -> None:
    body = parse_yaml(manifest(HERE)).data
    assert steps(lambda: read_app(body)) == ONCE


def test_objects_of_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "app.yaml"
    file.write_text(manifest(HERE))
    assert steps(lambda: main(["render", str(file)])) == ONCE
    assert "kind: StatefulSet" in capsys.readouterr().out


def test_cases_of_one_app(tmp_path: Path) -> None:
    (tmp_path / "app.yaml").write_text(manifest(HERE))
    cases = "app: app.yaml\ncases:\n" + "".join(f"- {{name: {name}, steps: [{{restart: {{}}}}]}}\n" for name in "ab")
    assert steps(lambda: misfits(read_cases(cases, tmp_path / "cases.yaml"))) == ONCE


def test_a_mistake_in_a_module_beside_the_manifest_is_told(tmp_path: Path) -> None:
    (tmp_path / "scoring.py").write_text("def scores(row): return row\n")
    file = tmp_path / "app.yaml"
    file.write_text(manifest("{path: scoring.py}"))
    with pytest.raises(ManifestError, match="module 'scoring' has no 'score'"):
        load_manifest(file)


def test_what_was_not_read_has_no_topology() -> None:
    """A copy that is changed is another manifest, and has not been checked."""
    read = reading.parse_manifest(manifest(HERE))
    bare = Manifest.model_validate(read.to_object())
    changed = read.model_copy(update={"metadata": read.metadata.model_copy(update={"name": "b"})})
    for one in (bare, changed):
        with pytest.raises(ValueError, match="parse_object"):
            _ = one.topology
