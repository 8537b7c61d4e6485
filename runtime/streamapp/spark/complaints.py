# SPDX-License-Identifier: Apache-2.0
"""The complaints of Spark's analyzer about a node, as problems of the manifest.

The analyzer checks each expression by itself. So the problems name all expressions that are wrong, each with its field
and as the user wrote it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BooleanType, DataType, NullType

from streamapp import nodes as n
from streamapp import operations as o
from streamapp.errors import Problem
from streamapp.operations.group_checks import FOLDED
from streamapp.spark.flow import Flow, column, quoted
from streamapp.spark.guard import expression, require_allowed


def problems_of(node: n.Node, inputs: Sequence[Flow], error: PySparkException) -> tuple[Problem, ...]:
    """The problems of a node that Spark could not make sense of. Where no expression is wrong by itself, one problem
    about the node as a whole; for a branch's arm, then none: the condition of an earlier arm is wrong.

    Args:
        node: any node.
        inputs: the flows that it reads.
        error: Spark's complaint about it.
    """
    found = () if len(inputs) != 1 else tuple(_wrong_expressions(node, inputs[0].scope()))
    if found or isinstance(node, o.Arm):
        return found
    return (Problem(node.owner, None, None, _words(error), None),)


def _wrong_expressions(node: n.Node, rows: DataFrame) -> Iterator[Problem]:
    by: list[str] = []
    wrong_groups = False
    for field, sql, role in ((used.field, used.text, used.role) for used in node.expressions()):
        match role:
            case n.Role.CONDITION:
                yield from _condition(node.name, field, sql, rows)
            case n.Role.COLUMN:
                yield from _value(node.name, field, sql, rows)
            case n.Role.ARRAY:
                yield from _array(node.name, field, sql, rows)
            case n.Role.GROUP:
                problems = tuple(_value(node.name, field, sql, rows))
                yield from problems
                by.append(sql)
                wrong_groups = wrong_groups or bool(problems)
            case n.Role.FOLDED:
                assert isinstance(node, o.Aggregate)
                so_far = rows.withColumn(FOLDED, F.struct(*map(column, node.reduced)))
                yield from _value(node.name, field, sql, so_far)
            case n.Role.AGGREGATE:
                assert isinstance(node, o.Aggregate)
                groups = [] if wrong_groups else [expression(group) for group in by]
                yield from _value(node.name, field, sql, _aggregated(node, field, rows), aggregated_by=groups)


def _aggregated(node: o.Aggregate, field: str, rows: DataFrame) -> DataFrame:
    """The rows that one of the aggregates is over: in a cogroup, the columns of one of its streams."""
    struct = dict(node.within).get(field.partition("aggregate.")[2])
    return rows if struct is None else rows.select(*(quoted(name) for name, _ in node.by), f"{struct}.*")


def _value(
    node: str, field: str, sql: str, rows: DataFrame, aggregated_by: list[Column] | None = None
) -> Iterator[Problem]:
    found = _type(sql, rows, aggregated_by)
    if isinstance(found, str):
        yield Problem(node, field, sql, found, None)


def _condition(node: str, field: str, sql: str, rows: DataFrame) -> Iterator[Problem]:
    found = _type(sql, rows)
    if isinstance(found, str):
        yield Problem(node, field, sql, found, None)
    elif not isinstance(found, BooleanType | NullType):
        message = f"a condition is true or false, and this is {found.simpleString()}"
        yield Problem(node, field, sql, message, "compare it with something, e.g. with `=` or `>`")


def _array(node: str, field: str, sql: str, rows: DataFrame) -> Iterator[Problem]:
    found = _type(sql, rows)
    if isinstance(found, str):
        yield Problem(node, field, sql, found, None)
    elif not isinstance(found, ArrayType):
        message = f"becomes one row for each element of an array, and this is {found.simpleString()}"
        yield Problem(node, field, sql, message, "make an array, e.g. with `split(text, ' ')` or `array(a, b)`")


def _type(sql: str, rows: DataFrame, aggregated_by: list[Column] | None = None) -> DataType | str:
    """The expression's type, or Spark's complaint about it."""
    try:
        value = expression(sql)
        frame = rows.select(value) if aggregated_by is None else rows.groupBy(*aggregated_by).agg(value)
        require_allowed(frame)
        return frame.schema[-1].dataType
    except PySparkException as error:
        return _words(error)


def _words(error: PySparkException) -> str:
    """Spark's complaint without its dump of the plan."""
    first = str(error.getMessage() if hasattr(error, "getMessage") else error).strip().split("\n")[0]
    text = first.split("] ", 1)[-1] if first.startswith("[") else first
    return text.split(" SQLSTATE")[0].rstrip()
