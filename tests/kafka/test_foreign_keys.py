# SPDX-License-Identifier: Apache-2.0
"""Foreign-key joins give the results of the two tables, in whatever way their records are cut into epochs and runs."""

from __future__ import annotations

import itertools
import json
import random
import re
import urllib.request
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import pytest

from lib.app import START_SECONDS, AppProcess, Bench
from lib.broker import in_order
from lib.faults import halt_at, killed_at
from lib.inprocess import App
from lib.tables import Change, Row, Table, changes, grouped
from lib.verify import committed, verify_changelog
from lib.wait import until
from streamapp.errors import ManifestError
from streamapp.kafka.config import KafkaConfig

pytestmark = pytest.mark.kafka

NOON = 1_704_110_400_000
HOUR = 3_600_000
ORDERS = [f"o{i}" for i in range(14)]
CUSTOMERS = [f"c{i}" for i in range(5)]
TOPOLOGY = """
  - {name: orders, table: {topic: $T-orders, value: {format: json, schema: "customer STRING, at INT"}}}
  - {name: customers, table: {topic: $T-customers, value: {format: json, schema: "city STRING, friend STRING"}}}
  - name: inner
    from: orders
    join: {with: customers, by: [customer], select: {at: orders.at, city: customers.city}}
  - {name: to-inner, to: {topic: $T-inner}}
  - {name: all, from: orders, join: {with: customers, match: {customer: key}, type: left}}
  - {name: to-all, to: {topic: $T-all}}
  - {name: cities, from: inner, groupBy: [city], aggregate: {many: count(*), numbers: count(at), total: sum(at)}}
  - {name: to-cities, to: {topic: $T-cities}}
  - {name: small, from: all, filter: at < 3}
  - {name: early, join: {with: orders, select: {city: small.city, now: orders.at}}}
  - {name: to-early, to: {topic: $T-early}}
  - name: friends
    from: customers
    join: {with: customers, by: [friend], select: {here: left.city, there: right.city}}
  - {name: to-friends, to: {topic: $T-friends}}
  - {name: counted, from: orders, groupBy: [customer], aggregate: {many: count(*), total: sum(at)}}
  - {name: named, with: {who: "concat('c', total % 5)"}}
  - {name: ranks, join: {with: customers, by: [who], type: left, select: {many: named.many, city: customers.city}}}
  - {name: to-ranks, to: {topic: $T-ranks}}
"""


def met(kind: str, left: Mapping[str, Row], by: str, right: Mapping[str, Row]) -> dict[str, tuple[Row, Row | None]]:
    """The rows of the left table with the row that they name."""
    found = {key: (row, right.get(row[by])) for key, row in left.items()}
    return {key: pair for key, pair in found.items() if kind == "left" or pair[1] is not None}


def city(row: Row | None) -> Any:
    return None if row is None else row["city"]


class Model:
    def __init__(self) -> None:
        self.orders, self.customers = Table(), Table()
        self.cities: set[Any] = set()
        self.counted: set[Any] = set()

    def require(self, app: App) -> None:
        orders, customers = self.orders.rows, self.customers.rows
        inner = met("inner", orders, "customer", customers)
        left = met("left", orders, "customer", customers)
        assert app.table("inner") == {key: {"at": o["at"], "city": city(c)} for key, (o, c) in inner.items()}
        assert app.table("all") == {
            key: {**order, "city": city(c), "friend": c and c["friend"]} for key, (order, c) in left.items()
        }
        assert app.table("early") == {
            key: {"city": city(c), "now": order["at"]} for key, (order, c) in left.items() if order["at"] < 3
        }
        self.cities.update(city(c) for _, c in inner.values())
        cities = grouped([{"city": city(c), "at": o["at"]} for o, c in inner.values()], "city", "at", set())
        found = {key: row for key, row in app.table("cities").items() if row["many"]}
        assert found == {key: {n: row[n] for n in ("many", "numbers", "total")} for key, row in cities.items() if key}
        friends = met("inner", customers, "friend", customers)
        assert app.table("friends") == {
            key: {"here": city(c), "there": city(friend)} for key, (c, friend) in friends.items()
        }
        self.counted.update(order["customer"] for order in orders.values() if order["customer"] is not None)
        counted = grouped(list(orders.values()), "customer", "at", self.counted)
        named = {
            key: {"many": row["many"], "who": None if row["total"] is None else f"c{row['total'] % 5}"}
            for key, row in counted.items()
        }
        ranks = met("left", named, "who", customers)
        mine = {key: row for key, row in app.table("ranks").items() if row["many"]}
        assert mine == {key: {"many": n["many"], "city": city(c)} for key, (n, c) in ranks.items() if n["many"]}


