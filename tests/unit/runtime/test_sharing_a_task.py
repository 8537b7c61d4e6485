# SPDX-License-Identifier: Apache-2.0
"""Stateful nodes of one key share a task; input that cannot share it comes by internal topics, and never in a
circle."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from streamapp.compile.tasks import Tasks
from streamapp.describe.words import of_stores
from streamapp.nodes import RepartitionSink, RepartitionSource
from streamapp.operations import Stream, Table
from streamapp.plan import Plan, SubTopology
from streamapp.succession import predecessors_in, refusals

Compile = Callable[[str], Plan]

USERS = '- {name: users, table: {topic: users, value: {format: json, schema: "name STRING, city STRING"}}}\n'
ORDERS = '- {name: orders, stream: {topic: orders, value: {format: json, schema: "user STRING, amount BIGINT"}}}\n'
ENRICHED = "- {name: enriched, from: orders, join: {with: users, by: [user], SELECT}}\n".replace(
    "SELECT", "select: {amount: orders.amount, city: users.city}"
)
SPENT = "- {name: spent, from: orders, groupBy: [user], aggregate: {total: sum(amount)}}\n"
# A function of the author's between the groups and the nodes that look them up.
COMPUTED = SPENT.replace("name: spent", "name: sums")
COMPUTED += "- {name: spent, python: {function: 'm:f', schema: 'total BIGINT'}}\n"
OUT = "- {name: out, from: LAST, to: {topic: o}}\n"


def hops(plan: Plan) -> list[str]:
    return [topic.name for topic in plan.topics if topic.role == "repartition"]


def part_of(plan: Plan, node: str) -> SubTopology:
    return next(part for part in plan.subtopologies if node in part.stateful)


def require_no_circle(plan: Plan) -> None:
    """Raises unless each sub-topology reads only topics that an earlier one has written."""
    written: set[str] = set()
    for part in plan.subtopologies:
        assert part.reads_internally <= written
        written |= part.writes_internally


def test_groups_and_windows_behind_a_join_are_in_its_task(plan: Compile) -> None:
    """They are there if they go by its key; a node that reads the table of windows is in another task."""
    late = "late: {topic: lates}, "
    last = "- {name: last, from: enriched, filter: amount > 0}\n"
    for name, more in (
        ("all", ""),
        ("hourly", f"window: {{tumbling: 1 hour}}, {late}"),
        ("visits", "window: {session: 1 hour}, emit: final, "),
        ("near", "window: {sliding: 1 hour}, "),
    ):
        last += f"- {{name: {name}, from: last, groupBy: [key], {more}aggregate: {{total: sum(amount)}}}}\n"
        last += f"- {{name: {name}-out, from: {name}, to: {{topic: {name}}}}}\n"
    keyed = ENRICHED.replace("by: [user], ", "")
    made = plan(USERS + ORDERS + keyed + last)
    (part,) = made.subtopologies
    assert part.stores == ("users", "all", "hourly", "visits", "near")
    assert hops(made) == []
    assert part.timed
    other = plan(USERS + ORDERS + keyed + last.replace("groupBy: [key]", "groupBy: [city]"))
    assert len(hops(other)) == 4


def test_what_goes_by_a_key_once_goes_on_in_its_task(plan: Compile) -> None:
    keyed = ENRICHED.replace("by: [user], ", "")
    once = "- {name: once, deduplicate: {by: [key], within: 1 hour}}\n"
    count = "- {name: counts, groupBy: [key], aggregate: {found: count(*)}}\n" + OUT.replace("LAST", "counts")
    (part,) = plan(USERS + ORDERS + keyed + once + count).subtopologies
    assert part.stores == ("users", "once", "counts")
    apart = plan(USERS + ORDERS + keyed + once.replace("[key]", "[amount]") + count)
    assert [part.stores for part in apart.subtopologies] == [("users",), ("once",), ("counts",)]


PAYMENTS = '- {name: payments, stream: {topic: payments, value: {format: json, schema: "paid BIGINT"}}}\n'


def test_pairs_are_in_the_task_of_their_key(plan: Compile) -> None:
    """Tables that their sides look up before the join, and groups of them behind it, are in that task too."""
    enriched = ENRICHED.replace("by: [user], ", "").replace(
        "city: users.city", "city: users.city, time: orders.timestamp"
    )
    pairs = "- {name: pairs, join: {with: payments, within: 1 hour, type: left, select: {paid: payments.paid}}}\n"
    count = "- {name: counts, groupBy: [key], window: {tumbling: 1 day}, aggregate: {found: count(paid)}}\n"
    made = plan(USERS + ORDERS + PAYMENTS + enriched + pairs + count + OUT.replace("LAST", "counts"))
    (part,) = made.subtopologies
    assert part.stores == ("users", "pairs", "counts")
    assert hops(made) == []


def test_a_side_of_another_key_comes_by_a_topic(plan: Compile) -> None:
    by_city = "- {name: pairs, from: enriched, join: {with: payments, match: {city: key}, within: 1 hour, "
    by_city += "select: {paid: payments.paid}}}\n"
    made = plan(USERS + ORDERS + PAYMENTS + ENRICHED + by_city + OUT.replace("LAST", "pairs"))
    assert [part.stores for part in made.subtopologies] == [("users",), ("pairs",)]
    assert hops(made) == ["app-pairs-left-repartition"]


def test_a_stream_joined_with_itself_is_read_once(plan: Compile) -> None:
    twice = "- {name: pairs, from: orders, join: {with: orders, within: 1 hour, select: {MORE}}}\n"
    made = plan(
        ORDERS + twice.replace("MORE", "first: left.amount, second: right.amount") + OUT.replace("LAST", "pairs")
    )
    (part,) = made.subtopologies
    assert (part.name, [node.name for node in part.nodes if node.source]) == ("pairs", ["orders"])
    # Behind a join by its key, the records go by the key of one side alone.
    chosen = twice.replace("orders, join: {with: orders", "enriched, join: {with: enriched, match: {city: key}")
    keyed = ENRICHED.replace("by: [user], ", "")
    made = plan(USERS + ORDERS + keyed + chosen.replace("MORE", "first: left.amount") + OUT.replace("LAST", "pairs"))
    assert [part.stores for part in made.subtopologies] == [("users",), ("pairs",)]


def test_what_reads_windows_reads_them_by_a_topic(plan: Compile) -> None:
    """Their key has a window in it, and the task of their input does not go by that."""
    windows = "- {name: hourly, from: enriched, groupBy: [key], window: {tumbling: 1 hour}, emit: final, "
    windows += "aggregate: {total: sum(amount)}}\n- {name: large, from: hourly, filter: total > 10}\n"
    again = "- {name: changes, toStream: {}}\n- {name: days, groupBy: [key], window: {tumbling: 1 day}, "
    again += "aggregate: {hours: count(*)}}\n"
    made = plan(USERS + ORDERS + ENRICHED.replace("by: [user], ", "") + windows + again + OUT.replace("LAST", "days"))
    first, second = made.subtopologies
    assert first.task == ("users", "enriched", "hourly")
    assert second.stores == ("days",)
    (source,) = (node for node in second.nodes if isinstance(node, RepartitionSource))
    assert (source.written_by, source.writers_lag_ms) == ("users", 3_600_000)


def test_joins_and_tables_of_one_key_are_one_task_without_a_topic(plan: Compile) -> None:
    clicks = '- {name: clicks, table: {topic: clicks, value: {format: json, schema: "n BIGINT"}}}\n'
    both = "- {name: active, from: users, filter: city is not null}\n"
    both += "- {name: profile, from: active, join: {with: clicks, type: outer}}\n"
    twice = "- {name: twice, from: orders, join: {with: profile, by: [user], type: left}}\n"
    out = "- {name: first, from: enriched, to: {topic: first}}\n" + OUT.replace("LAST", "twice")
    made = plan(USERS + ORDERS + clicks + ENRICHED + both + twice + out)
    (part,) = made.subtopologies
    assert part.name == "users"
    assert set(part.stateful) == {"users", "clicks", "enriched", "profile", "twice"}
    assert set(part.task) == {*part.stateful, "active"}
    assert part.stores == ("users", "clicks")
    assert hops(made) == []


def test_a_stream_goes_on_in_the_task_only_where_a_join_behind_it_needs_it(plan: Compile) -> None:
    big = "- {name: big, filter: amount > 3}\n"
    made = plan(USERS + ORDERS + ENRICHED + big + OUT.replace("LAST", "big"))
    assert made.subtopologies[0].task == ("users", "enriched")
    again = "- {name: again, from: big, join: {with: users, select: {amount: big.amount, name: users.name}}}\n"
    made = plan(USERS + ORDERS + ENRICHED + big + again + OUT.replace("LAST", "again"))
    assert made.subtopologies[0].task == ("users", "enriched", "big", "again")
    assert hops(made) == []


def test_a_table_goes_on_in_the_task_so_that_its_deletions_are_those_of_rows_that_were(plan: Compile) -> None:
    berlin = "- {name: berlin, from: users, filter: city = 'Berlin'}\n- {name: named, select: {n: name}}\n"
    made = plan(USERS + berlin.replace("{n:", "{'n':") + OUT.replace("LAST", "named"))
    assert made.subtopologies[0].task == ("users", "berlin", "named")


@pytest.mark.parametrize(
    "between",
    [
        "- {name: mine, from: orders, with: {r: rand()}}\n",
        "- {name: mine, from: orders, python: {function: 'm:f', schema: 'user STRING, amount BIGINT'}}\n",
    ],
)
def test_what_cannot_be_repeated_is_written_down_before_a_join(plan: Compile, between: str) -> None:
    made = plan(USERS + ORDERS + between + ENRICHED.replace("orders", "mine") + OUT.replace("LAST", "enriched"))
    assert hops(made) == ["app-enriched-left-repartition"]
    assert "enriched-left-repartition-source" in [node.name for node in part_of(made, "enriched").nodes]


def test_a_join_by_another_key_is_behind_a_topic(plan: Compile) -> None:
    cities = "- {name: cities, table: {topic: cities, value: {format: json, schema: 'size INT'}}}\n"
    located = "- {name: located, from: enriched, join: {with: cities, by: [city], select: {size: cities.size}}}\n"
    made = plan(USERS + ORDERS + ENRICHED + cities + located + OUT.replace("LAST", "located"))
    assert [part.name for part in made.subtopologies] == ["users", "cities"]
    assert hops(made) == ["app-located-left-repartition"]
    require_no_circle(made)


def test_groups_that_are_looked_up_share_the_task(plan: Compile) -> None:
    profile = "- {name: profile, from: users, join: {with: spent, type: left}}\n"
    busy = "- {name: busy, from: spent, filter: total > 9}\n"
    told = "- {name: told, from: orders, join: {with: busy, by: [user], select: {a: orders.amount, b: busy.total}}}\n"
    out = OUT.replace("LAST", "profile")
    made = plan(USERS + ORDERS + SPENT + busy + told + "- {name: more, to: {topic: more}}\n" + profile + out)
    assert [(part.name, part.stores) for part in made.subtopologies] == [("users", ("users", "spent"))]
    assert hops(made) == []
    alone = plan(ORDERS + SPENT + OUT.replace("LAST", "spent"))
    assert alone.subtopologies[0].task == (), "no node of its key needs it: its records are combined before the shuffle"


def test_groups_of_what_a_task_gives_by_their_key_stay_in_it(plan: Compile) -> None:
    last = "- {name: last, groupBy: [COLUMN], aggregate: {town: last(city)}}\n"
    by_user = plan(USERS + ORDERS + ENRICHED + last.replace("COLUMN", "user") + OUT.replace("LAST", "last"))
    assert [part.stores for part in by_user.subtopologies] == [("users", "last")]
    for other in ("city", "{user: upper(user)}"):
        made = plan(USERS + ORDERS + ENRICHED + last.replace("COLUMN", other) + OUT.replace("LAST", "last"))
        assert [part.stores for part in made.subtopologies] == [("users",), ("last",)]
        assert hops(made) == ["app-last-repartition"]
        require_no_circle(made)


def test_a_computed_table_comes_by_a_topic_and_is_kept_where_it_is_looked_up(plan: Compile) -> None:
    profile = "- {name: profile, from: users, join: {with: spent, type: left}}\n"
    made = plan(USERS + ORDERS + COMPUTED + profile + OUT.replace("LAST", "profile"))
    assert [(part.name, part.stores) for part in made.subtopologies] == [
        ("sums", ("sums",)),
        ("users", ("users", "profile-right")),
    ]
    store = made.store("profile-right")
    assert (store.node, store.changelog_topic) == ("profile-right-table", "app-profile-right-changelog")
    assert hops(made) == ["app-profile-right-repartition"]


def test_a_fingerprint_of_a_kept_table_is_of_what_it_is_made_of(plan: Compile) -> None:
    profile = "- {name: profile, from: users, join: {with: spent, type: left, select: {x: spent.total}}}\n"
    one, same, other = (
        plan(USERS + ORDERS + text + profile + OUT.replace("LAST", "profile")).store("profile-right").fingerprint
        for text in (
            COMPUTED,
            COMPUTED.replace("sum(amount)", "SUM(amount)"),
            COMPUTED.replace("[user]", "[{user: lower(user)}]"),
        )
    )
    assert one == same
    assert one != other


def test_groups_of_a_table_get_what_each_row_was(plan: Compile) -> None:
    made = plan(
        USERS + "- {name: cities, groupBy: [city], aggregate: {many: count(*)}}\n" + OUT.replace("LAST", "cities")
    )
    assert [part.name for part in made.subtopologies] == ["users", "cities"]
    (sink,) = [node for part in made.subtopologies for node in part.nodes if isinstance(node, RepartitionSink)]
    (source,) = [node for part in made.subtopologies for node in part.nodes if isinstance(node, RepartitionSource)]
    assert (sink.signed, source.signed, source.kind) == (True, True, "TABLE")


def test_groups_of_groups_know_what_each_row_was(plan: Compile) -> None:
    rich = "- {name: rich, from: spent, groupBy: [{level: total div 100}], aggregate: {many: count(*)}}\n"
    made = plan(ORDERS + SPENT + rich + OUT.replace("LAST", "rich"))
    assert [(part.name, part.stores) for part in made.subtopologies] == [("spent", ("spent",)), ("rich", ("rich",))]
    assert hops(made) == ["app-rich-repartition"]


def test_groups_of_a_computed_table_know_its_rows_by_a_table_of_ours(plan: Compile) -> None:
    rich = "- {name: rich, from: spent, groupBy: [{level: total div 100}], aggregate: {many: count(*)}}\n"
    made = plan(ORDERS + COMPUTED + rich + OUT.replace("LAST", "rich"))
    assert [(part.name, part.stores) for part in made.subtopologies] == [
        ("sums", ("sums",)),
        ("rich-rows", ("rich-rows",)),
        ("rich", ("rich",)),
    ]
    assert hops(made) == ["app-rich-rows-repartition", "app-rich-repartition"]


def test_no_task_reads_what_it_writes(plan: Compile) -> None:
    """The table's own groups, looked up by the table's key: in one task they would wait for each other."""
    cities = "- {name: cities, from: users, groupBy: [{key: city}], aggregate: {many: count(*)}}\n"
    both = (
        "- {name: both, from: users, join: {with: cities, type: left, select: {city: users.city, many: cities.many}}}\n"
    )
    made = plan(USERS + cities + both + OUT.replace("LAST", "both"))
    require_no_circle(made)
    assert part_of(made, "users") is not part_of(made, "both")
    assert part_of(made, "both").stores == ("both-left", "both-right")


def test_no_task_reads_what_it_writes_by_a_stream(plan: Compile) -> None:
    changes = "- {name: changes, from: users, toStream: {}}\n- {name: named, keyBy: [name]}\n"
    found = "- {name: found, from: named, join: {with: users, select: {a: named.city, b: users.city}}}\n"
    made = plan(USERS + changes + found + OUT.replace("LAST", "found"))
    require_no_circle(made)
    assert part_of(made, "users") is not part_of(made, "found")


def test_dead_letters_of_a_table_are_read_beside_it(plan: Callable[..., Plan]) -> None:
    made = plan(USERS + OUT.replace("LAST", "users"), "onBadRecord: {deadLetter: bad}")
    nodes = {part.name: [type(node) for node in part.nodes if node.source] for part in made.subtopologies}
    assert nodes == {"users": [Table], "users-dead-letter": [Stream]}


def test_tasks_become_one_unless_one_reads_the_other() -> None:
    tasks = Tasks()
    tasks.unite(["a"], "b")
    assert tasks.whole("a") == tasks.whole("b")
    tasks.feed("b", "c")
    assert tasks.leads("a", "c")
    assert not tasks.leads("c", "a")
    assert not tasks.may_unite(["a", "c"], [])
    assert not tasks.may_unite(["a"], ["c"])
    assert tasks.may_unite(["c"], ["a"])
    tasks.feed("c", "d")
    assert not tasks.may_unite(["a", "d"], [])


def refused(before: Plan, after: Plan) -> list[str]:
    return [one.words for one in refusals(after, predecessors_in(before, of_stores(before)), of_stores(after))]


def test_sources_that_a_task_has_not_read_may_come_to_it(plan: Compile) -> None:
    """A node that comes to a task whose topics have been read would have missed the records before."""
    out = OUT.replace("LAST", "users")
    alone = plan(USERS + out)
    with_a_stream = plan(USERS + out + ORDERS + ENRICHED + "- {name: more, to: {topic: more}}\n")
    places = "- {name: places, table: {topic: places}}\n- {name: both, from: users, join: {with: places}}\n"
    with_a_table = plan(USERS + out + places + "- {name: more, to: {topic: more}}\n")
    for after in (alone, with_a_stream, with_a_table):
        assert part_of(after, "users") == after.subtopologies[0]
        assert refused(alone, after) == []
        assert refused(after, alone) == []
    keyed = ENRICHED.replace("by: [user], ", "")
    again = "- {name: again, from: orders, join: {with: enriched, within: 1 min, select: {sum: orders.amount}}}\n"
    before = plan(USERS + ORDERS + keyed + "- {name: out, to: {topic: o}}\n")
    after = plan(USERS + ORDERS + keyed + again + "- {name: out, to: {topic: o}}\n")
    assert part_of(after, "again") == part_of(after, "users")
    assert [
        "store 'again' (node 'again') is new, and would share its task with users" in words
        for words in refused(before, after)
    ] == [True]


def test_a_store_does_not_go_to_another_task(plan: Compile) -> None:
    places = "- {name: places, table: {topic: places}}\n- {name: both, from: users, join: {with: places}}\n"
    before = plan(
        places.replace("from: users", "from: people")
        + USERS.replace("name: users", "name: people")
        + OUT.replace("LAST", "both")
    )
    after = plan(
        USERS.replace("name: users", "name: people")
        + places.replace("from: users", "from: people")
        + OUT.replace("LAST", "both")
    )
    assert [part.name for part in (*before.subtopologies, *after.subtopologies)] == ["places", "people"]
    assert ["shares its task with other nodes than before" in words for words in refused(before, after)] == [True]


def test_what_reads_its_task_alone_may_come_later(plan: Compile) -> None:
    """Such a node begins empty, and gets the records of the task's other nodes from then on."""
    keyed = ENRICHED.replace("by: [user], ", "")
    before = plan(USERS + ORDERS + keyed + "- {name: out, to: {topic: o}}\n")
    groups = (
        "- {name: some, from: enriched, filter: amount > 0}\n"
        "- {name: all, from: some, groupBy: [key], aggregate: {total: sum(amount)}}\n"
        "- {name: last, from: enriched, toTable: {}}\n"
    )
    after = plan(USERS + ORDERS + keyed + groups + "- {name: out, to: {topic: o}}\n")
    assert part_of(after, "all") == part_of(after, "users")
    assert refused(before, after) == []
    assert refused(after, before) == []
    more = "- {name: more, stream: {topic: p}}\n- {name: pairs, from: enriched, join: {with: more, within: 1 min}}\n"
    pairs = plan(USERS + ORDERS + keyed + more + "- {name: out, to: {topic: o}}\n")
    assert part_of(pairs, "pairs") == part_of(pairs, "users")
    assert refused(before, pairs) == []


def test_another_form_of_one_of_several_stores_is_refused(plan: Compile) -> None:
    places = (
        "- {name: places, table: {topic: places}}\n- {name: both, from: users, join: {with: places}}\n"
        + OUT.replace("LAST", "both")
    )
    one, two = plan(USERS + places), plan(USERS + places.replace("{topic: places}", "{topic: places, value: long}"))
    (words,) = refused(one, two)
    assert words.startswith(
        "store 'places' (node 'places', changelog app-places-changelog) holds state that would mean"
    )
    assert refused(one, one) == []
