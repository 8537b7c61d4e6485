# SPDX-License-Identifier: Apache-2.0
"""Aggregates of a table from which no row can be taken out again: they are those of the present rows."""

from __future__ import annotations

import functools
import math
import operator
import random
import shutil
import struct
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext

from lib.inprocess import App
from lib.verify import folded, rows_of
from streamapp.errors import DataError
from streamapp.kafka.config import KafkaConfig
from streamapp.spark.session import start_engine, this_process

pytestmark = pytest.mark.kafka

NOON = 1_704_110_400_000
SECOND = 1000
PEOPLE = [f"p{i:02}" for i in range(25)]
CITIES = ["Oslo", "Rome", "Kyiv", None]
SCORES = (1e16, -1e16, 1.0, 0.5, 0.1, -1 / 3, 1e300, -1e300, 1e-300, 5e-324)
KINDS = """
  - {name: people, table: {topic: $T-people, value: {format: json, schema: "city STRING, age INT, score DOUBLE"}}}
  - {name: kinds, from: people, groupBy: [city], aggregate: {different: count(distinct age)}}
  - {name: kinds-out, to: {topic: $T-kinds}}
"""
_FURTHER = """
  - name: ages
    from: people
    groupBy: [city]
    aggregate:
      oldest: max(age)
      ages: sort_array(collect_list(age))
      score: sum(score)
      first: first(age)
      many: count(*)
  - {name: ages-out, to: {topic: $T-ages}}
  - name: scores
    from: people
    groupBy: [city]
    aggregate: {total: sum(score), mean: avg(score), minutes: "sum(make_dt_interval(0, 0, age))"}
  - {name: scores-out, to: {topic: $T-scores}}
  - {name: folds, from: people, groupBy: [city], reduce: {age: "(acc.age * 31 + age) % 1000003"}}
  - {name: folds-out, to: {topic: $T-folds}}
  - {name: per-oldest, from: ages, groupBy: [oldest], aggregate: {cities: sort_array(collect_list(city))}}
  - {name: per-oldest-out, to: {topic: $T-per-oldest}}
  - {name: questions, stream: {topic: $T-questions, value: text}}
  - {name: answers, join: {with: ages, type: left, select: {ages: ages.ages}}}
  - {name: answers-out, to: {topic: $T-answers}}
"""
TOPOLOGY = KINDS + _FURTHER

Row = tuple[dict[str, Any], int]
"""A row, and its time."""


def changes(seed: int, since: int, count: int) -> list[tuple[str, dict[str, Any] | None, int]]:
    rng = random.Random(seed)
    found: list[tuple[str, dict[str, Any] | None, int]] = []
    for i in range(count):
        row = {"city": rng.choice(CITIES), "age": rng.randrange(1, 90), "score": rng.choice(SCORES)}
        at = since + i * SECOND - rng.choice((0, 0, 0, 7, 40)) * SECOND
        found.append((rng.choice(PEOPLE), None if rng.random() < 0.25 else row, at))
    return found


