# SPDX-License-Identifier: Apache-2.0
"""Checks a plan with Spark's own analyzer: types, functions and columns exactly as the run would see them."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType, _parse_datatype_string

from streamapp.errors import ManifestError, Problem
from streamapp.nodes import Node
from streamapp.plan import Plan
from streamapp.spark.assemble import assemble
from streamapp.spark.session import Place, open_session
from streamapp.spark.visitor import Visitor

_KAFKA_RECORD = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, "
    "timestampType INT, headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
)


def type_problems(plans: Sequence[Plan]) -> list[tuple[Problem, ...]]:
    """What Spark's analyzer finds wrong with each plan; nothing is read or run. Starts Spark, which takes seconds.

    One problem per sub-topology at most: what follows a node that cannot be understood cannot be understood either.
    """
    with tempfile.TemporaryDirectory(prefix="streamapp-validate-") as folder:
        place = Place(master="local[1]", work_dir=Path(folder), memory="512m")
        spark = open_session("validate", place, 1, {"spark.plugins": ""})
        try:
            return [_analyze(spark, plan) for plan in plans]
        finally:
            spark.stop()


def _analyze(spark: SparkSession, plan: Plan) -> tuple[Problem, ...]:
    schema = _parse_datatype_string(_KAFKA_RECORD)
    assert isinstance(schema, StructType)

    def no_records(node: Node) -> DataFrame:
        return spark.createDataFrame([], schema)

    visitor = Visitor(no_records, plan.on_bad_record.kind)
    problems: list[Problem] = []
    for part in plan.subtopologies:
        try:
            assemble(part, visitor)
        except ManifestError as error:
            problems += error.problems
        except KeyError:
            continue  # it reads an internal topic whose writer is among the problems
    return tuple(problems)
