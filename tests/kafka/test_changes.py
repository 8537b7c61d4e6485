# SPDX-License-Identifier: Apache-2.0
"""An app whose manifest is changed between two runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from lib.inprocess import App
from streamapp.errors import InputError
from streamapp.kafka.config import KafkaConfig

pytestmark = pytest.mark.kafka

CHAIN = """
  - {name: left, stream: {topic: $T-in, value: text}}
  - {name: right, stream: {topic: $T-more, value: text}}
  - {name: %(first)s, from: left, join: {with: right, within: 1 hour, select: {word: left.value}}, store: pairs}
  - {name: %(second)s, groupBy: [word], aggregate: {n: count(*)}, store: words}
  - {name: out, to: {topic: $T-out}}
"""
COPY = """
  - {name: %s, stream: {topic: $T-in, value: text}}
  - {name: out, to: {topic: $T-out, value: text}}
"""


def test_a_stateful_node_may_be_renamed_while_its_store_stays(kafka: KafkaConfig, tmp_path: Path) -> None:
    a = App(kafka, tmp_path, CHAIN % {"first": "joined", "second": "counts"})
    a.create("in", "more")
    a.send("in", ("k", "a"), ("k", "b"))
    a.send("more", ("k", "x"))
    a.run()
    a.change(CHAIN % {"first": "matched", "second": "per-word"})
    a.send("in", ("k", "a"))
    a.run()
    assert [(r.key, r.value["n"]) for r in sorted(a.received("out"), key=lambda r: (r.key, r.value["n"]))] == [
        ("a", 1), ("a", 2), ("b", 1)
    ]  # fmt: skip


@pytest.mark.parametrize(
    "topology",
    [
        COPY % "lines",
        """
  - {name: early, stream: {topic: $T-more, value: text}}
  - {name: raw, stream: {topic: $T-in, value: text}}
  - {name: both, merge: [early, raw]}
  - {name: out, to: {topic: $T-out, value: text}}
""",
    ],
    ids=["renamed", "another-before-it"],
)
def test_a_position_is_not_lost_with_its_name(kafka: KafkaConfig, tmp_path: Path, topology: str) -> None:
    a = App(kafka, tmp_path, COPY % "raw")
    a.create("in", "more")
    a.send("in", ("k", "a"))
    a.run()
    a.change(topology)
    with pytest.raises(InputError, match="Name the source 'raw' again"):
        a.run()
    a.change(COPY % "raw")
    a.send("in", ("k", "b"))
    a.run()
    assert [record.value for record in a.received("out")] == ["a", "b"]


def test_another_number_of_sources_is_refused_at_once(kafka: KafkaConfig, tmp_path: Path) -> None:
    a = App(kafka, tmp_path, COPY % "raw")
    a.create("in", "more")
    a.send("in", ("k", "a"))
    a.run()
    a.change("""
  - {name: raw, stream: {topic: $T-in, value: text}}
  - {name: raw-2, stream: {topic: $T-more, value: text}}
  - {name: both, merge: [raw, raw-2]}
  - {name: out, to: {topic: $T-out, value: text}}
""")
    with pytest.raises(InputError, match="read 1 sources in an earlier version and reads 2 now"):
        a.run()
