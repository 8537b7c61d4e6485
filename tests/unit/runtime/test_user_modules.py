# SPDX-License-Identifier: Apache-2.0
"""The places where the modules of a manifest's functions come from on this machine, and the meaning of a change of
them."""

from __future__ import annotations

import json
from pathlib import Path
from random import random

import psutil
import pytest

from streamapp import modules
from streamapp.cli.main import main
from streamapp.compile import compile_manifest
from streamapp.errors import InputError, Invalid, ManifestError
from streamapp.local import load_manifest
from streamapp.manifest import parse_manifest
from streamapp.modules import LONGEST_BYTES, _names_of, names_of

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
    with pytest.raises(ManifestError, match=r"module 'scoring' has no 'score' .*did you mean `scored`") as error:
        load_manifest(write(tmp_path, "{path: functions}"))
    assert [problem.line for problem in error.value.problems] == [9]
    with pytest.raises(ManifestError) as error:
        load_manifest(write(tmp_path, "{path: functions}", schema="user STRNG"))
    assert [problem.line for problem in error.value.problems] == [9, 9, 10], "all at once, each with its line"


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


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1\n" * 50_000, "m.py has 300000 bytes, and 262144 are the most; put it into the image"),
        ("-" * 200_000 + "1", "m.py takes too much memory to read; put it into the image"),
        ("x=" + "a." * 120_000 + "b", "m.py cannot be read as Python: maximum recursion depth exceeded"),
        ("x=" + "[" * 100_000, "m.py, line 1: too many nested parentheses"),
        ("a\0b", "m.py cannot be read as Python: source code string cannot contain null bytes"),
    ],
    ids=["long", "minuses", "dots", "brackets", "null"],
)
def test_a_module_costs_only_a_process_of_its_own_and_only_once(text: str, said: str) -> None:
    memory = psutil.Process().memory_info().rss
    for _ in range(2):
        with pytest.raises(Invalid) as caught:
            names_of(text, "m.py")
        assert said in str(caught.value)
    assert psutil.Process().memory_info().rss - memory < 32 * 2**20
    if len(text) <= LONGEST_BYTES:
        before = _names_of.cache_info()
        with pytest.raises(Invalid):
            names_of(text, "other.py")
        after = _names_of.cache_info()
        assert (after.misses, after.hits) == (before.misses, before.hits + 1)


def test_a_module_that_takes_too_long_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(modules, "_SECONDS", 0.001)
    with pytest.raises(Invalid, match=r"m\.py takes too long to read; put it into the image"):
        names_of(f"x = {random()}", "m.py")


def test_a_module_with_more_names_than_anybody_would_read_is_not_held_against_functions() -> None:
    assert names_of("\n".join(f"a{i} = 1" for i in range(20_000)), "m.py") is None
