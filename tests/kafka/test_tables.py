# SPDX-License-Identifier: Apache-2.0
"""Tables, joins with them and groups of them give the results of their records, in whatever way these are cut into
runs."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from lib.app import START_SECONDS, Bench
from lib.broker import in_order
from lib.faults import halt_at, killed_at
from lib.inprocess import App
from lib.tables import Change, Row, Table, changes, grouped, in_time, joined
from lib.verify import committed
from lib.wait import until
from streamapp.kafka.config import KafkaConfig

pytestmark = pytest.mark.kafka

NOON = 1_704_110_400_000
HOUR = 3_600_000
KEYS = [f"u{i}" for i in range(12)]
USERS: dict[str, list[object]] = {"city": ["Rome", "Oslo", "Kyiv", None], "age": [20, 33, 47, None]}
PLANS: dict[str, list[object]] = {"plan": ["free", "pro"]}
SOURCES = """
  - {name: users, table: {topic: $T-users, value: {format: json, schema: "city STRING, age INT"}}}
  - {name: plans, table: {topic: $T-plans, value: {format: json, schema: "plan STRING"}}, store: plans-by-user}
  - {name: orders, stream: {topic: $T-orders, value: {format: json, schema: "user STRING, n INT, turns INT"}}}
"""
TOPOLOGY = (
    SOURCES
    + "".join(
        f"""
  - {{name: pair-{kind}, from: users, join: {{with: plans, type: {kind}}}}}
  - {{name: to-{kind}, to: {{topic: $T-{kind}}}}}
"""
        for kind in ("inner", "left", "outer")
    )
    + """
  - {name: old, from: users, filter: age > 30}
  - {name: older, with: {next: age + 1}}
  - {name: to-old, to: {topic: $T-old}}
  - name: cities
    from: users
    groupBy: [city]
    aggregate: {many: count(*), numbers: count(age), total: sum(age), mean: avg(age)}
  - {name: to-cities, to: {topic: $T-cities}}
  - {name: sold, from: pair-left, groupBy: [plan], aggregate: {many: count(*), total: sum(age)}}
  - {name: to-sold, to: {topic: $T-sold}}
  - {name: large, from: sold, filter: many > 2}
  - {name: to-large, to: {topic: $T-large}}
  - {name: told, from: users, toStream: {}}
  - {name: seen, groupBy: [{one: "1"}], aggregate: {updates: count(*)}}
  - {name: to-seen, to: {topic: $T-seen}}
  - {name: met, from: orders, join: {with: users, by: [user], select: {at: orders.n, city: users.city}}}
  - {name: to-met, to: {topic: $T-met}}
  - {name: all, from: orders, join: {with: pair-outer, by: [user], type: left, select: {at: left.n, plan: right.plan}}}
  - {name: to-all, to: {topic: $T-all}}
  - {name: mine, from: orders, keyBy: [user]}
  - {name: last, toTable: {}}
  - {name: to-last, to: {topic: $T-last}}
  - {name: big, from: met, filter: at > 20}
  - {name: planned, join: {with: plans, type: left, select: {at: big.at, plan: plans.plan}}}
  - {name: to-planned, to: {topic: $T-planned}}
  - name: history
    from: orders
    groupBy: [user]
    aggregate: {one: first(n), other: last(n), all: collect_list(n), many: count(*)}
  - {name: to-history, to: {topic: $T-history}}
  - {name: lowest, from: orders, groupBy: [user], reduce: {'n': "least(acc.n, n)", turns: acc.turns + turns}}
  - {name: to-lowest, to: {topic: $T-lowest}}
  - {name: known, from: users, join: {with: history, type: left, select: {city: left.city, many: right.many}}}
  - {name: customers, groupBy: [{many: "coalesce(many, 0)"}], aggregate: {users: count(*), cities: count(city)}}
  - {name: to-customers, to: {topic: $T-customers}}
  - {name: turned, from: orders, join: {with: history, by: [user], select: {at: left.n, many: right.many}}}
  - {name: to-turned, to: {topic: $T-turned}}
  - {name: compared, from: users, join: {with: old, type: left, select: {age: left.age, old: right.age}}}
  - {name: aged, groupBy: ["old"], aggregate: {many: count(*), total: sum(age)}}
  - {name: to-aged, to: {topic: $T-aged}}
"""
)


def spread(found: list[Change], partitions: int) -> dict[int, list[Change]]:
    """The records by partition; a key's records are in one."""
    return {p: [one for one in found if KEYS.index(one[0]) % partitions == p] for p in range(partitions)}


