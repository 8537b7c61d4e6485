# SPDX-License-Identifier: Apache-2.0
"""Every aggregate gives in small epochs and in a large one, with a restore between them, the results of Spark in one
batch."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lib.inprocess import App
from streamapp.errors import DataError
from streamapp.kafka.config import KafkaConfig

pytestmark = pytest.mark.kafka

SCHEMA = "g STRING, i BIGINT, d DOUBLE, n DECIMAL(10,2), s STRING, b BOOLEAN, a ARRAY<BIGINT>"
AGGREGATES = {
    # A buffer that is set in place.
    "plain": [
        "count(*)",
        "count(i)",
        "count_if(b)",
        "sum(i)",
        "try_sum(d)",
        "avg(i)",
        "avg(n)",
        "sum(n)",
        "min(i)",
        "max(d)",
        "bool_and(b)",
        "any(b)",
        "bit_and(i)",
        "bit_or(i)",
        "bit_xor(i)",
        "var_pop(i)",
        "stddev(d)",
        "skewness(i)",
        "kurtosis(i)",
        "corr(i, d)",
        "covar_samp(i, d)",
        "regr_slope(i, d)",
        "count(i) filter (where b)",
        "sum(i) filter (where d > 50)",
    ],
    # Such a buffer, which an aggregate changes by its own code.
    "estimates": ["approx_count_distinct(s)", "count(*)", "approx_count_distinct(i) filter (where b)"],
    # A buffer of objects.
    "texts": ["count(*)", "min(s)", "max(s)", "max(struct(d, s))", "min(a)", "sum(i)"],
    # Aggregates that keep an object of their own beside such a buffer.
    "sets": [
        "array_sort(collect_list(i))",
        "array_sort(collect_set(s))",
        "percentile(i, 0.9)",
        "median(d)",
        "count(*)",
        "max(s)",
        "hll_sketch_estimate(hll_sketch_agg(s))",
        "approx_percentile(i, 0.5)",
        "hex(bitmap_construct_agg(i & 63))",
        "count(distinct i)",
        "count(distinct s)",
        "count(distinct a)",
        "count(distinct i, b)",
        "count(distinct d) filter (where b)",
        "count(distinct case when i > 0 then d when i < 0 then -0.0 else 0.0 end) + count(distinct n)",
    ],
}

ROWS_OF_RUNS = (1, 40, 10_000)
"""The rows of each of three partitions. Epochs begin with 5,000 rows and grow; those of more than 10,000 are combined
before the shuffle, by generated code (EpochStyle.scala)."""


def rows(seed: int, count: int) -> list[dict[str, Any]]:
    """Rows with all kinds of nulls. Parts of numbers are quarters, so that sums do not depend on order."""
    rng = random.Random(seed)

    def maybe(value: Any) -> Any:
        return None if rng.random() < 0.2 else value

    return [
        {
            "g": maybe(f"g{rng.randrange(5)}") or "rare",
            "i": maybe(rng.randrange(-50, 50)),
            "d": maybe(rng.randrange(400) / 4),
            "n": maybe(f"{rng.randrange(10_000) / 100:.2f}"),
            "s": maybe("".join(rng.choices("aäß𝄞", k=rng.randrange(9)))),
            "b": maybe(rng.random() < 0.5),
            "a": maybe([rng.randrange(3) for _ in range(rng.randrange(3))]),
        }
        for _ in range(count)
    ]


def test_aggregates_over_epochs_equal_one_batch(kafka: KafkaConfig, tmp_path: Path) -> None:
    nodes = [f'  - {{name: in, stream: {{topic: $T-in, value: {{format: json, schema: "{SCHEMA}"}}}}}}']
    for name, texts in AGGREGATES.items():
        columns = json.dumps({f"c{place}": f"to_json(struct({text}))" for place, text in enumerate(texts)})
        nodes += [
            f"  - {{name: {name}, from: in, groupBy: [g], aggregate: {columns}}}",
            f"  - {{name: {name}-out, to: {{topic: $T-{name}}}}}",
        ]
    app = App(kafka, tmp_path, "\n".join(nodes))
    app.create("in", partitions=3)
    sent: list[dict[str, Any]] = []
    for lot, count in enumerate(ROWS_OF_RUNS):
        for partition in range(3):
            more = rows(10 * lot + partition, count)
            app.send("in", *((None, row) for row in more), partition=partition)
            sent += more
        app.run()

    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    try:
        lines = spark.createDataFrame([(json.dumps(row),) for row in sent], "text STRING")
        parsed = lines.selectExpr(f"from_json(text, '{SCHEMA}') AS row").select("row.*")
        for name, texts in AGGREGATES.items():
            results = [F.expr(f"to_json(struct({text}))").alias(f"c{place}") for place, text in enumerate(texts)]
            wanted = {row["g"]: row.asDict() for row in parsed.groupBy("g").agg(*results).collect()}
            got = app.latest(name)
            assert got.keys() == wanted.keys()
            for group, values in got.items():
                for place, text in enumerate(texts):
                    column = f"c{place}"
                    assert _plain(values[column]) == _plain(wanted[group][column]), f"{text} of {group}"
    finally:
        spark.stop()


def _plain(text: str) -> list[Any]:
    """The row without the column's name, which is the expression; moments to twelve digits, as their order differs."""
    return [float(f"{value:.12g}") if isinstance(value, float) else value for value in json.loads(text).values()]


