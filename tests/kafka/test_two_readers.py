# SPDX-License-Identifier: Apache-2.0
"""Expressions have two readers, the check of the manifest and Spark: a text that passes the one means the same to the
other."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from streamapp.expressions import functions as fn
from streamapp.expressions import read_expression
from streamapp.spark import guard
from streamapp.spark.session import Place, open_session

pytestmark = pytest.mark.kafka

TEXTS = 6_000
SEED = 13
HOLE = "/* /*+ */ reflect('java.lang.System', 'getProperty', 'user.dir') || -- */\n 'x'"


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    place = Place(master="local[1]", work_dir=tmp_path_factory.mktemp("readers"), memory="512m")
    session = open_session("readers", place, 1, {"spark.plugins": ""})
    yield session
    session.stop()


@pytest.mark.parametrize("name", ["reflect", "java_method", "try_reflect", "input_file_name", "range", "from_avro"])
def test_a_session_does_not_know_what_reaches_outside(spark: SparkSession, name: str) -> None:
    for call in (f"{name}('a', 'b')", f"builtin.{name}('a', 'b')", f"system.builtin.{name}('a', 'b')"):
        with pytest.raises(AnalysisException):
            spark.sql(f"select {call}")
        with pytest.raises(AnalysisException):
            spark.sql(f"select * from {call}")


@pytest.mark.parametrize(
    ("text", "seen"),
    [(HOLE, "call reflect"), ("(select 1)", "query"), ("1 in (select 1)", "query")],
)
def test_what_the_check_does_not_see_is_refused_by_what_spark_sees(spark: SparkSession, text: str, seen: str) -> None:
    with pytest.raises(AnalysisException, match=seen):
        guard.expression(text)


def test_a_plan_holds_only_expressions_of_the_list(spark: SparkSession) -> None:
    spark.udf.register("anything", lambda: 1)
    foreign = ("(select 1)", "exists (select 1)", "anything()")
    for text in foreign:
        with pytest.raises(AnalysisException, match="not on the list"):
            guard.require_allowed(spark.range(1).select(F.expr(text)))


@pytest.mark.parametrize(
    "text",
    ["current_timestamp() > 'now'", "current_date() = 'TODAY UTC'", "cast(concat('yester', 'day') as timestamp_ntz)"],
)
def test_a_text_that_spark_takes_for_the_time_is_refused(spark: SparkSession, text: str) -> None:
    """Without a type before it, the check of the manifest does not see that the text is a time."""
    with pytest.raises(AnalysisException, match=r"Cast of '(now|TODAY UTC|yesterday)', which is not on the list"):
        guard.require_allowed(spark.range(1).select(guard.expression(text)))
    same = re.sub("now|today utc", "epoch", text.lower()).replace("yester", "epo").replace("'day", "'ch")
    guard.require_allowed(spark.range(1).select(guard.expression(same)))


def test_a_constant_that_is_an_error_is_not_computed_by_the_check(spark: SparkSession) -> None:
    guard.require_allowed(spark.range(1).select(guard.expression("cast(element_at(array('1'), 5) as int)")))


def examples(spark: SparkSession) -> Iterator[str]:
    """The expressions of Spark's own documentation."""
    session: Any = spark._jsparkSession
    registry = session.sessionState().functionRegistry()
    names = registry.listFunction().iterator()
    while names.hasNext():
        info = registry.lookupFunction(names.next()).get()
        for match in re.finditer(r"^\s*> SELECT (.*?);\s*$", info.getExamples(), re.MULTILINE):
            yield match[1]


