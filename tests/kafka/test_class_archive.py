# SPDX-License-Identifier: Apache-2.0
"""Spark's and Kafka's classes come from the archive that set-up has made, in driver and executors alike."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lib.app import AppProcess, manifest_text
from lib.broker import unique_name, write
from lib.java import JAVA_OPTIONS
from streamapp.kafka.admin import Admin, TopicSpec
from streamapp.kafka.config import KafkaConfig

pytestmark = pytest.mark.kafka

COUNTS = """
  - {name: in, stream: {topic: $T-in, value: text}}
  - {name: counts, groupBy: [value], aggregate: {count: count(*)}}
  - {name: out, to: {topic: $T-out}}
"""
SPARKS, KAFKAS = "org.apache.spark.", "org.apache.kafka."
NEEDLESS = ("org.apache.spark.sql.ml.", "scala.reflect.internal.")
"""Prefixes of classes that no start needs, such as each session's functions that nobody can call: each takes half a
second."""
OURS = ("org.apache.spark.sql.streamapp.", "org.apache.spark.sql.execution.streaming.state.Changelog")


def test_classes_come_from_the_archive(kafka: KafkaConfig, tmp_path: Path) -> None:
    prefix = unique_name("classes")
    Admin(kafka).create([TopicSpec(f"{prefix}-{name}", "test", 1) for name in ("in", "out")])
    write(kafka, f"{prefix}-in", (None, "a"))
    manifest = tmp_path / "app.yaml"
    manifest.write_text(manifest_text(prefix, COUNTS))
    loads = f"-Xlog:class+load=info:file={tmp_path}/%p.classes:none"
    app = AppProcess(
        manifest,
        tmp_path / "state",
        kafka,
        tmp_path / "log",
        env={JAVA_OPTIONS: f"{os.environ.get(JAVA_OPTIONS, '')} {loads}"},
        arguments=("--replicas", "1", "--until-caught-up"),
    )
    try:
        assert app.await_exit() == 0, app.tail()
    finally:
        app.end()
    logs = [log.read_text() for log in tmp_path.glob("*.classes")]
    assert not [line for log in logs for line in log.splitlines() if line.startswith(NEEDLESS)]
    for whose, fewest in ((SPARKS, 1_000), (KAFKAS, 300)):
        found = [_loaded(whose, log) for log in logs]
        working = [(archived, read) for archived, read in found if archived + read > fewest]
        assert len(working) == 2, f"{whose}, of driver and executor: {found}"
        for archived, read in working:
            assert archived > 4 * read, f"{whose} from the archive, and from jars: {working}"


def _loaded(whose: str, log: str) -> tuple[int, int]:
    """The number of classes that came from the archive, and of those that came from jars."""
    lines = [line for line in log.splitlines() if line.startswith(whose) and not line.startswith(OURS)]
    archived = [line for line in lines if "source: shared objects file" in line]
    return len(archived), len([line for line in lines if "source: file:" in line])