def orders_of(seed: int, since: int) -> list[Change]:
    names = [*CUSTOMERS, "nobody", None]
    return changes(seed, ORDERS, 150, since, {"customer": names, "at": [1, 2, 3, 4, 5]})


def customers_of(seed: int, since: int) -> list[Change]:
    return changes(seed, CUSTOMERS, 60, since, {"city": ["Rome", "Oslo", "Kyiv"], "friend": [*CUSTOMERS, None]})


@pytest.mark.timeout(900)
def test_results_are_those_of_the_rows(kafka: KafkaConfig, tmp_path: Path) -> None:
    """In few epochs, then in many."""
    app = App(kafka, tmp_path, TOPOLOGY)
    app.create("orders", "customers", partitions=2)
    model = Model()
    for start, at_most in ((NOON, None), (NOON + HOUR, 60)):
        tables = (
            (model.orders, "orders", ORDERS, orders_of(start, start)),
            (model.customers, "customers", CUSTOMERS, customers_of(start + 1, start)),
        )
        for table, topic, keys, found in tables:
            for key, row, at in found:
                table.change(key, row)
                app.send(topic, (key, row, at), partition=keys.index(key) % 2)
        app.run(epoch_records=at_most)
        model.require(app)
    assert any(value is None for value in app.latest("inner").values())


def test_keys_of_different_types_are_refused(kafka: KafkaConfig, tmp_path: Path) -> None:
    app = App(kafka, tmp_path, TOPOLOGY.replace("friend STRING", "friend INT"))
    app.create("orders", "customers")
    said = "node 'friends': `by`: `friend` of 'left' is int, `key` of 'right' is string: keys of different types never"
    with pytest.raises(ManifestError, match=re.escape(said)):
        app.run()


HERE, MOVED, LEFT, GONE = range(4)
"""The messages of a place about a row (ForeignKeys.scala)."""
Said = tuple[int, int, int | None]
"""The state of the row, the version of the change, and the result, if there is one."""


def told_by_places(rng: random.Random) -> tuple[list[list[Said]], int | None]:
    """The messages of each place about a row's life, and the final result."""
    said: dict[str, list[Said]] = {place: [] for place in "abcd"}
    place, version, result = "", 0, None
    for _ in range(rng.randrange(1, 14)):
        version += 1
        chosen = rng.choice("abcd")
        made = None if rng.random() < 0.3 else version * 100 + rng.randrange(100)
        if not place or chosen == place:
            place = chosen
            said[place].append((HERE, version, made))
        elif rng.random() < 0.3:
            said[place].append((GONE, version, None))
            place, made = "", None
        elif rng.random() < 0.4:  # the right table's row has changed
            version -= 1
            said[place].append((HERE, version, made))
        else:
            said[place].append((LEFT, version, None))
            said[chosen].append((MOVED, version, made))
            place = chosen
        result = made
    return [one for one in said.values() if one], result


