# SPDX-License-Identifier: Apache-2.0
"""Nexmark's queries, epoch by epoch, give the results of batch Spark SQL over all events at once."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession

from lib.inprocess import App
from streamapp.kafka.config import KafkaConfig
from streamapp.nodes import TABLE

pytestmark = pytest.mark.kafka

NEXMARK = Path(__file__).parents[2] / "examples" / "nexmark"
QUERIES = sorted((file.stem for file in NEXMARK.glob("*.yaml")), key=lambda name: int(name[1:]))
EVENTS = 10_000
EPOCH_RECORDS = 4000
PARTITIONS = 2
SCHEMAS = {
    "persons": "id BIGINT, name STRING, emailAddress STRING, creditCard STRING, city STRING, state STRING, "
    "dateTime TIMESTAMP",
    "auctions": "id BIGINT, itemName STRING, description STRING, initialBid BIGINT, reserve BIGINT, "
    "dateTime TIMESTAMP, expires TIMESTAMP, seller BIGINT, category BIGINT",
    "bids": "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, dateTime TIMESTAMP, extra STRING",
    "side": "key BIGINT, value STRING",
}
Event = tuple[int, dict[str, Any]]
Row = dict[str, Any]


def events(kind: str) -> list[Event]:
    """The events as the generator prints them."""
    command = [sys.executable, str(NEXMARK / "events.py"), kind, "--events", str(EVENTS)]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    return [(int(event["key"]), event["value"]) for event in map(json.loads, lines)]


def all_in_one() -> str:
    """The nodes of all queries, each with the name of its query before its own."""
    nodes = []
    for query in QUERIES:
        for node in yaml.safe_load((NEXMARK / f"{query}.yaml").read_text())["spec"]["topology"]:
            node["name"] = f"{query}-{node['name']}"
            if "from" in node:
                node["from"] = f"{query}-{node['from']}"
            if "join" in node:
                node["join"]["with"] = f"{query}-{node['join']['with']}"
            nodes.append(node)
    return textwrap.indent(yaml.safe_dump(nodes).replace("nexmark-", "$T-"), "  ")


def in_batch(market: Mapping[str, Sequence[Event]], folder: Path) -> dict[str, list[Row]]:
    """The rows of each query's SQL, by query."""
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    try:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
        spark.conf.set("spark.sql.shuffle.partitions", "2")
        for kind, schema in SCHEMAS.items():
            file = folder / f"{kind}.json"
            file.write_text("".join(json.dumps({"key": key, **value}) + "\n" for key, value in market[kind]))
            spark.read.schema(schema).json(str(file)).createOrReplaceTempView(kind)
        found = {}
        for query in QUERIES:
            rows = spark.sql((NEXMARK / f"{query}.sql").read_text()).selectExpr("to_json(struct(*)) AS row").collect()
            found[query] = [json.loads(row["row"]) for row in rows]
        return found
    finally:
        spark.stop()


def rows_of(app: App, query: str) -> list[Row]:
    """All records of a query's topic; for a table its rows, with the columns of the key."""
    topology, (given,) = next(
        (part.topology, node.inputs)
        for part in app.plan.subtopologies
        for node in part.nodes
        if app.topic(query) in node.topics_written
    )
    if topology.kind(given) != TABLE:
        return [record.value for record in app.received(query)]
    columns = topology.key_columns(given)
    return [{**columns_of(columns, key), **row} for key, row in app.table(query).items()]


def columns_of(columns: Sequence[str], key: str) -> Row:
    if len(columns) > 1:
        return dict(json.loads(key))
    return {columns[0]: int(key) if key.isdecimal() else key}


def of_all_windows(rows: Iterable[Row]) -> list[Row]:
    """The counts over all windows: the data do not say in which window of the clock a bid is counted."""
    bids: Counter[int] = Counter()
    for row in rows:
        bids[row["bidder"]] += row["bids"]
    return [{"bidder": bidder, "bids": count} for bidder, count in bids.items()]


def counted(rows: Iterable[Row], columns: Iterable[str]) -> Counter[str]:
    return Counter(json.dumps({column: row[column] for column in columns}, sort_keys=True) for row in rows)


@pytest.mark.timeout(600)
def test_every_query_equals_batch_sql(kafka: KafkaConfig, tmp_path: Path) -> None:
    market = {kind: events(kind) for kind in SCHEMAS}
    app = App(kafka, tmp_path, all_in_one())
    app.create(*SCHEMAS, partitions=PARTITIONS)
    for kind, of_kind in market.items():
        for partition in range(PARTITIONS):
            mine = ((str(key), value) for key, value in of_kind if key % PARTITIONS == partition)
            app.send(kind, *mine, partition=partition)
    app.plan = replace(app.plan, close_windows=True)
    app.run(epoch_records=EPOCH_RECORDS)
    for query, wanted in in_batch(market, tmp_path).items():
        assert wanted, query
        columns = wanted[0].keys()
        found = rows_of(app, query)
        seen = counted(of_all_windows(found) if query == "q12" else found, columns)
        assert seen == counted(wanted, columns), query
