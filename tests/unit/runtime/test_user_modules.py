# SPDX-License-Identifier: Apache-2.0
"""Where the modules of a manifest's functions come from on this machine, and what a change of them means."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from streamapp.cli.main import main
from streamapp.compile import compile_manifest
from streamapp.errors import InputError, ManifestError
from streamapp.local import load_manifest
from streamapp.manifest import parse_manifest

APP = """
apiVersion: streamapp.dev/v1alpha1
kind: StreamApp
metadata: {{name: app}}
spec:
  code: {code}
  topology:
  - {{name: in, stream: {{topic: in, value: text}}}}
  - {{name: scored, python: {{function: "{function}", schema: "{schema}"}}}}
  - {{name: sums, groupBy: [user], aggregate: {{score: sum(score)}}}}
  - {{name: out, to: {{topic: out}}}}
"""
SCHEMA = "user STRING, score DOUBLE"
SCORE = "def score(row):\n    return None\n"


def write(folder: Path, code: str, function: str = "scoring:score", schema: str = SCHEMA) -> Path:
    file = folder / "app.yaml"
    file.write_text(APP.format(code=code, function=function, schema=schema))
    return file


def test_a_path_is_a_module_or_a_folder_of_them_beside_the_manifest(tmp_path: Path) -> None:
    folder = tmp_path / "functions"
    (folder / "deeper").mkdir(parents=True)
    (folder / "deeper" / "other.py").write_text("x = 1")
    (folder / "scoring.py").write_text(SCORE)
    (folder / "rules.py").write_text("LARGE = 1")
    (folder / "notes.md").write_text("# Notes")
    plan = compile_manifest(load_manifest(write(tmp_path, "{path: functions}")))
    assert plan.code == (("rules.py", "LARGE = 1"), ("scoring.py", SCORE))
    plan = compile_manifest(load_manifest(write(tmp_path, "{path: functions/scoring.py, configMapRef: {name: c}}")))
    assert plan.code == (("scoring.py", SCORE),)


def test_what_is_not_there_or_not_right_is_told_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"code.path: there is no '.*functions'; name a Python file, or a folder"):
        load_manifest(write(tmp_path, "{path: functions}"))
    folder = tmp_path / "functions"
    folder.mkdir()
    with pytest.raises(InputError, match=r"code.path: there is no Python file in '.*functions'"):
        load_manifest(write(tmp_path, "{path: functions}"))
    (folder / "scoring.py").write_bytes(b"\xff")
    with pytest.raises(InputError, match=r"scoring.py: is not UTF-8 text"):
        load_manifest(write(tmp_path, "{path: functions}"))
    (folder / "scoring.py").write_text("def scored(row): ...")
    with pytest.raises(ManifestError, match=r"module 'scoring' has no 'score' .*did you mean `scored`"):
        load_manifest(write(tmp_path, "{path: functions}"))


def test_what_only_a_cluster_knows_is_checked_but_not_run_here(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(tmp_path, "{configMapRef: {name: scoring}}", function="anything:at_all")
    assert main(["explain", str(file)]) == 0
    assert "anything:at_all" in capsys.readouterr().out
    for command in ("run", "render"):
        assert main([command, str(file)]) == 1
        assert capsys.readouterr().err == (
            f"error: {file}: the modules of `code` are in ConfigMap 'scoring', which only a cluster has; for this "
            "machine, add `path` to `code`, with the folder they are in\n"
        )


def test_state_goes_on_with_a_corrected_function_and_not_with_another() -> None:
    def fingerprint(text: str = SCORE, function: str = "scoring:score", schema: str = SCHEMA) -> str:
        files = "{files: {scoring.py: " + json.dumps(text) + "}}"
        plan = compile_manifest(parse_manifest(APP.format(code=files, function=function, schema=schema)))
        return plan.stores[0].fingerprint

    both = SCORE + SCORE.replace("score", "scores")
    assert fingerprint() == fingerprint(SCORE.replace("None", "{}"))
    assert fingerprint() != fingerprint(both, function="scoring:scores")
    assert fingerprint() != fingerprint(schema="user BINARY, score DOUBLE")
    assert fingerprint() == fingerprint(schema="score DOUBLE, user STRING")
    assert fingerprint() != fingerprint(schema="user STRING, score FLOAT")


def test_what_a_function_returns_is_written_down_before_state() -> None:
    files = "{files: {scoring.py: " + json.dumps(SCORE) + "}}"
    plan = compile_manifest(parse_manifest(APP.format(code=files, function="scoring:score", schema=SCHEMA)))
    assert [topic.name for topic in plan.topics if topic.role == "repartition"] == ["app-sums-repartition"]