def test_what_places_say_may_come_in_any_order(kafka: KafkaConfig, tmp_path: Path) -> None:
    """The messages of one place come in its order. Nothing is left of rows that have no result."""
    topology = """
  - {name: orders, table: {topic: $T-orders, value: {format: json, schema: "customer STRING, at INT"}}}
  - {name: customers, table: {topic: $T-customers, value: text}}
  - {name: placed, from: orders, join: {with: customers, by: [customer], select: {at: orders.at}}}
  - {name: to-placed, to: {topic: $T-placed}}
"""
    app = App(kafka, tmp_path, topology)
    app.create("orders", "customers")
    app.run()
    rng = random.Random(11)
    expected: dict[str, Row] = {}
    sent: list[list[tuple[str, Row, int]]] = [[], []]
    for i in range(400):
        waiting, result = told_by_places(rng)
        key = f"k{i}"
        if result is not None:
            expected[key] = {"at": result}
        while waiting:
            of_place = rng.choice(waiting)
            what, version, at = of_place.pop(0)
            waiting = [one for one in waiting if one]
            move = {"version": version, "what": what}
            row = {"__deleted": at is None, "__move": move, "__key_0": key, "at": at}
            sent[i % 2].append((key, row, NOON + version))
    for partition, records in enumerate(sent):
        app.send("placed-repartition", *records, partition=partition)
    app.run()
    assert app.table("placed") == expected
    assert 100 < len(expected) < 300
    verify_changelog(kafka, app.topic("placed-changelog"), len(expected))


STEPS = (
    "metadata.after-write.offsets",
    "store.changes-sent#0",
    "transaction.before-commit#1",
    "transaction.after-commit#1",
    "epoch.tasks-committed",
)
SOME = ("store.changes-sent#0", "transaction.after-commit#1")
KILLED = """
  - {name: orders, table: {topic: $T-numbers, value: text}}
  - {name: customers, table: {topic: $T-ticks, value: text}}
  - name: placed
    from: orders
    join: {with: customers, by: [value], type: left, select: {customer: orders.value, city: customers.value}}
  - {name: to-placed, to: {topic: $T-pairs}}
  - {name: cities, from: placed, groupBy: [{city: "coalesce(city, 'none')"}], aggregate: {many: count(*)}}
  - {name: to-cities, to: {topic: $T-totals}}
  - {name: everybody, globalTable: {topic: $T-ticks, value: text}}
  - {name: asked, stream: {topic: $T-tocks, value: text}}
  - {name: found, join: {with: everybody, match: {value: value}, type: left, select: {who: right.key}}}
  - {name: to-found, to: {topic: $T-echo}}
  - {name: looked-up, from: asked, join: {with: placed, by: [value], type: left, select: {city: right.city}}}
  - {name: to-looked-up, to: {topic: $T-folds}}
"""
BERNESE = [f"b{i:02}" for i in range(30)]
"""Customers who stay in Bern."""