class Model:
    def __init__(self) -> None:
        self.users, self.plans = Table(), Table()
        self.cities: set[Any] = set()
        self.sold: set[Any] = set()
        self.met: Counter[tuple[str, int, Any]] = Counter()
        self.all: Counter[tuple[str, int, Any]] = Counter()
        self.planned: Counter[tuple[str, int, Any]] = Counter()
        self.orders: dict[str, list[int]] = {}
        self.turned: set[tuple[str, int, int]] = set()

    def order(self, user: str, number: int) -> None:
        row = self.users.rows.get(user)
        if row is not None:
            self.met[user, number, row["city"]] += 1
            if number > 20:
                self.planned[user, number, self.plans.rows.get(user, {}).get("plan")] += 1
        self.all[user, number, self.plans.rows.get(user, {}).get("plan")] += 1
        self.orders.setdefault(user, []).append(number)
        self.turned.add((user, number, len(self.orders[user])))

    def change(self, table: Table, key: str, row: Row | None) -> None:
        table.change(key, row)
        self.cities.update(row["city"] for row in self.users.rows.values() if row["city"] is not None)
        pairs = joined("left", self.users, self.plans).values()
        self.sold.update(plan["plan"] for _, plan in pairs if plan is not None)

    def require(self, app: App) -> None:
        for kind in ("inner", "left", "outer"):
            expected = {
                key: {"city": None, "age": None, **(user or {}), "plan": (plan or {}).get("plan")}
                for key, (user, plan) in joined(kind, self.users, self.plans).items()
            }
            assert app.table(kind) == expected, kind
        old = {key: row for key, row in self.users.rows.items() if row["age"] is not None and row["age"] > 30}
        assert app.table("old") == {key: {**row, "next": row["age"] + 1} for key, row in old.items()}
        assert app.table("cities") == grouped(list(self.users.rows.values()), "city", "age", self.cities)
        pairs = joined("left", self.users, self.plans).values()
        plans = [{"plan": (plan or {}).get("plan"), "age": user["age"]} for user, plan in pairs if user is not None]
        sold = {
            plan: {"many": row["many"], "total": row["total"]}
            for plan, row in grouped(plans, "plan", "age", self.sold).items()
        }
        assert app.table("sold") == sold
        assert app.table("large") == {plan: row for plan, row in sold.items() if row["many"] > 2}
        assert app.table("seen") == {"1": {"updates": self.users.updates}}
        assert Counter((r.key, r.value["at"], r.value["city"]) for r in app.received("met")) == self.met
        assert Counter((r.key, r.value["at"], r.value["plan"]) for r in app.received("all")) == self.all
        assert app.table("last") == {user: {"n": found[-1], "turns": 1} for user, found in self.orders.items()}
        assert Counter((r.key, r.value["at"], r.value["plan"]) for r in app.received("planned")) == self.planned
        assert app.table("history") == {
            user: {"one": found[0], "other": found[-1], "all": found, "many": len(found)}
            for user, found in self.orders.items()
        }
        assert app.table("lowest") == {
            user: {"n": min(found), "turns": len(found)} for user, found in self.orders.items()
        }
        assert {(r.key, r.value["at"], r.value["many"]) for r in app.received("turned")} == self.turned
        counts = [len(self.orders.get(user, ())) for user in self.users.rows]
        cities = [(n, row["city"]) for n, row in zip(counts, self.users.rows.values(), strict=True)]
        customers = {key: row for key, row in app.table("customers").items() if row["users"] > 0}
        assert customers == {
            str(many): {
                "users": counts.count(many),
                "cities": sum(n == many and city is not None for n, city in cities),
            }
            for many in counts
        }
        aged = {key: row for key, row in app.table("aged").items() if row["many"] > 0}
        ages = [row["age"] for row in old.values()]
        assert aged == {str(age): {"many": ages.count(age), "total": age * ages.count(age)} for age in ages}


