# SPDX-License-Identifier: Apache-2.0
"""Joins of two tables by columns that are not the left one's key: how they are cut, what they keep, and which are
refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from streamapp.describe import explain_json, explain_mermaid, explain_text
from streamapp.nodes import StoredTable
from streamapp.operations import ForeignKeyJoin, TableJoin
from streamapp.plan import Plan

Compile = Callable[..., Plan]
Problems = Callable[..., list[str]]

ORDERS = '- {name: orders, table: {topic: orders, value: {format: json, schema: "customer STRING, amount BIGINT"}}}\n'
CUSTOMERS = '- {name: customers, table: {topic: customers, value: {format: json, schema: "city STRING"}}}\n'
PLACED = "- {name: placed, from: orders, join: {with: customers, by: [customer], MORE}}\n"
SELECT = "select: {amount: orders.amount, city: customers.city}"
OUT = "- {name: out, to: {topic: out}}\n"


def joined(more: str = SELECT, before: str = ORDERS + CUSTOMERS) -> str:
    return before + PLACED.replace("MORE", more) + OUT


def hops(plan: Plan) -> list[str]:
    return [topic.name for topic in plan.topics if topic.role == "repartition"]


def tasks(plan: Plan) -> dict[str, tuple[str, ...]]:
    return {part.name: part.stateful for part in plan.subtopologies}


def require_no_circle(plan: Plan) -> None:
    written: set[str] = set()
    for part in plan.subtopologies:
        assert part.reads_internally <= written
        written |= part.writes_internally


def test_rows_go_to_the_rows_that_they_name_and_results_come_back(plan: Compile) -> None:
    made = plan(joined())
    assert tasks(made) == {
        "orders": ("orders",),
        "customers": ("customers", "placed-left-joined"),
        "placed": ("placed",),
    }
    assert hops(made) == ["app-placed-left-repartition", "app-placed-repartition"]
    assert [store.name for store in made.stores] == ["orders", "customers", "placed-left", "placed"]
    assert Plan.from_json(made.to_json()) == made
    assert "inner, orders.customer = customers.key: amount = orders.amount, city = customers.city" in explain_text(made)
    assert "moves in" in explain_mermaid(made)
    assert '"operation": "foreign-key results"' in explain_json(made)


def test_names_follow_from_the_store(plan: Compile) -> None:
    made = plan(joined().replace("- {name: placed,", "- {name: placed, store: bought,"))
    assert hops(made) == ["app-bought-left-repartition", "app-bought-repartition"]
    assert [store.name for store in made.stores][2:] == ["bought-left", "bought"]


def test_the_result_is_a_table_of_the_left_key(plan: Compile) -> None:
    topology = plan(joined()).subtopology("placed").topology
    assert (topology.kind("placed"), topology.columns("placed").key) == ("TABLE", ("key",))
    assert topology.columns("placed").value == ("amount", "city")
    whole = plan(joined("type: left")).subtopology("placed").topology
    assert whole.columns("placed").value == ("customer", "amount", "city")


def test_the_results_can_be_asked_for_and_the_left_rows_not(plan: Compile) -> None:
    found: dict[str, StoredTable | None] = {}
    for part in plan(joined()).subtopologies:
        for node in part.nodes:
            columns = [part.topology.columns(name) for name in node.inputs]
            found |= {store: node.stored_table(store, columns) for store in node.stores}
    assert found["placed"] == StoredTable(("key",), ("amount", "city"), False)
    assert found["placed-left"] is None


@pytest.mark.parametrize(
    ("nodes", "copied"),
    [
        pytest.param(
            '- {name: staff, table: {topic: s, value: {format: json, schema: "boss STRING, name STRING"}}}\n'
            "- {name: x, from: staff, join: {with: staff, by: [boss], select: {own: left.name, boss: right.name}}}\n",
            True,
            id="a table with itself",
        ),
        pytest.param(
            ORDERS
            + CUSTOMERS
            + "- {name: both, from: orders, join: {with: customers, type: left}}\n"
            + "- {name: x, from: both, join: {with: customers, by: [customer], select: {to: customers.city}}}\n",
            True,
            id="tables that share a task",
        ),
        pytest.param(
            ORDERS
            + CUSTOMERS
            + "- {name: named, from: orders, filter: customer is not null}\n"
            + f"- {{name: x, join: {{with: customers, by: [customer], {SELECT.replace('orders', 'named')}}}}}\n",
            False,
            id="a table that is filtered",
        ),
    ],
)
def test_a_task_does_not_read_what_it_writes(plan: Compile, nodes: str, copied: bool) -> None:
    made = plan(nodes + OUT)
    require_no_circle(made)
    assert ("app-x-right-repartition" in hops(made)) is copied


def test_a_computed_left_table_is_kept_so_that_what_was_is_known(plan: Compile) -> None:
    counted = "- {name: counted, from: orders, groupBy: [customer], aggregate: {total: sum(amount)}}\n"
    counted += "- {name: named, with: {region: \"concat('r', total % 3)\"}}\n"
    made = plan(
        ORDERS + CUSTOMERS + counted + PLACED.replace("[customer], MORE", "[region]").replace("orders", "named")
    )
    require_no_circle(made)
    assert hops(made) == [
        "app-counted-repartition",
        "app-placed-left-rows-repartition",
        "app-placed-left-repartition",
        "app-placed-repartition",
    ]


def test_the_result_is_read_as_any_other_table(plan: Compile) -> None:
    more = "- {name: cities, from: placed, groupBy: [city], aggregate: {many: count(*)}}\n"
    more += "- {name: again, from: placed, join: {with: orders, select: {city: placed.city, who: orders.customer}}}\n"
    more += "- {name: again-out, to: {topic: again}}\n"
    more += "- {name: twice, from: placed, join: {with: customers, by: [city], select: {to: customers.city}}}\n"
    made = plan(joined() + more)
    require_no_circle(made)
    assert "app-again-right-repartition" in hops(made), "orders' task writes what this one reads"
    assert tasks(made)["customers"] == ("customers", "placed-left-joined")


def test_pairs_of_columns_are_in_the_order_of_the_key(plan: Compile) -> None:
    shops = "- {name: shops, table: {topic: s, key: {format: json, schema: 'z STRING, a STRING'}, value: text}}\n"
    shops += "- {name: by-place, from: shops, groupBy: [{z: key.z}, {a: key.a}], aggregate: {many: count(*)}}\n"
    left = '- {name: orders, table: {topic: o, value: {format: json, schema: "a STRING, b STRING"}}}\n'
    made = plan(shops + left + "- {name: x, from: orders, join: {with: by-place, match: {a: a, b: z}}}\n" + OUT)
    rows = next(node for part in made.subtopologies for node in part.nodes if node.name == "x-left-joined")
    assert isinstance(rows, ForeignKeyJoin)
    assert (rows.by, rows.match) == (("b", "a"), ("z", "a"))


def test_a_join_by_the_left_key_is_none(plan: Compile) -> None:
    counted = "- {name: counted, from: orders, groupBy: [customer], aggregate: {total: sum(amount)}}\n"
    placed = PLACED.replace("MORE", "type: left").replace("from: orders", "from: counted")
    made = plan(ORDERS + CUSTOMERS + counted + placed + OUT)
    nodes = {node.name: node for part in made.subtopologies for node in part.nodes}
    assert type(nodes["placed"]) is TableJoin


@pytest.mark.parametrize(
    ("join", "said"),
    [
        (
            "with: customers, by: [custmer]",
            "`join.by`: unknown column `custmer`; did you mean `customer`?",
        ),
        (
            f"with: customers, by: [customer], type: outer, {SELECT}",
            "`join.type`: an outer join by `customer`: a row of 'customers' that no row of 'orders' names has no key "
            "in the result; write left, or inner; or group 'orders' by `customer` before",
        ),
        (
            f"with: customers, match: {{customer: city}}, {SELECT}",
            "`join.match`: rows of the table 'customers' are found by its key, the record's own key, and not by "
            "`city`; group 'customers' by `city` before, or name its key",
        ),
        (
            f"with: customers, by: [customer, amount], {SELECT}",
            "`join.by`: `customer`, `amount` of 'orders' does not match the key of 'customers', the record's own key "
            '(in "customer, amount"); '
            "name as many columns, or give 'customers' another key with a `keyBy` node",
        ),
        (
            f"with: customers, by: [customer], grace: 5s, {SELECT}",
            "`join.grace`: `grace` is for joins whose records wait: of two streams, or of a stream with a table and",
        ),
        (
            "with: customers, by: [customer], select: {r: rand()}",
            "is not deterministic: a row that is computed again",
        ),
    ],
)
def test_what_cannot_be_joined_is_refused(problems: Problems, join: str, said: str) -> None:
    found = problems(ORDERS + CUSTOMERS + f"- {{name: x, from: orders, join: {{{join}}}}}\n" + OUT)
    assert len(found) == 1
    assert said in found[0]


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("name: placed,", "name: bought, store: placed,", True),
        ("topic: orders", "topic: other", True),
        ("by: [customer]", "by: [customer], type: left", False),
        ("orders.amount", "orders.amount + 1", False),
        ("customer STRING, amount", "customer STRING, more INT, amount", False),
        ("customer STRING", "customer INT", False),
    ],
)
def test_what_the_stores_hold_is_on_record(plan: Compile, old: str, new: str, same: bool) -> None:
    def shapes(text: str) -> list[str]:
        return [store.fingerprint for store in plan(text).stores if store.name.startswith("placed")]

    changed = joined().replace(old, new)
    assert changed != joined()
    assert (shapes(changed) == shapes(joined())) is same