@pytest.mark.timeout(900)
@killed_at(SOME, STEPS)
def test_killed_at_every_step(kafka: KafkaConfig, tmp_path: Path, steps: tuple[str, ...]) -> None:
    """Rows move from customer to customer, and these from city to city: each row is counted in one city. Who asks for a
    city finds each of its customers once, and who asks for an order its city, though tables come by topics."""
    producer = in_order(kafka)
    rng = random.Random(5)
    orders: dict[str, str] = {}
    customers: dict[str, str] = {}
    cities = ["Rome", "Oslo", "Kyiv"]

    def send(topic: str, table: dict[str, str], key: str, values: list[str], partition: int, at: int) -> None:
        value = rng.choice(values) if rng.random() < 0.8 else None
        producer.produce(topic, value and value.encode(), key.encode(), partition, timestamp=at)
        if value is None:
            table.pop(key, None)
        else:
            table[key] = value

    with Bench(kafka, tmp_path, "foreign-keys", KILLED, partitions=2) as bench:
        asked = itertools.count()

        def ask(city: str) -> str:
            key = f"a{next(asked)}"
            producer.produce(bench.topics["tocks"], city.encode(), key.encode(), 0, timestamp=NOON)
            return key

        for name in BERNESE:
            producer.produce(bench.topics["ticks"], b"Bern", name.encode(), 0, timestamp=NOON)
        customers |= dict.fromkeys(BERNESE, "Bern")
        orders["o-bern"] = BERNESE[0]
        producer.produce(bench.topics["numbers"], orders["o-bern"].encode(), b"o-bern", 0, timestamp=NOON)
        in_bern = []
        for i, step in enumerate((*steps, None)):
            in_bern += [ask("Bern") for _ in range(10)]
            ask("o-bern")
            for j in range(360 // (len(steps) + 1)):
                number, at = rng.randrange(12), NOON + i * HOUR + j
                if j % 3:
                    send(bench.topics["numbers"], orders, f"o{number}", CUSTOMERS, number % 2, at)
                else:
                    send(bench.topics["ticks"], customers, f"c{number % 5}", cities, 0, at)
            assert producer.flush(30) == 0
            if step is not None:
                halt_at(bench, step)
        placed = {key: {"customer": name, "city": customers.get(name)} for key, name in orders.items()}
        # A city may have rows in the middle of an epoch alone: then the topic has nothing of it.
        empty = dict.fromkeys((*cities, "Bern", "none"), 0)
        expected = empty.copy()
        for row in placed.values():
            expected[row["city"] or "none"] += 1
        app = bench.start()

        def counted() -> dict[str, int]:
            return empty | {city: row["many"] for city, row in _rows(kafka, bench.topics["totals"]).items()}

        until(
            lambda: _rows(kafka, bench.topics["pairs"]) == placed and counted() == expected,
            START_SECONDS,
            f"{placed}, {expected}; {app.tail()}",
        )
        assert _asked(app) == placed
        until(lambda: _found(kafka, bench, in_bern) == dict.fromkeys(in_bern, BERNESE), START_SECONDS, "those in Bern")
        of_bern = [message for message in committed(kafka, bench.topics["folds"]) if message.key() == b"o-bern"]
        assert [json.loads(message.value() or b"") for message in of_bern] == [{"city": "Bern"}] * (len(steps) + 1)
        living = {place: sorted(key for key, city in customers.items() if city == place) for place in (*cities, "Ulm")}

        def all_found() -> bool:
            keys = {ask(place): place for place in living}
            assert producer.flush(30) == 0
            until(lambda: len(_found(kafka, bench, keys)) == len(keys), START_SECONDS, lambda: f"answers; {app.tail()}")
            expected: dict[str, list[str | None]] = {key: [*living[place]] or [None] for key, place in keys.items()}
            return _found(kafka, bench, keys) == expected

        until(all_found, START_SECONDS, f"{living}")
        # The join may keep something for a while about a row without a result; it is no answer.
        for key, what in (("nobody", LEFT), ("somebody", HERE)):
            told: Row = {
                "__deleted": what == LEFT,
                "__move": {"version": 1, "what": what},
                "__key_0": key,
                "customer": "c",
            }
            producer.produce(f"{bench.prefix}-placed-repartition", json.dumps(told).encode(), key.encode(), 0)
        assert producer.flush(30) == 0
        until(lambda: "somebody" in _asked(app), START_SECONDS, lambda: f"an answer; {app.tail()}")
        assert _asked(app) == placed | {"somebody": {"customer": "c", "city": None}}
        assert app.stop() == 0


def _asked(app: AppProcess) -> dict[str, Any]:
    with urllib.request.urlopen(f"{app.address}/stores/placed?limit=1000", timeout=60) as answer:
        return {row.pop("key"): row for row in json.load(answer)["rows"]}


def _found(kafka: KafkaConfig, bench: Bench, keys: Collection[str]) -> dict[str, list[str | None]]:
    """The customers that these have found, each as often as it was found."""
    found: dict[str, list[str | None]] = {}
    for message in committed(kafka, bench.topics["echo"]):
        if (key := (message.key() or b"").decode()) in keys:
            found.setdefault(key, []).append(json.loads(message.value() or b"")["who"])
    return {key: sorted(names, key=str) for key, names in found.items()}


def _rows(kafka: KafkaConfig, topic: str) -> dict[str, Any]:
    found = {}
    for message in committed(kafka, topic):
        value = message.value()
        found[(message.key() or b"").decode()] = None if value is None else json.loads(value)
    return {key: value for key, value in found.items() if value is not None}
