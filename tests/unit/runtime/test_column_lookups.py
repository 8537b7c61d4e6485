# SPDX-License-Identifier: Apache-2.0
"""Lookups of a global table's rows by other columns than its key: how they are cut, what they keep, and which are
refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from streamapp.describe import explain_json, explain_text
from streamapp.nodes import STREAM
from streamapp.operations import ColumnLookup, TableJoin
from streamapp.plan import Plan

Compile = Callable[..., Plan]
Problems = Callable[..., list[str]]

SHOPS = '- {name: shops, globalTable: {topic: shops, value: {format: json, schema: "city STRING, size INT"}}}\n'
SALES = '- {name: sales, stream: {topic: sales, value: {format: json, schema: "town STRING, size INT"}}}\n'
NEAR = "- {name: near, from: sales, join: {with: shops, match: {town: city}, MORE}}\n"
SELECT = "select: {shop: shops.key, wanted: sales.size, size: shops.size}"
OUT = "- {name: out, to: {topic: out}}\n"


def near(more: str = SELECT, before: str = SHOPS + SALES) -> str:
    return before + NEAR.replace("MORE", more) + OUT


def tasks(plan: Plan) -> dict[str, tuple[str, ...]]:
    return {part.name: part.stateful for part in plan.subtopologies}


def hops(plan: Plan) -> list[str]:
    return [topic.name for topic in plan.topics if topic.role == "repartition"]


def test_the_tables_changes_go_to_the_columns(plan: Compile) -> None:
    made = plan(near())
    assert tasks(made) == {"shops": ("shops",), "near": ("near",)}
    assert hops(made) == ["app-near-right-repartition"]
    assert [store.name for store in made.stores] == ["shops", "near"]
    assert Plan.from_json(made.to_json()) == made
    assert "inner, sales.town = shops.city, keeps its key: shop = shops.key" in explain_text(made)
    assert '"operation": "lookup by columns"' in explain_json(made)


def test_names_follow_from_the_store(plan: Compile) -> None:
    made = plan(near().replace("- {name: near,", "- {name: near, store: by-city,"))
    assert hops(made) == ["app-by-city-right-repartition"]
    assert [store.name for store in made.stores] == ["shops", "by-city"]


def test_the_result_is_a_stream_of_the_records_key(plan: Compile) -> None:
    topology = plan(near()).subtopology("near").topology
    assert (topology.kind("near"), topology.columns("near").key) == (STREAM, ("key",))
    assert topology.columns("near").value == ("shop", "size", "wanted")


def test_one_by_the_tables_key_is_none(plan: Compile) -> None:
    made = plan(near().replace("town: city", "town: key"))
    nodes = {node.name: node for part in made.subtopologies for node in part.nodes}
    assert type(nodes["near"]) is TableJoin
    assert hops(made) == []


def test_columns_beside_the_key_are_columns(plan: Compile) -> None:
    """They are in the order of the table's names."""
    made = plan(near().replace("town: city", "a: size, town: city").replace("size INT", "a INT, size INT"))
    nodes = {node.name: node for part in made.subtopologies for node in part.nodes}
    assert isinstance(nodes["near"], ColumnLookup)
    assert (nodes["near"].by, nodes["near"].match) == (("town", "a"), ("city", "size"))


def test_what_goes_by_these_columns_already_is_in_the_task(plan: Compile) -> None:
    towns = "- {name: towns, table: {topic: towns, value: text}}\n"
    known = "- {name: known, from: sales, join: {with: towns, by: [town], select: {size: sales.size}}}\n"
    looked_up = NEAR.replace("from: sales", "from: known").replace("MORE", "select: {shop: shops.key}")
    made = plan(SHOPS + SALES + towns + known + looked_up + OUT)
    assert tasks(made) == {"shops": ("shops",), "towns": ("towns", "known", "near")}
    assert hops(made) == ["app-near-right-repartition"]


def test_a_reader_of_the_result_by_a_key_reads_by_a_topic(plan: Compile) -> None:
    counts = "- {name: counts, from: near, groupBy: [shop], aggregate: {many: count(*)}}\n"
    made = plan(near() + counts + "- {name: counts-out, to: {topic: counts}}\n")
    assert hops(made) == ["app-near-right-repartition", "app-counts-repartition"]


def test_rows_that_are_changed_on_the_way_are_found_too(plan: Compile) -> None:
    large = "- {name: large, from: shops, filter: size > 3}\n"
    looked_up = NEAR.replace("shops", "large").replace("MORE", "select: {shop: large.key}")
    made = plan(SHOPS + large + SALES + looked_up + OUT)
    assert tasks(made)["near"] == ("near",)


@pytest.mark.parametrize(
    ("join", "said"),
    [
        (f"match: {{town: cty}}, {SELECT}", "`join.match`: unknown column `cty`; did you mean `city`?"),
        (
            f"match: {{town: city}}, asOf: true, {SELECT}",
            "`join.asOf`: earlier versions of the rows of 'shops' are found by its key, and not by `city`; remove "
            "`asOf`, or match the table's key",
        ),
        (
            f"match: {{town: city}}, grace: 5s, {SELECT}",
            "`join.grace`: `grace` is for joins whose records wait: of two streams, or of a stream with a table and",
        ),
        (
            f"match: {{town: city}}, type: outer, {SELECT}",
            "`join.type`: an outer join of a stream with a table: a row of 'shops' gives no result by itself",
        ),
        ("match: {town: city}", "`join.select`: both sides have `size`"),
        ("match: {town: city}, select: {r: rand()}", "is not deterministic: a row that is computed again"),
    ],
)
def test_what_cannot_be_looked_up_is_refused(problems: Problems, join: str, said: str) -> None:
    found = problems(SHOPS + SALES + f"- {{name: near, from: sales, join: {{with: shops, {join}}}}}\n" + OUT)
    assert len(found) == 1
    assert said in found[0]


def test_of_another_table_it_is_refused_and_a_global_one_advised(problems: Problems) -> None:
    (found,) = problems(near().replace("globalTable", "table"))
    assert (
        "`join.match`: rows of the table 'shops' are found by its key, the record's own key, and not by `city`; read "
        "its topic as a `globalTable`, whose rows a stream finds by any columns, or name its key"
    ) in found


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("name: near,", "name: close, store: near,", True),
        ("match: {town: city}", "match: {town: city}, type: left", True),
        ("wanted: sales.size", "wanted: sales.size + 1", True),
        ("topic: sales", "topic: other", True),
        ("city STRING, size INT", "city STRING, more INT, size INT", False),
        ("match: {town: city}", "match: {town: city, size: size}", False),
    ],
)
def test_what_the_store_holds_is_on_record(plan: Compile, old: str, new: str, same: bool) -> None:
    def shape(text: str) -> list[str]:
        return [store.fingerprint for store in plan(text).stores if store.name == "near"]

    changed = near().replace(old, new)
    assert changed != near()
    assert (shape(changed) == shape(near())) is same
