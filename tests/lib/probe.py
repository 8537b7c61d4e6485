# SPDX-License-Identifier: Apache-2.0
"""Compiles the JVM side of the tests and gives access to it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

from streamapp.spark.jvm import end_jvm
from streamapp.spark.session import JARS, Place, open_session, runtime_class_path


def all_jars() -> str:
    """The class path of a Java process that uses the JVM side without PySpark."""
    spark = Path(pyspark.__file__).parent / "jars"
    return os.pathsep.join([f"{spark}/*", f"{JARS}/spark/*", f"{JARS}/streamapp-runtime.jar"])


def compile_probe(sources: Path, target: Path) -> Path:
    """Compiles the Scala sources below a folder into classes below `target`, with the compiler in PySpark's jars."""
    files = sorted(str(path) for path in sources.glob("*.scala"))
    command = ["java", "-Xss8m", "-cp", all_jars(), "scala.tools.nsc.Main", "-usejavacp", "-d", str(target), *files]
    subprocess.run(command, check=True, timeout=300)
    return target


def probe_class_path(target: Path) -> str:
    """Spark's extra class path with the probe in front."""
    return os.pathsep.join([str(target), runtime_class_path()])


@contextmanager
def probe_session(sources: Path, folder: Path, settings: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
    """A Spark session in this process with the probe on its class path, and with further settings."""
    (classes := folder / "classes").mkdir()
    compile_probe(sources, classes)
    end_jvm()  # another test's JVM does not have it
    place = Place(master="local[2]", work_dir=folder / "work", memory="1g")
    place.work_dir.mkdir()
    session = open_session("probe", place, 1, dict(settings or {}), class_path=probe_class_path(classes))
    try:
        yield session
    finally:
        session.stop()
        end_jvm()