OVERLAPPING = """
  - {name: clicks, stream: {topic: $T-clicks, value: text}}
  - {name: orders, stream: {topic: $T-orders, value: text}}
  - name: sessions
    from: clicks
    groupBy: [key]
    window: {session: 15s}
    grace: 1 minute
    aggregate: {pages: count(distinct value), clicks: count(*)}
  - {name: sessions-out, to: {topic: $T-sessions}}
  - name: sliding
    from: clicks
    groupBy: [key]
    window: {sliding: 30s}
    grace: 1 minute
    aggregate: {pages: count(distinct value), clicks: count(*)}
  - {name: sliding-out, to: {topic: $T-sliding}}
  - name: activity
    groupBy: [key]
    cogroup:
    - {from: clicks, aggregate: {pages: count(distinct value)}}
    - {from: orders, aggregate: {wares: count(distinct value) filter (where value <> 'none')}}
  - {name: activity-out, to: {topic: $T-activity}}
"""


def test_a_value_counts_once_where_windows_overlap_or_become_one(kafka: KafkaConfig, tmp_path: Path) -> None:
    app = App(kafka, tmp_path, OVERLAPPING)
    app.create("clicks", "orders")
    noon = 1_704_110_400_000
    # The third click makes one of two sessions.
    for value, second in (("home", 0), ("home", 20), ("cart", 10), ("help", 24)):
        app.send("clicks", ("ada", value, noon + second * 1000))
        app.send("orders", ("ada", value if second else "none", noon + second * 1000))
        app.run()
    assert list(app.table("sessions").values()) == [{"pages": 3, "clicks": 4}]
    slides = {json.loads(key)["window_end"][14:19]: row for key, row in app.table("sliding").items()}
    assert slides["00:20"] == {"pages": 2, "clicks": 3}
    assert slides["00:24"] == {"pages": 3, "clicks": 4}
    assert app.latest("activity") == {"ada": {"pages": 3, "wares": 3}}


TOO_MANY = """
  - {name: blocks, stream: {topic: $T-blocks, value: long}}
  - {name: numbers, flatMap: {number: "sequence(0, 59999)"}}
  - {name: different, groupBy: [{all: "'all'"}], aggregate: {numbers: count(distinct number + 60000 * value)}}
  - {name: different-out, to: {topic: $T-different}}
"""


def test_a_group_with_more_different_values_than_are_kept_ends_the_app(kafka: KafkaConfig, tmp_path: Path) -> None:
    """Values that were there before count too."""
    app = App(kafka, tmp_path, TOO_MANY)
    app.create("blocks")
    app.send("blocks", (None, b"0"), (None, b"0"))
    app.run()
    assert app.latest("different") == {"all": {"numbers": 60_000}}
    app.send("blocks", (None, b"1"))
    with pytest.raises(DataError, match=r"count\(DISTINCT .*more than 100000 different values.*approx_count_distinct"):
        app.run()
