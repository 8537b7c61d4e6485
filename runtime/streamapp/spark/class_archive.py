# SPDX-License-Identifier: Apache-2.0
"""Spark's classes and those of its libraries, read and verified ahead of time: a Java process with them has a third
less to do at its start.

This is Java's class-data sharing (JEP 310). The archive belongs to one Java and to one class path. The class path must
begin as it did when the archive was made: with one jar that has no classes and names Spark's own jars, and then our
libraries. Our own code comes after them, as it changes. If an archive does not fit, Java silently ignores it.

Set-up and the build of the image run this file as it is, with the standard library alone.
"""

from __future__ import annotations

import gzip
import importlib.util
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

CLASS_LIST = Path(__file__).with_name("classes.lst.gz")
"""The classes that apps load, as `make classes` has recorded them; Java leaves out those that a later Spark lacks."""
_LIBRARIES = Path(__file__).parents[1] / "jars" / "spark"
"""Kafka's client and Spark's connector to it."""
_DATE = (1980, 1, 1, 0, 0, 0)


class NoArchive(Exception):
    """The archive could not be made; the message says why."""


def spark() -> Path:
    """PySpark's folder, where the archive is."""
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        raise NoArchive(f"{sys.executable} has no pyspark")
    return Path(found.origin).parent


def libraries() -> list[Path]:
    """The jars that an app needs beside Spark's and our own."""
    return sorted(_LIBRARIES.glob("*.jar"))


def class_path() -> list[str]:
    """The first jars of the class path of an app's process; our own jar follows."""
    return [str(jar) for jar in ([_index()] if _archive().exists() else []) + libraries()]


def java_options() -> str:
    """The Java options of such a process; empty where there is no archive."""
    return f"-XX:SharedArchiveFile={_archive()}" if _archive().exists() else ""


def make() -> None:
    """Makes the archive, which takes half a minute; until then processes use the one before.

    Raises:
        NoArchive: there is no Java, or it failed.
    """
    jars = sorted((spark() / "jars").glob("*.jar"))
    with tempfile.TemporaryDirectory(dir=spark()) as folder:
        archive, classes = Path(folder, "archive"), Path(folder, "classes")
        classes.write_bytes(gzip.decompress(CLASS_LIST.read_bytes()))
        _write_index(jars)
        command = [
            _java(),
            "-Xshare:dump",
            "-XX:TieredStopAtLevel=1",
            "-Xlog:disable",
            "-Xlog:all=error:stderr",
            f"-XX:SharedClassListFile={classes}",
            f"-XX:SharedArchiveFile={archive}",
            "-cp",
            os.pathsep.join(map(str, [_index(), *libraries()])),
        ]
        try:
            subprocess.run(command, check=True, capture_output=True, text=True, env=_plain_environment())
        except OSError as error:
            raise NoArchive(f"{command[0]} does not start: {error.strerror}") from None
        except subprocess.CalledProcessError as error:
            output = (error.stdout + error.stderr).strip().splitlines()
            raise NoArchive(f"{command[0]} ended with {error.returncode}: {' '.join(output[-3:])}") from None
        archive.replace(_archive())


def _write_index(jars: list[Path]) -> None:
    """Writes the jar that names Spark's own. A jar with the same content stays as it is: Java compares dates, and
    running processes and their archive know the old one."""
    manifest = _wrapped("Class-Path: " + " ".join(f"jars/{jar.name}" for jar in jars))
    text = f"Manifest-Version: 1.0\r\n{manifest}\r\n\r\n"
    name = "META-INF/MANIFEST.MF"
    if _index().exists():
        with zipfile.ZipFile(_index()) as there:
            if there.read(name).decode() == text:
                return
    _archive().unlink(missing_ok=True)
    unfinished = _index().with_suffix(".new")
    with zipfile.ZipFile(unfinished, "w") as jar:
        jar.writestr(zipfile.ZipInfo(name, _DATE), text)
    unfinished.replace(_index())


def _wrapped(line: str) -> str:
    """The line as a jar's manifest wants it: at most 72 bytes with its end, and continuations begin with a space."""
    parts = [line[:70], *(f" {line[start : start + 69]}" for start in range(70, len(line), 69))]
    return "\r\n".join(parts)


def _index() -> Path:
    return spark() / "classes.jar"


def _archive() -> Path:
    return spark() / "classes.jsa"


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    return os.path.join(home, "bin", "java") if home else "java"


def _plain_environment() -> dict[str, str]:
    """The environment without JAVA_TOOL_OPTIONS: options for other processes could make an archive that fits none."""
    return {name: value for name, value in os.environ.items() if name != "JAVA_TOOL_OPTIONS"}


if __name__ == "__main__":
    try:
        make()
    except NoArchive as problem:
        sys.exit(f"no class archive, so apps start more slowly: {problem}")
