# SPDX-License-Identifier: Apache-2.0
"""Runs Kafka Streams on its TopologyTestDriver and reads the results of a topology (tests/jvm/oracle)."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyspark

from differential.records import Result, Sent, text_of

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "tests" / "jvm" / "oracle"
BUILT = ROOT / ".build" / "oracle"
SPARK = Path(pyspark.__file__).parent / "jars"
SECONDS = 300


@dataclass(frozen=True)
class Answer:
    """The results, in their order, and how many records Kafka Streams says it has dropped."""

    results: tuple[Result, ...]
    dropped: int


def ask(questions: Sequence[tuple[str, Iterable[Sent]]]) -> list[Answer]:
    """Returns the results of the topologies of these names for these records, which come in one by one, each list in a
    run of its own.

    Raises:
        AssertionError: Kafka Streams has failed, with its own words.
    """
    lines = [json.dumps({"topology": name, "records": list(map(_record, records))}) for name, records in questions]
    command = ["java", "-cp", _class_path(_build()), "dev.streamapp.oracle.Oracle"]
    done = subprocess.run(
        command, input="".join(f"{line}\n" for line in lines), capture_output=True, text=True, timeout=SECONDS
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(lines), done.stderr[-3000:]
    return [Answer(tuple(map(_result, answer["records"])), answer["dropped"]) for answer in answers]


def _record(sent: Sent) -> dict[str, Any]:
    return {"topic": sent.topic, "key": sent.key, "value": sent.value, "timestamp": sent.timestamp}


def _result(told: dict[str, Any]) -> Result:
    return Result(told["key"], text_of(told["value"]), told["timestamp"])


def _class_path(built: Path) -> str:
    (scala,) = SPARK.glob("scala-library-*.jar")
    return os.pathsep.join([str(built / "classes"), f"{built / 'lib'}/*", str(scala)])


def _build() -> Path:
    """Fetches Kafka Streams with Maven and compiles the program that runs it, once: other test processes wait for
    it."""
    BUILT.mkdir(parents=True, exist_ok=True)
    pom, sources = SOURCES / "pom.xml", sorted(SOURCES.glob("*.scala"))
    with (BUILT / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with _anew("lib", pom) as missing:
            if missing:
                fetch = f"-DoutputDirectory={BUILT / 'lib'}"
                maven = [
                    "mvn",
                    "-q",
                    "-B",
                    "-ntp",
                    "-Dstyle.color=never",
                    "-f",
                    str(pom),
                    "dependency:copy-dependencies",
                ]
                subprocess.run([*maven, fetch], check=True, timeout=SECONDS)
        with _anew("classes", pom, *sources) as missing:
            if missing:
                scala = ["java", "-Xss8m", "-cp", f"{SPARK}/*", "scala.tools.nsc.Main", "-cp", _class_path(BUILT)]
                target = ["-d", str(BUILT / "classes")]
                subprocess.run([*scala, *target, *map(str, sources)], check=True, timeout=SECONDS)
    return BUILT


@contextmanager
def _anew(name: str, *files: Path) -> Iterator[bool]:
    """Returns True, and makes the folder empty, if it was not made from these files; from then on it counts as made
    from them."""
    stamp = BUILT / f"{name}.stamp"
    of = hashlib.sha256(b"\0".join((pyspark.__version__.encode(), *(file.read_bytes() for file in files)))).hexdigest()
    missing = not stamp.exists() or stamp.read_text() != of
    if missing:
        stamp.unlink(missing_ok=True)
        shutil.rmtree(BUILT / name, ignore_errors=True)
        (BUILT / name).mkdir()
    yield missing
    stamp.write_text(of)