@pytest.mark.timeout(600)
def test_results_are_those_of_the_records(kafka: KafkaConfig, tmp_path: Path) -> None:
    """At first tables are read to their end before any order meets them; later both are read in the order of their
    times."""
    app = App(kafka, tmp_path, TOPOLOGY)
    app.create("users", "plans", partitions=2)
    app.create("orders")
    model = Model()
    number = 0
    for start in (NOON, NOON + HOUR):
        tables = (
            (model.users, "users", spread(changes(start, KEYS, 160, start, USERS), 2), 1),
            (model.plans, "plans", spread(changes(start + 1, KEYS, 60, start, PLANS), 2), 0),
        )
        orders: list[Change] = []
        for key, _, at in changes(start + 2, [*KEYS, "stranger"], 60, start + 50, {"x": [1]}):
            number += 1
            orders.append((key, {"user": key, "n": number, "turns": 1}, at))
        timed = [(*one[:3], table, one[3]) for table, _, found, rank in tables for one in in_time(found, rank)]
        waiting = [(*one[:3], None, one[3]) for one in in_time({0: orders}, 2)]
        by_time = (
            sorted(timed, key=lambda one: one[:3]) + waiting
            if start == NOON
            else sorted([*timed, *waiting], key=lambda one: one[:3])
        )
        for *_, table, (key, row, _) in by_time:
            if table is None:
                model.order(key, row["n"] if row else 0)
            else:
                model.change(table, key, row)
        for _, topic, found, _ in tables:
            for partition, mine in found.items():
                app.send(topic, *mine, partition=partition)
        app.send("orders", *((None, row, at) for _, row, at in orders))
        app.send("users", (None, {"city": "Nowhere", "age": 1}, start))
        app.run()
        model.require(app)
        bad = app.statuses[-1]["subTopologies"]["users"]["badRecords"]
        assert bad["users"] == 1, "a record without a key is none of a table's"
    assert any(value is None for value in app.latest("old").values())
    assert model.met.total() < model.all.total() == 120


def test_a_table_is_there_before_the_first_record_meets_it(kafka: KafkaConfig, tmp_path: Path) -> None:
    """The table takes several epochs to read, and the records are older than all of it."""
    topology = """
  - {name: users, table: {topic: $T-users, value: text}}
  - {name: orders, stream: {topic: $T-orders, value: text}}
  - {name: met, join: {with: users, type: left, select: {order: orders.value, user: users.value}}}
  - {name: to-met, to: {topic: $T-met}}
"""
    app = App(kafka, tmp_path, topology)
    app.create("users", "orders")
    app.send("users", *((f"u{i}", f"user {i}", NOON + i) for i in range(12_000)))
    app.send("orders", *((f"u{i}", f"order {i}", NOON - HOUR) for i in range(0, 12_000, 500)))
    app.run()
    assert {r.key: r.value["user"] for r in app.received("met")} == {
        f"u{i}": f"user {i}" for i in range(0, 12_000, 500)
    }
    assert app.statuses[-1]["subTopologies"]["users"]["epochs"] >= 3


def test_a_join_may_use_what_records_have_beside_their_columns(kafka: KafkaConfig, tmp_path: Path) -> None:
    topology = """
  - {name: users, table: {topic: $T-users, value: {format: json, schema: "city STRING"}}}
  - {name: cities, table: {topic: $T-cities, value: text}}
  - {name: orders, stream: {topic: $T-orders, value: text}}
  - {name: met, from: orders, join: {with: users, select: {at: left.offset, order: left.key, user: right.timestamp}}}
  - {name: to-met, to: {topic: $T-met}}
  - {name: both, from: users, join: {with: cities, select: {one: left.timestamp, other: right.timestamp}}}
  - {name: to-both, to: {topic: $T-both}}
  - {name: named, from: users, join: {with: cities, by: [city], select: {one: left.timestamp, other: right.timestamp}}}
  - {name: to-named, to: {topic: $T-named}}
  - {name: by-topic, from: orders, join: {with: users, by: [topic], type: left, select: {at: left.offset}}}
  - {name: to-by-topic, to: {topic: $T-by-topic}}
"""
    app = App(kafka, tmp_path, topology)
    app.create("users", "cities", "orders")
    app.send("users", ("a", {"city": "a"}, NOON))
    app.send("cities", ("a", "x", NOON + 1))
    app.send("orders", ("b", "x", NOON), ("a", "y", NOON + 2))
    app.run()
    one, other = "2024-01-01T12:00:00.000Z", "2024-01-01T12:00:00.001Z"
    assert [r.value for r in app.received("met")] == [{"at": 1, "order": "a", "user": one}]
    assert [r.value for r in app.received("by-topic")] == [{"at": 0}, {"at": 1}]
    assert app.table("both") == app.table("named") == {"a": {"one": one, "other": other}}


