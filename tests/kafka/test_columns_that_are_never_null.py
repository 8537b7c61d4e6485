# SPDX-License-Identifier: Apache-2.0
"""Spark knows that some columns are never null, as a constant is. That changes no result."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from lib.inprocess import App
from lib.timed import NOON
from streamapp.kafka.config import KafkaConfig

pytestmark = pytest.mark.kafka

MINUTE = 60_000
FACTS = 100
NULLABLE, NEVER_NULL = "a", "'x'"
"""Two expressions with the same value in all records that are sent."""
FEW, MANY = 100, 11_000
"""Records of an epoch: a small one is interpreted, a large one runs on generated code."""
INPUT = """
  - {name: in, stream: {topic: $T-in, value: {format: json, schema: "a STRING, v BIGINT"}}}
  - {name: some, filter: v % 3 = 0}
  - {name: facts, table: {topic: $T-facts, value: {format: json, schema: "a STRING, v BIGINT"}}}
"""
TWIN = """
  - {name: $W-in, from: in, with: {c: $Q}}
  - {name: $W-some, from: some, with: {c: $Q}}
  - {name: $W-facts, from: facts, with: {c: $Q}}
  - {name: $W-count, from: in, groupBy: [{c: $Q}], aggregate: {rows: count(*), first: first($E)}}
  - {name: $W-counts, from: in, groupBy: [{c: $Q}], window: {tumbling: 10s}, emit: final, aggregate: {rows: count(*)}}
  - {name: $W-first, from: in, groupBy: [{c: $Q}], window: {hopping: 10s, every: 5s}, aggregate: {first: first(v)}}
  - {name: $W-session, from: in, groupBy: [{c: $Q}, key], window: {session: 2s}, aggregate: {most_c: max($E)}}
  - {name: $W-sliding, from: in, groupBy: [{c: $Q}, key], window: {sliding: 500ms}, aggregate: {rows: count(*)}}
  - {name: $W-by, from: $W-in, keyBy: [c, key]}
  - {name: $W-latest, toTable: {ttl: 5s}}
  - {name: $W-seldom, suppress: {untilTimeLimit: 2s}}
  - {name: $W-rows, from: $W-latest, groupBy: [{c: $Q}], aggregate: {rows: count(*)}}
  - {name: $W-kept, from: $W-latest, groupBy: [{c: $Q}], aggregate: {most: max(v), most_c: max($E)}}
  - {name: $W-top, from: $W-in, groupBy: [c], top: {rows: 2, by: v}}
  - {name: $W-once, from: $W-in, deduplicate: {by: [c, v], within: 2s}}
  - {name: $W-pairs, from: $W-in, join: {with: $W-some, type: outer, within: 100ms, select: $S}}
  - {name: $W-look, from: $W-in, join: {with: $W-facts, type: left, select: $S}}
  - {name: $W-table, from: $W-facts, filter: v % 2 = 0}
  - {name: $W-tables, from: $W-facts, join: {with: $W-table, type: outer, select: $S}}
  - {name: $W-foreign, from: $W-facts, with: {other: "concat('k', v % 7)"}}
  - {name: $W-named, join: {with: $W-table, by: [other], type: left, select: $S}}
"""
PAIR = "{l: left.v, r: right.v, cl: left.c, cr: right.c}"
STREAMS = ("once", "look", "pairs")
TABLES = ("count", "counts", "first", "session", "sliding", "seldom", "rows", "kept", "top", "tables", "named")
OUTPUTS = (*STREAMS, *TABLES)
WINDOWS = ("counts", "first")


def topology(name: str, expression: str, outputs: Sequence[str]) -> str:
    nodes = [line for line in TWIN.splitlines() if outputs == OUTPUTS or any(f"$W-{node}," in line for node in outputs)]
    sinks = (f"  - {{name: $W-{node}-out, from: $W-{node}, to: {{topic: $T-$W-{node}}}}}" for node in outputs)
    text = "\n".join((*nodes, *sinks, ""))
    for mark, meant in (("$W", name), ("$Q", f'"{expression}"'), ("$E", expression), ("$S", PAIR)):
        text = text.replace(mark, meant)
    return text


def comparable(app: App, node: str, topic: str) -> Any:
    if node in TABLES:
        return app.latest(topic)
    return sorted(json.dumps([record.key, record.value]) for record in app.received(topic))


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("epoch_records", "outputs"), [(FEW, OUTPUTS), (MANY, WINDOWS)])
def test_results_do_not_depend_on_it(
    kafka: KafkaConfig, tmp_path: Path, epoch_records: int, outputs: Sequence[str]
) -> None:
    records = 2 * epoch_records
    nodes = topology("maybe", NULLABLE, outputs) + topology("never", NEVER_NULL, outputs)
    app = App(kafka, tmp_path, INPUT + nodes)
    app.create("in", "facts")
    rng = random.Random(records)

    def key() -> str:
        return f"k{rng.randrange(12)}"

    step = MINUTE // records
    app.send("in", *((key(), {"a": "x", "v": i}, NOON + i * step) for i in range(records)))
    facts = ((key(), {"a": "x", "v": i} if rng.random() < 0.7 else None) for i in range(FACTS))
    app.send("facts", *((name, row, NOON + i * MINUTE // FACTS) for i, (name, row) in enumerate(facts)))
    app.run(epoch_records=epoch_records)
    for node in outputs:
        maybe, never = (comparable(app, node, f"{name}-{node}") for name in ("maybe", "never"))
        assert maybe, node
        assert never == maybe, node
