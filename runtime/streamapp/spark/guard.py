# SPDX-License-Identifier: Apache-2.0
"""The second check of the author's expressions, by Spark's own reading of them.

The manifest's check reads an expression with a parser that is not Spark's. This module stops whatever that parser
overlooks: the session does not know the functions that reach outside, a function that Spark sees and the check did not
see is refused, and so is an analysed plan with an expression of a kind that is not on the list.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.classic.column import Column as ClassicColumn

from streamapp.expressions import functions as fn
from streamapp.expressions import read_expression
from streamapp.spark.jvm import java_class

LIST = Path(__file__).with_name("expressions.lst")
_OURS = frozenset({"explode", "window"})
"""Functions that we call and no author may call."""
KEPT = (fn.KNOWN - fn.FORBIDDEN.keys() - fn.GENERATOR - fn.WINDOW) | _OURS
"""The functions that a session knows."""
_HARMLESS = fn.SCALAR - fn.FORBIDDEN.keys() - fn.NON_DETERMINISTIC


def restrict_functions(spark: SparkSession) -> None:
    """Makes the session forget all functions but KEPT. Those that are registered later are not touched."""
    java_class("Expressions").restrict(spark._jsparkSession, _json(KEPT))


def expression(text: str) -> Column:
    """The author's expression for Spark.

    Raises:
        AnalysisException: when Spark sees something in it that the check of the manifest did not see.
        ParseException: when Spark cannot read it.
    """
    _require_read_alike(text)
    return F.expr(text)


def expression_within(text: str, struct: str, outside: Sequence[str]) -> Column:
    """The author's aggregate over the fields of a struct, for the rows that have the struct.

    Args:
        outside: columns that are not fields of the struct.

    Raises:
        AnalysisException, ParseException: as `expression`.
    """
    _require_read_alike(text)
    spark = SparkSession.active()
    names = _json(name.lower() for name in outside)
    aggregates = _json(read_expression(text).aggregates)
    return ClassicColumn(java_class("Expressions").within(spark._jsparkSession, text, struct, names, aggregates))


def _require_read_alike(text: str) -> None:
    spark = SparkSession.active()
    ours = read_expression(text)
    known = {f"call {name}" for name in _HARMLESS.union(ours.functions)}
    known |= {f"column {name.lower()}" for name in (*(parts[0] for parts in ours.columns), *fn.WITHOUT_PARENTHESES)}
    for seen in json.loads(java_class("Expressions").read(spark._jsparkSession, text)):
        if seen not in known:
            raise AnalysisException(f"is read in another way by Spark, which sees a {seen} in it")


def require_allowed(frame: DataFrame) -> None:
    """Checks the frame's analysed plan.

    Raises:
        AnalysisException: when it holds an expression of a kind that is not on the list.
    """
    for name in json.loads(java_class("Expressions").classes(frame._jdf)):
        if name not in _allowed():
            raise AnalysisException(f"comes to Spark's expression {name}, which is not on the list of those allowed")


@cache
def _allowed() -> frozenset[str]:
    return frozenset(line for line in LIST.read_text().splitlines() if not line.startswith("#"))


def _json(names: Iterable[str]) -> str:
    return json.dumps(list(names))
