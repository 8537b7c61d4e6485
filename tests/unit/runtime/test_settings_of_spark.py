# SPDX-License-Identifier: Apache-2.0
"""Settings of Spark in the environment take effect if they are on the list; if one is not, nothing starts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from streamapp.errors import InputError
from streamapp.spark.allowed import ALLOWED, require_allowed
from streamapp.spark.session import FIXED_SETTINGS

OURS = {"spark.authenticate": "true", "spark.authenticate.secret.file": "/rpc"}
STARTS = """
from pathlib import Path
from pyspark import SparkContext
from streamapp.errors import StreamAppError
from streamapp.spark.jvm import end_jvm
from streamapp.spark.session import start_engine, this_process
try:
    start_engine(this_process(1, Path("work")))
    print("memory:", SparkContext._jvm.org.apache.spark.SparkConf(True).get("spark.memory.fraction", "-"))
except StreamAppError as error:
    print("error:", error, SparkContext._gateway)
finally:
    end_jvm()
"""
"""Spark's Java process alone, in a process of its own."""


def starts(folder: Path, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", STARTS], cwd=folder, env=environment, capture_output=True, text=True, timeout=120
    )
    (line,) = [line for line in done.stdout.splitlines() if line.startswith(("memory:", "error:"))]
    return line


@pytest.fixture
def environment() -> dict[str, str]:
    return dict(os.environ)


def refused(text: str, home: Path, **environment: str) -> str:
    with pytest.raises(InputError) as error:
        require_allowed(text, OURS, environment, home)
    return str(error.value)


def test_what_is_on_the_list_counts(tmp_path: Path, environment: dict[str, str]) -> None:
    (tmp_path / "spark-defaults.conf").write_text("spark.memory.fraction 0.5\n")
    assert starts(tmp_path, **environment, SPARK_CONF_DIR=str(tmp_path)) == "memory: 0.5"


def test_nothing_starts_with_what_is_not(tmp_path: Path, environment: dict[str, str]) -> None:
    (tmp_path / "spark-defaults.conf").write_text("spark.memory.fraction 0.5\nspark.speculation  c4n4ry\n")
    told = starts(
        tmp_path,
        **environment,
        SPARK_CONF_DIR=str(tmp_path),
        JDK_JAVA_OPTIONS="-Dspark.authenticate=false",
        PYSPARK_SUBMIT_ARGS="--conf spark.decommission.enabled=false pyspark-shell",
    )
    assert told.startswith("error: settings of Spark that an app does not take: ")
    assert "`spark.authenticate` in the environment variable JDK_JAVA_OPTIONS, " in told
    assert "`spark.decommission.enabled` in the environment variable PYSPARK_SUBMIT_ARGS, " in told  # one of ours
    assert f"`spark.speculation` in {tmp_path}/spark-defaults.conf; take them out" in told
    assert "spark.memory.fraction" not in told
    assert "c4n4ry" not in told
    assert told.endswith(" None"), "the process has been ended"


@pytest.mark.parametrize("name", ALLOWED)
def test_each_of_the_list_is_in_the_manual(root: Path, name: str) -> None:
    require_allowed(f"{name}=1", OURS, {}, Path("none"))
    assert f"`{name}`" in (root / "docs" / "operating.md").read_text()
    assert name not in FIXED_SETTINGS


def test_ours_are_ours(tmp_path: Path) -> None:
    require_allowed("spark.authenticate=true\nspark.authenticate.secret.file=****(redacted)", OURS, {}, tmp_path)
    assert "`spark.authenticate` in the environment; " in refused("spark.authenticate=false", tmp_path)


def test_the_place_is_told(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    file = tmp_path / "conf" / "spark-defaults.conf"
    file.write_text("# spark.jars\nspark.jars.packages=x\n")
    assert f"`spark.jars.packages` in {file}; " in refused("spark.jars.packages=x", tmp_path)
    assert "`spark.jars` in the environment; " in refused("spark.jars=x", tmp_path)
    assert "variable _JAVA_OPTIONS; " in refused("spark.jars=x", tmp_path, _JAVA_OPTIONS="'-Dspark.jars=x'")
