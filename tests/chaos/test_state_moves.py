# SPDX-License-Identifier: Apache-2.0
"""State of every kind, spread over executor processes whose number changes from run to run, one of which is killed: the
results are those of one process that nothing happens to."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import psutil
import pytest

from lib.faults import executors_among
from lib.inprocess import App
from lib.timed import NOON, SECOND, Feed, disordered, send
from lib.wait import until
from streamapp.kafka.config import KafkaConfig

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(1800)]

KEYS = [f"k{i}" for i in range(24)]
BACKS = (0, 0, 0, 5, 19, 21, 40)
FEEDS = Feed("prices", BACKS, deleted=0.1), Feed("rates", BACKS, deleted=0.1), Feed("clicks", BACKS)
VALUE = 'value: {format: json, schema: "n INT, g STRING"}'
TOPOLOGY = f"""
  - {{name: prices, table: {{topic: $T-prices, ttl: 20s, {VALUE}}}}}
  - {{name: prices-out, to: {{topic: $T-prices-out}}}}
  - {{name: rates, table: {{topic: $T-rates, history: 60s, {VALUE}}}}}
  - {{name: clicks, stream: {{topic: $T-clicks, {VALUE}}}}}
  - {{name: seldom, from: rates, suppress: {{untilTimeLimit: 20s}}}}
  - {{name: seldom-out, to: {{topic: $T-seldom}}}}
  - name: waited
    from: clicks
    join: {{with: rates, asOf: true, grace: 20s, type: left, select: {{click: left.n, rate: right.n}}}}
  - {{name: waited-out, to: {{topic: $T-waited}}}}
  - {{name: trails, from: clicks, groupBy: [key], ttl: 20s, aggregate: {{trail: collect_list(n)}}}}
  - {{name: trails-out, to: {{topic: $T-trails}}}}
  - {{name: kept, from: prices, groupBy: [g], aggregate: {{most: max(n), all: sort_array(collect_list(n))}}}}
  - {{name: kept-out, to: {{topic: $T-kept}}}}
  - {{name: leaders, from: prices, groupBy: [g], top: {{rows: 3, by: 'n'}}}}
  - {{name: leaders-out, to: {{topic: $T-leaders}}}}
  - {{name: best, from: clicks, groupBy: [g], top: {{rows: 3, by: 'n'}}}}
  - {{name: best-out, to: {{topic: $T-best}}}}
  - {{name: once, from: clicks, deduplicate: {{by: [key, g], within: 30s}}}}
  - {{name: once-out, to: {{topic: $T-once}}}}
  - {{name: visits, from: clicks, groupBy: [key], window: {{session: 5s}}, grace: 30s, aggregate: {{many: count(*)}}}}
  - {{name: visits-out, to: {{topic: $T-visits}}}}
"""
OUTPUTS = ("prices-out", "seldom", "waited", "trails", "kept", "leaders", "best", "once", "visits")


def kill_one(url: str) -> None:
    """Kills an executor of the run in this process."""
    me = psutil.Process()
    until(lambda: executors_among(me.children(recursive=True)), 60, "an executor process")[0].kill()


def results(app: App, topics: Iterable[str]) -> dict[str, Counter[tuple[str | None, str, int]]]:
    return {
        topic: Counter((r.key, json.dumps(r.value, sort_keys=True), r.timestamp) for r in app.received(topic))
        for topic in topics
    }


@pytest.mark.parametrize("guarantee", ["exactly-once", "at-least-once"])
def test_results_do_not_depend_on_where_state_is(kafka: KafkaConfig, tmp_path: Path, guarantee: str) -> None:
    moving, still = (App(kafka, tmp_path, TOPOLOGY, f"  guarantee: {guarantee}") for _ in range(2))
    for app in (moving, still):
        app.create("prices", "rates", "clicks", partitions=2)
    for run, replicas in enumerate((1, 2, 2, 1)):
        records = list(disordered(run, NOON + run * 100 * SECOND, 60, FEEDS, KEYS))
        for app in (moving, still):
            send(app, records)
        still.run()
        # At least once, a task that runs again may count its records twice.
        kills = guarantee == "exactly-once" and run == 2
        moving.run(replicas=replicas, on_ready=kill_one if kills else None)
        assert moving.statuses[-1]["replicas"]["lost"] == int(kills)
        found, wanted = results(moving, OUTPUTS), results(still, OUTPUTS)
        for topic in OUTPUTS:
            assert found[topic] == wanted[topic], topic
    assert all(wanted.values()), "every kind of state gave results"