def test_every_function_of_the_manual_can_be_used(spark: SparkSession) -> None:
    """Spark's own examples that the check of the manifest allows go through the second look as well. The check knows
    the expressions that Spark, after its analysis, calls nondeterministic by their names alone."""
    passed, refused, unknown = 0, [], []
    for text in examples(spark):
        ours = read_expression(text)
        if ours.faults:
            continue
        try:
            frame = spark.range(1).select(guard.expression(text))
            guard.require_allowed(frame)
        except PySparkException as error:
            if "not on the list" in str(error) or "read in another way" in str(error):
                refused.append(f"{text}: {error}")
            continue
        passed += 1
        plan: Any = frame._jdf
        repeatable = plan.queryExecution().analyzed().expressions().head().deterministic()
        if not repeatable and ours.deterministic and not fn.ORDER_SENSITIVE & set(ours.functions):
            unknown.append(text)
    assert refused == []
    assert unknown == []
    assert passed > 700


def pieces(text: str, *more: str) -> list[str]:
    return [*text.split(), *more]


PIECES = pieces(
    r"""
    a b c.d `a` `a b` key t.x 1 2.5 1e3 'x' "y" r'\' r"\" x'ab' X'' '\'' "\"" '' "" 'it''s' date'2020-01-01' ' ` "
    + - * / % || = <> < > <= >= != <=> == & | ^ ~ ! && -> => : :: . , ( ) [ ] { } ? ; @ # $ \ -- /* */ /*+ {# #} {{ $$
    and or not in is null like rlike between case when then else end cast try_cast as int string array map struct
    interval day year from extract trim both position substring overlay placing filter where distinct all any some
    exists over partition by within group order select values table with lateral unnest explode count sum max lower
    split concat reflect java_method rand uuid transform aggregate x identifier current_date current_user date
    timestamp time zone at escape div using collate n'a' e'a' b'1' u&'a' é
    """,
    *" \t\n\r\x0b\x0c\u00a0\u200b\ufeff\u2028",
)
SEEDS = (
    "lower(a)",
    "count(*)",
    "a + 1",
    "split(a, ' ')",
    "case when a then b end",
    "cast(a as int)",
    "a[0]",
    "a.b.c = 1",
    "transform(a, x -> x + b)",
    "'a' || r'\\' || 'b'",
    "sum(a) filter (where b > 1)",
    "a in (1, 2)",
    "not a",
    "-a",
    "a between 1 and 2",
    "a like 'x' escape '/'",
    "interval 5 minutes",
    "timestamp '2020-01-01'",
    "a is not null",
)


def made_up(chance: random.Random, seeds: list[str]) -> str:
    """A text of pieces that lexers and parsers split in different ways; often similar to an expression."""
    parts = chance.choice(seeds).split(" ") if chance.random() < 0.7 else []
    for _ in range(chance.randint(0, 6 - 3 * bool(parts))):
        parts.insert(chance.randint(0, len(parts)), chance.choice(PIECES))
    text = chance.choice(("", " ", " ")).join(parts)
    if chance.random() < 0.3:  # cut, doubled or swapped somewhere
        place = chance.randint(0, len(text))
        text = text[:place] + text[place + chance.randint(0, 3) :] + (text[:place] if chance.random() < 0.2 else "")
    return text


def test_no_text_that_passes_means_something_else_to_spark(spark: SparkSession) -> None:
    """In a text that our reader passes, Spark's parser sees no query and no function of Spark's that we do not see."""
    chance, seeds = random.Random(SEED), sorted({*SEEDS, *examples(spark)})
    passed, different = 0, []
    for _ in range(TEXTS):
        text = made_up(chance, seeds)
        if read_expression(text).faults:
            continue
        try:
            guard.expression(text)
            passed += 1
        except PySparkException as error:  # Spark refuses it, or sees a column where we see none
            call = re.search(r"sees a call (\w+)", str(error))
            if "sees a query" in str(error) or (call is not None and call[1] in fn.KNOWN):
                different.append(f"{text!r}: {error}")
    assert different == []
    assert passed > TEXTS / 20


def test_the_list_has_no_kind_twice() -> None:
    lines = [line for line in Path(guard.LIST).read_text().splitlines() if not line.startswith("#")]
    assert lines == sorted(set(lines))
