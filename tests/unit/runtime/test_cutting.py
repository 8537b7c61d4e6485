# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E501 (manifests and messages are whole lines)
"""The places where a topology is cut into sub-topologies, and those where it is not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from streamapp.errors import ManifestError
from streamapp.nodes import Columns, RepartitionSource
from streamapp.operations import Join
from streamapp.plan import Plan, SubTopology

Compile = Callable[..., Plan]

IN = "- {name: in, stream: {topic: t, value: {format: json, schema: 'user STRING, amount DOUBLE'}}}\n"
OTHER = "- {name: other, stream: {topic: u, value: {format: json, schema: 'user STRING, paid DOUBLE'}}}\n"
PAIR = IN + OTHER + "- {name: l, from: in, keyBy: [user]}\n- {name: r, from: other, keyBy: [user]}\n"
JOINED = PAIR + "- {name: joined, from: l, join: {with: r, within: 5s}}\n"
COUNT = "groupBy: [user], aggregate: {'n': count(*)}"
BY_AMOUNT = COUNT.replace("user", "amount")
"""A count by another key than that of the pairs."""


def parts(plan: Plan) -> dict[str, list[str]]:
    return {part.name: [node.name for node in part.nodes] for part in plan.subtopologies}


def test_one_shuffle_is_one_query(plan: Compile) -> None:
    made = plan(
        IN + f"- {{name: table, {COUNT}}}\n- {{name: more, with: {{m: n + 1}}}}\n- {{name: out, to: {{topic: o}}}}"
    )
    assert parts(made) == {"table": ["in", "table", "more", "out"]}
    assert made.subtopologies[0] == SubTopology(
        "table", made.subtopologies[0].nodes, ("table",), (), "update", ("table",)
    )


def test_the_name_of_a_query_is_that_of_its_store(plan: Compile) -> None:
    written = PAIR + "- {name: FIRST, from: l, join: {with: r, within: 5s}, store: pairs}\n"
    written += f"- {{name: SECOND, from: FIRST, {BY_AMOUNT}, store: users}}\n- {{name: out, to: {{topic: o}}}}"
    made = [plan(written.replace("FIRST", one).replace("SECOND", two)) for one, two in (("a", "b"), ("c", "d"))]
    assert [[part.name for part in one.subtopologies] for one in made] == [["pairs", "users"]] * 2
    assert made[0].topics == made[1].topics
    assert [topic.name for topic in made[0].topics if topic.role == "repartition"] == ["app-users-repartition"]


def test_a_store_is_not_named_like_a_query_without_state(problems: Callable[..., list[str]]) -> None:
    said = problems("""
        - {name: in, stream: {topic: t}}
        - {name: copy, to: {topic: c, value: text}}
        - {name: counts, from: in, groupBy: [value], aggregate: {'n': count(*)}, store: in}
        - {name: out, to: {topic: o}}
        """)
    assert len(said) == 1
    assert "store 'in' is also the name of a node" in said[0]
    assert said[0].startswith("node 'counts'")


def test_several_sinks_of_a_table_are_written_by_one_query(plan: Compile) -> None:
    made = plan(
        IN + f"- {{name: table, {COUNT}}}\n- {{name: a, to: {{topic: a}}}}\n"
        "- {name: big, from: table, filter: n > 9}\n- {name: b, to: {topic: b}}"
    )
    assert parts(made) == {"table": ["in", "table", "a", "big", "b"]}


def test_sinks_without_state_share_a_query_when_they_share_a_source(plan: Compile) -> None:
    made = plan(
        IN + OTHER + "- {name: third, stream: {topic: v}}\n"
        "- {name: a, from: in, to: {topic: a}}\n- {name: b, from: other, to: {topic: b}}\n"
        "- {name: c, from: third, to: {topic: c}}\n"
        "- {name: s, from: in, select: {user: user}}\n- {name: s2, from: other, select: {user: user}}\n"
        "- {name: m, merge: [s, s2]}\n- {name: d, to: {topic: d}}"
    )
    assert {name: set(nodes) for name, nodes in parts(made).items()} == {
        "in": {"in", "other", "a", "b", "s", "s2", "m", "d"},
        "third": {"third", "c"},
    }


def test_a_source_of_both_is_read_by_both(plan: Compile) -> None:
    made = plan(
        IN
        + f"- {{name: raw, to: {{topic: raw}}}}\n- {{name: table, from: in, {COUNT}}}\n- {{name: out, to: {{topic: o}}}}"
    )
    assert parts(made) == {"in": ["in", "raw"], "table": ["in", "table", "out"]}


def test_state_after_state_goes_through_a_topic(plan: Compile) -> None:
    made = plan(
        JOINED
        + f"- {{name: big, filter: amount > 1}}\n- {{name: table, {BY_AMOUNT}}}\n- {{name: out, to: {{topic: o}}}}"
    )
    assert parts(made) == {
        "joined": ["in", "l", "other", "r", "joined", "big", "table-repartition-sink"],
        "table": ["table-repartition-source", "table", "out"],
    }
    source = made.subtopology("table").nodes[0]
    assert source == RepartitionSource(
        "table-repartition-source",
        "app-table-repartition",
        "big",
        Columns(("user",), ("amount", "paid"), ("timestamp",)),
    )
    assert [part.output_mode for part in made.subtopologies] == ["append", "update"]
    hop = next(topic for topic in made.topics if topic.role == "repartition")
    assert hop.partitions == 8
    assert dict(hop.configs) == {
        "cleanup.policy": "delete",
        "retention.ms": "-1",
        "retention.bytes": "-1",
        "message.timestamp.type": "CreateTime",
        "segment.bytes": str(50 << 20),
        "message.timestamp.after.max.ms": "9223372036854775807",
    }


def test_a_join_of_joins_keeps_the_names_of_its_sides(plan: Compile) -> None:
    made = plan(
        JOINED + "- {name: again, from: joined, join: {with: l, within: 5s, select: {a: joined.paid, b: l.amount}}}\n"
        "- {name: out, to: {topic: o}}"
    )
    (part,) = made.subtopologies
    assert (part.name, part.stores) == ("joined", ("joined", "again"))
    made = plan(
        JOINED + "- {name: again, from: joined, join: {with: in, match: {amount: amount}, within: 5s, "
        "select: {a: joined.paid, b: in.amount}}}\n- {name: out, to: {topic: o}}"
    )
    assert parts(made) == {
        "joined": ["in", "l", "other", "r", "joined", "again-left-repartition-sink"],
        "again": ["in", "again-left-repartition-source", "again", "out"],
    }
    join = made.subtopology("again").topology.node("again")
    assert isinstance(join, Join)
    assert (join.inputs, join.aliases) == (("again-left-repartition-source", "in"), ("joined", "in"))


def test_random_values_are_written_down_before_they_are_grouped(plan: Compile) -> None:
    made = plan(
        IN + "- {name: lot, with: {lot: 'int(rand() * 10)'}}\n- {name: some, filter: lot > 3}\n"
        "- {name: table, groupBy: [lot], aggregate: {'n': count(*)}}\n- {name: out, to: {topic: o}}\n"
        "- {name: lots, from: lot, to: {topic: lots}}"
    )
    # The sink sees the very lots that are counted: they are drawn once.
    assert parts(made) == {
        "in": ["in", "lot", "some", "table-repartition-sink", "lots"],
        "table": ["table-repartition-source", "table", "out"],
    }


def test_random_values_behind_the_shuffle_need_no_topic(plan: Compile) -> None:
    made = plan(
        IN + f"- {{name: table, {COUNT}}}\n- {{name: x, with: {{id: uuid()}}}}\n- {{name: out, to: {{topic: o}}}}"
    )
    assert list(parts(made)) == ["table"]


def test_records_from_behind_a_shuffle_meet_others_through_a_topic(plan: Compile) -> None:
    made = plan(
        JOINED + "- {name: a, from: joined, select: {v: amount}}\n- {name: b, from: l, select: {v: amount}}\n"
        "- {name: m, merge: [a, b]}\n- {name: out, to: {topic: o}}\n"
        "- {name: table, from: m, groupBy: [v], aggregate: {'n': count(*)}}"
    )
    assert parts(made) == {
        "joined": ["in", "l", "other", "r", "joined", "a", "m-a-repartition-sink"],
        "m-a-repartition-source": ["in", "l", "b", "m-a-repartition-source", "m", "out"],
        "table": ["in", "l", "b", "m-a-repartition-source", "m", "table"],
    }


def test_branches_of_one_join_that_meet_again_need_no_topic(plan: Compile) -> None:
    made = plan(
        JOINED + "- {name: split, branch: [{name: big, when: amount > 9}, {name: small}]}\n"
        "- {name: both, merge: [big, small]}\n- {name: out, to: {topic: o}}"
    )
    assert list(parts(made)) == ["joined"]


def test_two_tables_of_one_join_have_a_topic_each(plan: Compile) -> None:
    made = plan(JOINED + f"- {{name: x, {BY_AMOUNT}}}\n- {{name: z, from: joined, {BY_AMOUNT}}}")
    assert parts(made) == {
        "joined": ["in", "l", "other", "r", "joined", "x-repartition-sink", "z-repartition-sink"],
        "x": ["x-repartition-source", "x"],
        "z": ["z-repartition-source", "z"],
    }


def test_dead_letters_leave_by_a_query_of_their_own(plan: Compile) -> None:
    made = plan(
        IN + f"- {{name: lines, stream: {{topic: l}}}}\n- {{name: table, from: in, {COUNT}}}\n"
        "- {name: out, to: {topic: o}}\n- {name: copy, from: lines, to: {topic: c}}",
        "onBadRecord: {deadLetter: bad}",
    )
    # Any bytes are text: nothing of `lines` can be unreadable.
    assert parts(made) == {
        "in-dead-letter": ["in", "in-dead-letter"],
        "table": ["in", "table", "out"],
        "lines": ["lines", "copy"],
    }
    assert made.sink_topics == ("bad", "c", "o")


def test_what_leads_nowhere_is_left_out(plan: Compile) -> None:
    made = plan(
        IN + "- {name: a, filter: amount > 1}\n- {name: b, filter: amount > 2}\n- {name: out, from: a, to: {topic: o}}"
    )
    assert parts(made) == {"in": ["in", "a", "out"]}


def test_a_store_without_a_sink_stays(plan: Compile) -> None:
    assert parts(plan(IN + f"- {{name: table, {COUNT}}}")) == {"table": ["in", "table"]}


def test_a_topology_without_any_effect_is_an_error(plan: Compile) -> None:
    with pytest.raises(ManifestError, match="writes no topic and keeps no state"):
        plan(IN + "- {name: a, filter: amount > 1}")


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        (
            IN
            + f"- {{name: table, {COUNT}, store: a-changelog}}\n- {{name: x, from: in, to: {{topic: app-metadata}}}}",
            "topic 'app-metadata' is internal to this app",
        ),
        (
            IN + f"- {{name: x, to: {{topic: app-s-changelog}}}}\n- {{name: z, from: in, {COUNT}, store: s}}",
            "is internal",
        ),
        (
            JOINED + f"- {{name: table, {BY_AMOUNT}}}\n- {{name: x, from: in, to: {{topic: app-table-repartition}}}}",
            "topic 'app-table-repartition' is internal to this app (of 'table-repartition-sink')",
        ),
        (
            IN + f"- {{name: a, {COUNT}, store: s}}\n- {{name: b, from: in, {COUNT}, store: s}}",
            "store 's' is already that of",
        ),
        ("- {name: x, stream: {pattern: 'app-.*'}}\n- {name: out, to: {topic: o}}", "a topic internal to this app"),
        ("- {name: x, stream: {pattern: 'o.*'}}\n- {name: out, to: {topic: orders}}", "the app would feed itself"),
        ("- {name: x, stream: {pattern: '('}}\n- {name: out, to: {topic: orders}}", "is no regular expression"),
        (IN + f"- {{name: {'x' * 230}, {COUNT}}}", "Kafka takes 249"),
    ],
)
def test_topics_do_not_meet(problems: Callable[..., list[str]], nodes: str, said: str) -> None:
    assert any(said in problem for problem in problems(nodes))


def test_the_cut_does_not_depend_on_what_is_written_first(plan: Compile) -> None:
    one = plan(JOINED + f"- {{name: table, {COUNT}}}\n- {{name: out, to: {{topic: o}}}}")
    nodes = JOINED.strip().split("\n")
    other = plan(
        f"- {{name: out, from: table, to: {{topic: o}}}}\n- {{name: table, from: joined, {COUNT}}}\n"
        + "\n".join(reversed(nodes))
    )
    assert {k: set(v) for k, v in parts(one).items()} == {k: set(v) for k, v in parts(other).items()}
    assert one.stores == other.stores
    assert one.topics == other.topics


def test_a_long_chain_does_no_harm(plan: Compile) -> None:
    chain = "\n".join(f"- {{name: n{i}, with: {{c: amount + {i}}}}}" for i in range(298))
    made = plan(IN + chain + "\n- {name: table, groupBy: [c], aggregate: {'n': max(c)}}")
    assert len(made.subtopologies[0].nodes) == 300


def test_no_two_queries_wait_for_each_other(plan: Compile) -> None:
    """`in` feeds the join through a topic, and is merged with the join's output: at another depth, in another query."""
    made = plan(
        PAIR + "- {name: lot, from: l, with: {lot: rand()}}\n"
        "- {name: joined, from: lot, join: {with: r, within: 5s}}\n"
        "- {name: a, from: joined, select: {v: lot}}\n- {name: b, from: lot, select: {v: lot}}\n"
        "- {name: c, from: l, select: {v: amount}}\n"
        "- {name: m, merge: [a, b, c]}\n- {name: out, to: {topic: o}}"
    )
    assert parts(made) == {
        "in": ["in", "l", "lot", "b", "joined-left-repartition-sink", "m-b-repartition-sink"],
        "joined": ["other", "r", "joined-left-repartition-source", "joined", "a", "m-a-repartition-sink"],
        "m-a-repartition-source": [
            "in",
            "l",
            "c",
            "m-a-repartition-source",
            "m-b-repartition-source",
            "m",
            "out",
        ],
    }


@pytest.mark.timeout(30)
@pytest.mark.parametrize("pattern", ["(a+)+b", "(a|a)*b", ".*.*.*.*.*.*.*b", "(.*)*b"])
def test_patterns_that_take_for_ever_are_not_tried(plan: Compile, pattern: str) -> None:
    plan(f"- {{name: in, stream: {{pattern: '{pattern}'}}}}\n- {{name: out, to: {{topic: {'a' * 240}}}}}")