STEPS = (
    "metadata.after-write.offsets",
    "store.changes-sent#0",
    "transaction.before-commit#0",
    "transaction.after-commit#1",
    "store.after-restore#1",
    "epoch.tasks-committed",
    "metadata.deferred.commits",
)
SOME = ("transaction.after-commit#1",)
KILLED = """
  - {name: users, table: {topic: $T-numbers, value: text, ttl: 1 day}}
  - {name: orders, stream: {topic: $T-ticks, value: text}}
  - {name: met, join: {with: users, type: left, select: {order: orders.value, user: users.value}}}
  - {name: to-met, to: {topic: $T-pairs}}
  - {name: versions, table: {topic: $T-numbers, value: text, history: 1 day}}
  - name: dated
    from: orders
    join: {with: versions, type: left, asOf: true, grace: 1s, select: {order: left.value, user: right.value}}
  - {name: to-dated, to: {topic: $T-echo}}
  - {name: latest, from: orders, toTable: {}}
  - {name: both, from: users, join: {with: latest, type: outer, select: {user: users.value, order: latest.value}}}
  - {name: twice, from: orders, flatMap: {copy: "array(1, 2)"}}
  - {name: once, deduplicate: {by: [value], within: 1 hour}}
  - {name: trail, groupBy: [key], ttl: 1 day, aggregate: {all: collect_list(value)}}
  - name: whole
    from: both
    join: {with: trail, type: left, select: {user: left.user, order: left.order, orders: size(right.all)}}
  - {name: by-user, groupBy: [user], aggregate: {many: count(*), last: "sum(bigint(order))", orders: sum(orders)}}
  - {name: to-by-user, to: {topic: $T-totals}}
  - name: tops
    from: whole
    groupBy: [user]
    aggregate: {top: max(bigint(order)), all: sort_array(collect_list(bigint(order)))}
  - {name: to-tops, to: {topic: $T-folds}}
"""


@pytest.mark.timeout(900)
@killed_at(SOME, STEPS)
def test_killed_at_every_step(kafka: KafkaConfig, tmp_path: Path, steps: tuple[str, ...]) -> None:
    """Tables, groups and joins in one task, records that repeat, groups behind a topic: each order counts once."""
    producer = in_order(kafka)
    users: dict[str, str] = {}
    latest: dict[str, int] = {}
    orders: Counter[str] = Counter()
    versions: dict[str, list[tuple[int, str | None]]] = {}
    placed: dict[int, tuple[str, int]] = {}
    number = 0
    with Bench(kafka, tmp_path, "tables", KILLED, partitions=2, spec="idleTimeout: 2s") as bench:
        for i, step in enumerate((*steps, None)):
            for j in range(320 // (len(steps) + 1)):
                key, at = f"k{j % 13}", NOON + i * HOUR + j
                if j % 2:
                    number += 1
                    latest[key] = number
                    orders[key] += 1
                    placed[number] = key, at
                    producer.produce(bench.topics["ticks"], str(number).encode(), key.encode(), 0, timestamp=at)
                else:
                    users[key] = f"user {(i + j) % 3}"
                    value = users[key].encode() if j % 7 else None
                    versions.setdefault(key, []).append((at, users[key] if value else None))
                    producer.produce(bench.topics["numbers"], value, key.encode(), j % 13 % 2, timestamp=at)
                    if value is None:
                        del users[key]
            assert producer.flush(30) == 0
            if step is not None:
                halt_at(bench, step)
        rows = [(users[key], latest.get(key), orders[key]) for key in users]
        expected, tops = {}, {}
        for user in (f"user {i}" for i in range(3)):
            mine = [(order, many) for name, order, many in rows if name == user]
            numbers = [order for order, _ in mine if order is not None]
            sums = (
                {"last": sum(numbers), "orders": sum(many for _, many in mine)}
                if numbers
                else {"last": None, "orders": None}
            )
            expected[user] = {"many": len(mine), **sums}
            tops[user] = {"top": max(numbers, default=None), "all": sorted(numbers)}
        dated = {
            order: next((user for since, user in reversed(versions.get(key, [])) if since <= at), None)
            for order, (key, at) in placed.items()
        }
        app = bench.start()
        until(lambda: len(committed(kafka, bench.topics["echo"])) >= number, START_SECONDS, "what waits has gone on")
        until(
            lambda: _table(kafka, bench, "totals") == expected,
            START_SECONDS,
            lambda: f"totals {expected}; {app.tail()}",
        )
        until(lambda: _table(kafka, bench, "folds") == tops, START_SECONDS, lambda: f"tops {tops}; {app.tail()}")
        assert app.stop() == 0
        met = Counter(int(_json(message)["order"]) for message in committed(kafka, bench.topics["pairs"]))
        assert met == Counter(range(1, number + 1))
        found = [(int(row["order"]), row["user"]) for row in map(_json, committed(kafka, bench.topics["echo"]))]
        assert sorted(found, key=lambda one: one[0]) == sorted(dated.items())
        assert {None, "user 0", "user 1", "user 2"} == set(dated.values())
        assert _table(kafka, bench, "totals") == expected
        assert _table(kafka, bench, "folds") == tops


def _json(message: Any) -> Any:
    return json.loads(message.value())


def _table(kafka: KafkaConfig, bench: Bench, topic: str) -> dict[str, Any]:
    found = {}
    for message in committed(kafka, bench.topics[topic]):
        found[(message.key() or b"").decode()] = _json(message)
    return found
