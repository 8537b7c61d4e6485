# SPDX-License-Identifier: Apache-2.0
"""A query whose plan is made once gives the rows that it gives when Spark plans each epoch anew."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from lib.wait import until
from streamapp.spark.queries import standing
from streamapp.spark.session import Place, open_session

pytestmark = pytest.mark.kafka

_FILES = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
SETTINGS = {"spark.plugins": "", "spark.sql.streaming.checkpointFileManagerClass": _FILES}
ROWS = 10
"""The number of rows in an epoch: 0 to 9 in the first one, and so on."""
EPOCHS = 4


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    place = Place(master="local[2]", work_dir=tmp_path_factory.mktemp("standing"), memory="512m")
    session = open_session("standing", place, 1, SETTINGS)
    yield session
    session.stop()


def numbers(spark: SparkSession, name: str = "0") -> DataFrame:
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS).option("numPartitions", 2)
    return source.name(name).load().select(F.col("value").alias("n"))


def rows_of(frame: DataFrame, name: str, folder: Path) -> list[Row]:
    """The rows of the first epochs, in the order of `n`."""
    spark = frame.sparkSession
    query = frame.writeStream.format("memory").queryName(name).option("checkpointLocation", str(folder / name)).start()
    try:
        until(lambda: query.exception() or _epoch(query) >= EPOCHS, 60, "some epochs")
    finally:
        query.stop()
    assert query.exception() is None
    return sorted(spark.table(name).where(F.col("n") < ROWS * EPOCHS).collect())


def _epoch(query: Any) -> int:
    return int((query.lastProgress or {}).get("batchId", -1))


def test_an_epoch_has_its_own_time_and_its_own_random_numbers(spark: SparkSession, tmp_path: Path) -> None:
    texts = ("current_timestamp() AS t", "now() AS s", "current_date() AS d", "localtimestamp() AS l", "rand() AS r")
    frame = numbers(spark).selectExpr("n", *texts)
    rows = rows_of(standing(frame), "times", tmp_path)
    assert [row.n for row in rows] == list(range(ROWS * EPOCHS))
    epochs = [list(epoch) for _, epoch in groupby(rows, lambda row: row.n // ROWS)]
    for epoch in epochs:
        assert len({(row.t, row.s, row.d, row.l) for row in epoch}) == 1
        assert epoch[0].t == epoch[0].s == epoch[0].l
        assert epoch[0].t.date() == epoch[0].d
    for one, next_one in pairwise(epochs):
        assert one[0].t < next_one[0].t, "the time is not that of the first plan"
        assert [row.r for row in one] != [row.r for row in next_one]
    assert len({row.r for row in rows}) == len(rows)


def test_rows_of_several_sources_and_of_one_that_is_read_twice(spark: SparkSession, tmp_path: Path) -> None:
    one, other = numbers(spark, "0"), numbers(spark, "1")
    even = one.where("n % 2 = 0").selectExpr("n", "'even' AS what")
    large = one.where("n % 10 > 6").selectExpr("n", "'large' AS what")
    frame = even.union(large).union(other.selectExpr("n", "'other' AS what"))
    kinds = {"even": range(0, ROWS, 2), "large": range(7, ROWS), "other": range(ROWS)}
    expected = [(n, what) for n in range(ROWS * EPOCHS) for what, digits in kinds.items() if n % ROWS in digits]
    assert rows_of(standing(frame), "several", tmp_path) == expected


def test_the_optimizer_sees_the_whole_plan_once(spark: SparkSession, tmp_path: Path) -> None:
    frame = numbers(spark).withColumn("a", F.col("n") + 1).withColumn("b", F.col("a") * 2).where("b > 4")

    def collapsed(name: str, planned: Callable[[DataFrame], DataFrame]) -> int:
        rules: Any = spark._jvm.org.apache.spark.sql.catalyst.rules.RuleExecutor  # type: ignore[union-attr]
        rules.resetMetrics()
        rows_of(planned(frame), name, tmp_path)
        found = re.search(r"\.CollapseProject\s+\d+ / \d+\s+(\d+) / \d+", rules.dumpTimeSpent())
        assert found, rules.dumpTimeSpent()
        return int(found[1])

    # The test's own look at the rows is planned each time too, and has nothing to collapse.
    assert collapsed("optimized_once", standing) < EPOCHS <= collapsed("optimized_anew", lambda frame: frame)
