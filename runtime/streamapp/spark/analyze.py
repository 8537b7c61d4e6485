# SPDX-License-Identifier: Apache-2.0
"""Checks a plan with Spark's own analyzer: types, functions and columns exactly as the run would see them."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType, _parse_datatype_string

from streamapp.errors import ManifestError, Problem
from streamapp.nodes import LateRecords, Node
from streamapp.plan import Plan
from streamapp.spark.assemble import unpacked, visit_node
from streamapp.spark.flow import Flow
from streamapp.spark.session import Place, open_session
from streamapp.spark.sources import Sources
from streamapp.spark.visitor import Visitor

_KAFKA_RECORD = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, "
    "timestampType INT, headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
)


def mistakes_in(plans: Sequence[Plan]) -> list[ManifestError | None]:
    """The mistakes that Spark's analyzer finds in each plan. Reads and runs nothing, but starts Spark: some seconds."""
    with tempfile.TemporaryDirectory(prefix="streamapp-validate-") as folder:
        place = Place(master="local[1]", work_dir=Path(folder), memory="512m")
        spark = open_session("validate", place, 1, {"spark.plugins": ""})
        try:
            return [_mistakes(spark, plan) for plan in plans]
        finally:
            spark.stop()


def require_types(spark: SparkSession, plan: Plan) -> None:
    """Checks the plan's expressions with Spark's analyzer.

    Raises:
        ManifestError: with every expression that Spark's analyzer finds wrong. The nodes that follow such a node are
            not checked: they cannot be understood either.
    """
    schema = _parse_datatype_string(_KAFKA_RECORD)
    assert isinstance(schema, StructType)

    def no_records(node: Node) -> DataFrame:
        return spark.createDataFrame([], schema)

    visitor = Visitor(Sources(no_records, plan.on_bad_record.kind))
    problems: list[Problem] = []
    unchecked: list[str] = []
    for part in plan.subtopologies:
        visitor.enter(part)
        flows: dict[str, Flow] = {}
        for node in part.nodes:
            if isinstance(node, LateRecords):  # the author gives only its topic
                continue
            if not flows.keys() >= set(node.inputs):
                unchecked.append(node.name)
                continue
            try:
                flow = visit_node(node, part.nodes, visitor, [flows[name] for name in node.inputs])
                flows[node.name] = unpacked(flow)
            except ManifestError as error:
                problems += error.problems
                unchecked += [] if error.problems else [node.name]
            except KeyError:  # it reads an internal topic whose writer was not understood
                unchecked.append(node.name)
    if problems:
        # A source that several sub-topologies read was looked at for each of them.
        raise ManifestError(dict.fromkeys(problems), dict.fromkeys(unchecked))


def _mistakes(spark: SparkSession, plan: Plan) -> ManifestError | None:
    try:
        require_types(spark, plan)
    except ManifestError as error:
        return error
    return None
