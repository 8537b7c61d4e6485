# SPDX-License-Identifier: Apache-2.0
"""A stream's records meet the rows of a global table by columns that are not its key."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from lib.inprocess import App
from lib.tables import Row, Table, changes
from streamapp.errors import ManifestError
from streamapp.kafka.config import KafkaConfig

pytestmark = pytest.mark.kafka

NOON = 1_704_110_400_000
HOUR = 3_600_000
SHOPS = [f"s{i}" for i in range(30)]
CITIES = ["Rome", "Oslo", "Kyiv", "Bern", "Ulm"]
TOPOLOGY = """
  - {name: shops, globalTable: {topic: $T-shops, value: {format: json, schema: "city STRING, size INT"}}}
  - {name: sales, stream: {topic: $T-sales, value: {format: json, schema: "town STRING, size INT, n INT"}}}
  - name: inner
    from: sales
    join: {with: shops, match: {town: city}, select: {'n': sales.n, shop: shops.key, size: shops.size}}
  - {name: to-inner, to: {topic: $T-inner}}
  - name: left
    from: sales
    join: {with: shops, match: {town: city, size: size}, type: left, select: {'n': sales.n, shop: shops.key}}
  - {name: to-left, to: {topic: $T-left}}
  - {name: large, from: shops, filter: size > 2}
  - {name: large-by-name, with: {upper: upper(city)}}
  - {name: shouted, from: sales, with: {loud: upper(town)}}
  - {name: loud, join: {with: large-by-name, match: {loud: upper}, select: {'n': left.n, shop: right.key}}}
  - {name: to-loud, to: {topic: $T-loud}}
  - {name: per-town, from: sales, groupBy: [town], aggregate: {sales: count(*), 'n': max(n)}}
  - {name: told, toStream: {}}
  - {name: by-group, join: {with: shops, match: {town: city}, select: {'n': told.n, shop: shops.key}}}
  - {name: to-by-group, to: {topic: $T-by-group}}
  - {name: found, from: inner, groupBy: [shop], aggregate: {times: count(*)}}
  - {name: to-found, to: {topic: $T-found}}
"""


def met(sales: Iterable[Row], rows: Mapping[str, Row], meets: Callable[[Row, Row], bool]) -> Counter[tuple[int, str]]:
    return Counter((sale["n"], shop) for sale in sales for shop, row in rows.items() if meets(sale, row))


def in_same_city(sale: Row, row: Row) -> bool:
    return sale["town"] is not None and sale["town"] == row["city"]


@pytest.mark.timeout(900)
def test_each_record_meets_all_rows_with_its_values(kafka: KafkaConfig, tmp_path: Path) -> None:
    """In few epochs, then in many; each time the table's changes are older than the records."""
    app = App(kafka, tmp_path, TOPOLOGY)
    app.create("shops", "sales", partitions=2)
    shops, sales = Table(), 0
    expected: dict[str, Counter[tuple[int, str | None]]] = {name: Counter() for name in ("inner", "left", "loud")}
    for start, at_most in ((NOON, None), (NOON + HOUR, 60)):
        rows = changes(start, SHOPS, 200, start, {"city": [*CITIES, None], "size": [1, 2, 3, 4, None]})
        for key, row, at in rows:
            shops.change(key, row)
            app.send("shops", (key, row, at), partition=SHOPS.index(key) % 2)
        now: list[dict[str, Any]] = []
        for i in range(150):
            town = (*CITIES, "nowhere", None)[i % 7]
            sale = {"town": town, "size": i % 5, "n": sales + i}
            now.append(sale)
            app.send("sales", (f"k{i % 11}", sale, start + HOUR // 2 + i * 100), partition=i % 11 % 2)
        app.send("sales", ("k1", None, start + HOUR // 2 + 20_000))
        sales += len(now)
        app.run(epoch_records=at_most)

        same = met(now, shops.rows, in_same_city)
        fits = met(now, shops.rows, lambda sale, row: in_same_city(sale, row) and sale["size"] == row["size"])
        large = {key: row for key, row in shops.rows.items() if (row["size"] or 0) > 2}
        expected["inner"].update(same)
        expected["left"].update(fits)
        expected["left"].update((sale["n"], None) for sale in now if sale["n"] not in {n for n, _ in fits})
        expected["loud"].update(met(now, large, in_same_city))
        for name, pairs in expected.items():
            received = app.received(name)
            assert Counter((one.value["n"], one.value["shop"]) for one in received) == pairs, name
            assert {one.key for one in received} <= {f"k{i}" for i in range(11)}, "records keep their key"
        assert len(same) > 300
        told = {(one.value["n"], one.value["shop"]) for one in app.received("by-group")}
        last = {sale["town"]: sale for sale in now if sale["town"]}
        assert met(last.values(), shops.rows, in_same_city).keys() <= told
        times = Counter(shop for _, shop in expected["inner"].elements())
        assert {key: row["times"] for key, row in app.table("found").items()} == times


def test_keys_of_different_types_are_refused(kafka: KafkaConfig, tmp_path: Path) -> None:
    app = App(kafka, tmp_path, TOPOLOGY.replace("match: {town: city, size: size}", "match: {town: size}"))
    app.create("shops", "sales")
    said = "node 'left': `by`: `town` of 'sales' is string, `size` of 'shops' is int: keys of different types never"
    with pytest.raises(ManifestError, match=re.escape(said)):
        app.run()
