# SPDX-License-Identifier: Apache-2.0
"""Compiles the JVM side of the tests and gives access to it."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

from streamapp.spark.jvm import end_jvm
from streamapp.spark.session import JARS, Place, open_session, runtime_class_path

BUILD = Path(__file__).parents[2] / ".build"


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


def compiled_probe(sources: Path) -> Path:
    """The classes of the sources below a folder, compiled once for all processes of a test run."""
    inputs = [*sorted(sources.glob("*.scala")), JARS / "streamapp-runtime.jar"]
    name = hashlib.sha256(b"".join(path.read_bytes() for path in inputs)).hexdigest()[:16]
    (folder := BUILD / "probe").mkdir(parents=True, exist_ok=True)
    classes = folder / name
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not classes.exists():
            for former in folder.iterdir():
                if former.is_dir():
                    shutil.rmtree(former)
            (unfinished := folder / "unfinished").mkdir()
            compile_probe(sources, unfinished).rename(classes)
    return classes


def probe_class_path(target: Path) -> str:
    """Spark's extra class path with the probe in front."""
    return os.pathsep.join([str(target), runtime_class_path()])


@contextmanager
def probe_session(sources: Path, folder: Path, settings: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
    """A Spark session in this process with the probe on its class path, and with further settings."""
    classes = compiled_probe(sources)
    end_jvm()  # another test's JVM does not have it
    place = Place(master="local[2]", work_dir=folder / "work", memory="1g")
    place.work_dir.mkdir()
    session = open_session("probe", place, 1, dict(settings or {}), class_path=probe_class_path(classes))
    try:
        yield session
    finally:
        session.stop()
        end_jvm()