def expected(rows: dict[str, Row], seen: set[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """By city, the aggregates of its people, and their ages folded; in the order of times."""
    ages: dict[str, Any] = {}
    folds: dict[str, Any] = {}
    for city in seen:
        people = [
            row for _, (row, _) in sorted(rows.items(), key=lambda each: (each[1][1], each[0])) if row["city"] == city
        ]
        mine = [row["age"] for row in people]
        scores = [row["score"] for row in people]
        ages[city] = {"oldest": None, "ages": sorted(mine), "score": None, "first": None, "many": len(mine)}
        folds[city] = {"age": None}
        if mine:
            fold = mine[0]
            for age in mine[1:]:
                fold = (fold * 31 + age) % 1_000_003
            folds[city] = {"age": fold}
            # One after the other: in another order they are rounded to something else.
            ages[city] |= {"oldest": max(mine), "first": mine[0], "score": functools.reduce(operator.add, scores)}
    return ages, folds


def sums(people: list[dict[str, Any]]) -> dict[str, Any]:
    """The sum and the mean of scores, rounded once; the sum of ages as minutes."""
    if not people:
        return {"total": None, "mean": None, "minutes": None}
    total = math.fsum(row["score"] for row in people)
    hours, minutes = divmod(sum(row["age"] for row in people), 60)
    days, hours = divmod(hours, 24)
    spent = f"INTERVAL '{days} {hours:02}:{minutes:02}:00' DAY TO SECOND"
    return {"total": total, "mean": total / len(people), "minutes": spent}


@pytest.mark.timeout(400)
def test_results_are_those_of_the_rows_that_are_there(kafka: KafkaConfig, tmp_path: Path) -> None:
    """At once; then in small epochs, with the state in the changelogs."""
    app = App(kafka, tmp_path, TOPOLOGY)
    app.create("people", "questions", partitions=2)
    rows: dict[str, Row] = {}
    seen: set[str] = set()
    for run, at_most in enumerate((None, 15)):
        found = changes(run, NOON + run * 3600 * SECOND, 160)
        for partition in range(2):
            mine = [change for change in found if PEOPLE.index(change[0]) % 2 == partition]
            app.send("people", *mine, partition=partition)
        for key, row, at in found:
            rows.pop(key, None)
            if row is not None:
                rows[key] = row, at
                seen |= {row["city"]} - {None}
        if run == 1:
            shutil.rmtree(tmp_path / app.prefix)
        app.run(epoch_records=at_most)
        ages, folds = expected(rows, seen)
        assert app.latest("ages") == ages
        assert app.latest("folds") == folds
        assert app.latest("scores") == {
            city: sums([row for row, _ in rows.values() if row["city"] == city]) for city in ages
        }
        assert app.latest("kinds") == {city: {"different": len(set(row["ages"]))} for city, row in ages.items()}
        oldest = {str(row["oldest"]) for row in ages.values()}
        assert {key: row["cities"] for key, row in app.latest("per-oldest").items() if row["cities"]} == {
            one: sorted(city for city, row in ages.items() if str(row["oldest"]) == one) for one in oldest - {"None"}
        }
        kept = rows_of(folded(kafka, f"{app.prefix}-ages-changelog"))
        assert len(kept) == len(seen) + sum(row["city"] is not None for row, _ in rows.values())
    app.send("questions", *((city, "?", NOON + 7200 * SECOND) for city in ("Oslo", "Paris")))
    app.run()
    assert app.latest("answers") == {"Oslo": {"ages": ages["Oslo"]["ages"]}, "Paris": {"ages": None}}


def test_a_group_of_too_many_rows_is_told(kafka: KafkaConfig, tmp_path: Path) -> None:
    app = App(kafka, tmp_path, KINDS)
    app.create("people")
    rows = [(f"p{i}", {"city": "Oslo", "age": 1, "score": 1.0}, NOON) for i in range(100_001)]
    for first in range(0, len(rows), 5_000):
        app.send("people", *rows[first : first + 5_000])
    with pytest.raises(DataError, match=r"store 'kinds': group \(Oslo\) has more than 100000 rows, which"):
        app.run()


def test_a_sum_of_doubles_is_the_nearest_to_the_exact_one(tmp_path: Path) -> None:
    """It does not matter which values were added and taken out again, in which order, and whether the state was
    restored."""
    start_engine(this_process(1, tmp_path))
    SparkContext._ensure_initialized()
    jvm: Any = SparkContext._jvm
    keyed = jvm.org.apache.spark.sql.streamapp.keyed
    rng = random.Random(7)

    def number() -> float:
        bits = rng.getrandbits(64) if rng.random() < 0.5 else rng.getrandbits(52) | rng.getrandbits(1) << 63
        found: float = struct.unpack("<d", bits.to_bytes(8, "little"))[0]
        if not math.isfinite(found) or abs(found) > 1e300:
            return rng.choice((1e16, -1e16, 2.0**-1074, 0.1, -0.0, 1 - 2.0**-53, 2.0**53 + 2, 1.0))
        return found * rng.choice((1, 1, 2.0**-900, 2.0**-1000))

    for _ in range(60):
        stay, go = ([number() for _ in range(rng.randrange(1, 9))] for _ in range(2))
        go += [math.inf, -math.inf, math.nan]
        moves = [(one, 1) for one in stay + go] + [(one, -1) for one in go]
        rng.shuffle(moves)
        total, other = keyed.ExactTotal(), keyed.ExactTotal()
        for at, (one, sign) in enumerate(moves):
            (total if at % 3 else other).add(one, sign)
        whole = keyed.ExactTotal.of(total.toBytes())
        whole.add(other)
        assert whole.toDouble() == math.fsum(stay), stay
    for added, comes_to in (((math.inf, 1.0), math.inf), ((-math.inf, 1.0), -math.inf), ((1.7e308, 1.7e308), math.inf)):
        total = keyed.ExactTotal()
        for one in added:
            total.add(one, 1)
        assert total.toDouble() == comes_to
    total = keyed.ExactTotal()
    total.add(math.inf, 1)
    total.add(-math.inf, 1)
    assert math.isnan(total.toDouble())
