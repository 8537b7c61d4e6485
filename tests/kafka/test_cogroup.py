# SPDX-License-Identifier: Apache-2.0
"""`cogroup` makes one table of several streams, whatever nodes these come from."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from lib.inprocess import App
from streamapp.errors import ManifestError
from streamapp.kafka.config import KafkaConfig

pytestmark = pytest.mark.kafka

NOON = 1_704_110_400_000
TOPOLOGY = """
  - {name: clicks, stream: {topic: $T-clicks, value: {format: json, schema: "user STRING, ms INT"}}}
  - {name: orders, stream: {topic: $T-orders, value: {format: json, schema: "user STRING, cents BIGINT, ms STRING"}}}
  - name: activity
    groupBy: [{who: lower(user)}]
    cogroup:
    - {from: clicks, aggregate: {clicks: count(*), slowest: max(ms), slow: count(*) filter (where ms > 50)}}
    - {from: orders, aggregate: {cents: "coalesce(sum(cents), 0)", of: "max(struct(cents, ms)).ms"}}
  - {name: to-activity, to: {topic: $T-activity}}
  - name: visits
    groupBy: [user]
    cogroup: [{from: clicks, aggregate: {clicks: count(*)}}, {from: orders, aggregate: {orders: count(*)}}]
    window: {session: 10s}
  - {name: to-visits, to: {topic: $T-visits}}
  - {name: per-user, from: orders, groupBy: [user], aggregate: {orders: count(*)}}
  - {name: levels, toStream: {}}
  - name: both
    groupBy: [user]
    cogroup: [{from: levels, aggregate: {highest: max(orders)}}, {from: clicks, aggregate: {clicks: count(*)}}]
  - {name: to-both, to: {topic: $T-both}}
"""


def test_each_aggregate_is_of_its_own_stream(kafka: KafkaConfig, tmp_path: Path) -> None:
    app = App(kafka, tmp_path, TOPOLOGY)
    app.create("clicks", "orders", partitions=2)
    users = ["a", "B", "b", "c"]
    clicks = [(users[i % 4], 10 * i % 97) for i in range(40)]
    orders = [(users[i % 3], 100 + i) for i in range(20)]
    for half in (0, 1):  # the second run goes on with the state of the first
        for topic, given in (("clicks", clicks), ("orders", orders)):
            middle = len(given) // 2
            for i, (user, number) in enumerate(given[middle:] if half else given[:middle]):
                row: dict[str, str | int] = {"user": user, "ms": number}
                if topic == "orders":
                    row = {"user": user, "cents": number, "ms": f"m{number}"}
                app.send(topic, (user, row, NOON + half * 60_000 + i * 100))
        app.send("clicks", ("a", None, NOON), ("a", {"user": None, "ms": 1}, NOON))  # no value, no group
        app.run()

    assert app.latest("activity") == {
        who: {
            "clicks": len(times),
            "slowest": max(times),
            "slow": sum(ms > 50 for ms in times),
            "cents": sum(cents),
            "of": f"m{max(cents)}" if cents else None,
        }
        for who in ("a", "b", "c")
        for times in [[ms for user, ms in clicks if user.lower() == who]]
        for cents in [[cents for user, cents in orders if user.lower() == who]]
    }
    visits = Counter((row["clicks"], row["orders"]) for row in app.latest("visits").values() if row)
    halves = [(clicks[:20], orders[:10]), (clicks[20:], orders[10:])]
    assert visits == Counter(
        (sum(one[0] == user for one in some), sum(one[0] == user for one in others))
        for user in users
        for some, others in halves
    )
    assert app.latest("both") == {
        user: {
            "highest": sum(one[0] == user for one in orders) or None,
            "clicks": sum(one[0] == user for one in clicks),
        }
        for user in users
    }


@pytest.mark.parametrize(
    ("was", "wrong", "said"),
    [
        (
            "max(ms)",
            "'sum(array(ms))'",
            "node 'activity': `cogroup.0.aggregate.slowest`: Cannot resolve \"sum(array(ms))\" due to data",
        ),
        (
            'schema: "user STRING, cents',
            'schema: "user INT, cents',
            "node 'visits': `groupBy`: `user` is string in one stream and int in another; cast one of them in a `with`",
        ),
    ],
)
def test_what_spark_cannot_make_sense_of_is_told_of_its_stream(
    kafka: KafkaConfig, tmp_path: Path, was: str, wrong: str, said: str
) -> None:
    app = App(kafka, tmp_path, TOPOLOGY.replace(was, wrong))
    app.create("clicks", "orders")
    with pytest.raises(ManifestError, match=re.escape(said)):
        app.run()


LATE = """
  - {name: clicks, stream: {topic: $T-clicks, value: {format: json, schema: "user STRING, page STRING, ms INT"}}}
  - {name: orders, stream: {topic: $T-orders, value: {format: json, schema: "user STRING, cents BIGINT, ms STRING"}}}
"""
LATE_OF = """
  - name: $N
    groupBy: [{user: lower(user)}]
    cogroup: [{from: clicks, aggregate: {clicks: count(*)}}, {from: orders, aggregate: {cents: sum(cents)}}]
    window: $W
    late: {topic: $T-late}
  - {name: $N-out, to: {topic: $T-$N}}
"""


def test_late_records_have_the_columns_of_their_own_stream(kafka: KafkaConfig, tmp_path: Path) -> None:
    """So do columns from which nothing is aggregated, and a column with the name of a group's column."""
    windows = (("hours", "{tumbling: 1 minute}"), ("visits", "{session: 5s}"), ("near", "{sliding: 5s}"))
    nodes = (LATE_OF.replace("$N", name).replace("$W", window) for name, window in windows)
    app = App(kafka, tmp_path, "".join((LATE, *nodes)))
    app.create("clicks", "orders")
    click = {"user": "Ann", "page": "/a", "ms": 1}
    order = {"user": "Ann", "cents": 7, "ms": "m"}
    for topic, row in (("clicks", click), ("orders", order)):
        app.send(topic, ("k", row, NOON + 600_000), ("late", {**row, "user": "Bob"}, NOON))
    app.run()
    found = [(dict(r.headers)["streamapp.node"], r.key, r.timestamp, r.value) for r in app.received("late")]
    assert sorted(found, key=str) == sorted(
        ((name, "late", NOON, {**row, "user": "Bob"}) for name, _ in windows for row in (click, order)), key=str
    )
    for name, _ in windows:
        rows = [row for row in app.table(name).values() if row["clicks"]]
        assert rows == [{"clicks": 1, "cents": 7}]
        assert app.statuses[-1]["subTopologies"][name]["lateRecords"] == 2
