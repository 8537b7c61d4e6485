# SPDX-License-Identifier: Apache-2.0

"""A store's fingerprint changes when, and only when, old state would mean something else."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from streamapp.plan import Plan

Compile = Callable[..., Plan]

SCHEMA = "user STRING, amount DOUBLE"
SOURCE = "- {name: in, stream: {topic: t, value: {format: json, schema: '%s'}}}\n"
TABLE = "- {name: table, groupBy: [user], aggregate: {'n': count(*), total: sum(amount)}}\n"
OUT = "- {name: out, to: {topic: o}}\n"
BASE = SOURCE % SCHEMA + TABLE + OUT


def fingerprint(plan: Plan) -> str:
    (store,) = plan.stores
    return store.fingerprint


@pytest.mark.parametrize(
    "nodes",
    [
        pytest.param("# a comment\n" + BASE, id="a comment"),
        pytest.param(
            BASE.replace("n: count(*), total: sum(amount)", "total: sum(amount), 'n': count(*)"), id="order of a map"
        ),
        pytest.param(BASE.replace("sum(amount)", "SUM( `amount` )"), id="spelling"),
        pytest.param(BASE.replace("topic: t,", "topic: t2,"), id="another topic"),
        pytest.param(BASE.replace("name: in,", "name: source,"), id="another name of a source"),
        pytest.param(SOURCE % SCHEMA + "- {name: f, filter: amount > 1}\n" + TABLE + OUT, id="a filter before"),
        pytest.param(
            SOURCE % SCHEMA + "- {name: w, with: {extra: amount * 2}}\n" + TABLE + OUT, id="another column before"
        ),
        pytest.param(SOURCE % SCHEMA + TABLE + "- {name: f, filter: n > 1}\n" + OUT, id="a filter behind"),
        pytest.param(SOURCE % "amount DOUBLE, more INT, user STRING" + TABLE + OUT, id="more fields in the source"),
        pytest.param(BASE + "- {name: x, from: in, to: {topic: x}}", id="an unrelated node"),
        pytest.param(
            BASE.replace("name: table,", "name: renamed,").replace("sum(amount)}", "sum(amount)}, store: table"),
            id="node name",
        ),
        pytest.param(SOURCE % SCHEMA + "- {name: k, keyBy: [amount]}\n" + TABLE + OUT, id="another key before"),
        pytest.param(
            SOURCE % SCHEMA
            + (SOURCE % SCHEMA).replace("name: in, stream: {topic: t", "name: in2, stream: {topic: t2")
            + "- {name: m, merge: [in, in2]}\n"
            + TABLE
            + OUT,
            id="one more topic of the same kind",
        ),
    ],
)
def test_the_same_state(plan: Compile, nodes: str) -> None:
    assert fingerprint(plan(nodes)) == fingerprint(plan(BASE))


@pytest.mark.parametrize(
    "nodes",
    [
        pytest.param(BASE.replace("groupBy: [user]", "groupBy: [{user: lower(user)}]"), id="another key"),
        pytest.param(BASE.replace("groupBy: [user]", "groupBy: [{name: user}]"), id="another name of the key"),
        pytest.param(BASE.replace("groupBy: [user]", "groupBy: [user, amount]"), id="a longer key"),
        pytest.param(BASE.replace("'n': count(*)", "'n': count(user)"), id="another aggregate"),
        pytest.param(BASE.replace("'n': count(*), ", ""), id="one aggregate less"),
        pytest.param(BASE.replace("sum(amount)}", "sum(amount)}, window: {tumbling: 5s}"), id="a window"),
        pytest.param(SOURCE % "user STRING, amount INT" + TABLE + OUT, id="another type of a value"),
        pytest.param(SOURCE % "user INT, amount DOUBLE" + TABLE + OUT, id="another type of the key"),
        pytest.param(
            SOURCE % SCHEMA + "- {name: w, with: {user: lower(user)}}\n" + TABLE + OUT,
            id="the key computed before",
        ),
        pytest.param(
            SOURCE % "u STRING, amount DOUBLE" + "- {name: s, select: {user: u, amount: amount}}\n" + TABLE + OUT,
            id="the key from another field",
        ),
    ],
)
def test_another_state(plan: Compile, nodes: str) -> None:
    assert fingerprint(plan(nodes)) != fingerprint(plan(BASE))


def test_window_sizes_matter_and_grace_does_not(plan: Compile) -> None:
    def windowed(more: str) -> str:
        return fingerprint(plan(BASE.replace("sum(amount)}", "sum(amount)}, " + more)))

    base = windowed("window: {tumbling: 5s}")
    assert windowed("window: {tumbling: 5000ms}") == base
    assert windowed("window: {tumbling: 5s}, grace: 1 hour") == base
    assert windowed("window: {tumbling: 5s}, emit: final") == base
    assert windowed("window: {hopping: 5s, every: 5s}") == base
    assert windowed("window: {tumbling: 6s}") != base
    assert windowed("window: {hopping: 5s, every: 1s}") != base
    sessions = windowed("window: {session: 5s}")
    assert sessions != base
    assert windowed("window: {session: 5000ms}, grace: 1 hour, emit: final") == sessions
    assert windowed("window: {session: 6s}") != sessions
    assert windowed("window: {sliding: 5s}") not in (base, sessions)
    assert windowed("window: {tumbling: 5s}, retention: 1 day") == base


def test_a_topic_for_late_records_does_not_matter(plan: Compile) -> None:
    cogroup = (
        SOURCE
        % SCHEMA
        + "- {name: other, stream: {topic: u, value: {format: json, schema: 'user STRING, paid INT'}}}\n"
        "- name: counts\n  groupBy: [user]\n  window: {tumbling: 5s}\n"
        "  cogroup: [{from: in, aggregate: {'n': count(*)}}, {from: other, aggregate: {paid: sum(paid)}}]\n"
    )
    group = BASE.replace("sum(amount)}", "sum(amount)}, window: {tumbling: 5s}")
    for nodes, end in ((cogroup + OUT, "\n  "), (group, ", ")):
        late = nodes.replace("{tumbling: 5s}", f"{{tumbling: 5s}}{end}late: {{topic: late}}")
        assert fingerprint(plan(late)) == fingerprint(plan(nodes))


JOIN = (
    SOURCE % SCHEMA + "- {name: other, stream: {topic: u, value: {format: json, schema: 'id STRING, paid DOUBLE'}}}\n"
    "- {name: l, from: in, keyBy: [user]}\n- {name: r, from: other, keyBy: [id]}\n"
    "- {name: joined, from: l, join: {with: r, within: 5s}}\n"
) + OUT


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("within: 5s", "within: 5s, grace: 1s", True),
        ("within: 5s", "within: 5s, late: {topic: late}", True),
        ("within: 5s", "within: 5s, select: {p: r.paid}", True),
        ("within: 5s", "within: 5s, select: {p: r.paid, at: r.timestamp}", False),  # which the state has then, too
        ("name: r,", "name: right, ", True),
        ("within: 5s", "within: 6s", False),
        ("within: 5s", "before: 5s, after: 5000ms", True),
        ("within: 5s", "before: 5s", False),
        ("within: 5s", "within: 5s, type: left", False),
        ("id STRING, paid DOUBLE", "paid DOUBLE, id STRING", True),
        ("paid DOUBLE", "paid INT", False),
        ("id STRING, paid DOUBLE", "id STRING, paid DOUBLE, more INT", False),
        ("keyBy: [user]", "keyBy: [amount]", False),
    ],
)
def test_joins(plan: Compile, old: str, new: str, same: bool) -> None:
    changed = JOIN.replace(old, new)
    if "name: right" in new:
        changed = changed.replace("with: r", "with: right")
    assert (fingerprint(plan(changed)) == fingerprint(plan(JOIN))) is same


WAITING = (
    "- {name: rates, table: {topic: r, history: 1 hour, value: {format: json, schema: 'rate DOUBLE'}}}\n"
    "- {name: in, stream: {topic: t, value: {format: json, schema: 'user STRING, a INT, b INT'}}}\n"
    "- {name: w, from: in, with: {a: a + 1}}\n"
    "- {name: rated, join: {with: rates, by: [user], asOf: true, grace: 5s, select: {a: left.a, rate: right.rate}}}\n"
) + OUT


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("grace: 5s", "grace: 1 minute", True),
        ("history: 1 hour", "history: 2 hours", True),
        ("{a: left.a, rate: right.rate}", "{b: left.b, at: left.timestamp}", True),
        ("{a: left.a, rate: right.rate}", "{a: left.a, offset: left.offset}", False),
        ("a INT, b INT", "b INT, a INT", True),
        ("with: {a: a + 1}", "select: {a: a + 1, b: b, user: user}", True),
        ("with: {a: a + 1}", "with: {a: cast(a as STRING)}", False),
        ("with: {a: a + 1}", "with: {c: a + 1}", False),
        ("a INT, b INT", "a INT, b BIGINT", False),
        ("by: [user]", "by: [topic]", False),
    ],
)
def test_records_that_wait(plan: Compile, old: str, new: str, same: bool) -> None:
    before, now = (
        {store.name: store.fingerprint for store in plan(nodes).stores}
        for nodes in (WAITING, WAITING.replace(old, new))
    )
    assert before["rates"] == now["rates"]
    assert (before["rated"] == now["rated"]) is same


def test_fingerprints_are_pinned(plan: Compile) -> None:
    """Fingerprints stand in users' changelogs: a change here makes every app refuse its state. Raise `_SCHEME` on
    purpose."""
    assert (fingerprint(plan(BASE)), fingerprint(plan(JOIN))) == ("718b54e630442617", "070427bddfb8f6d9")
