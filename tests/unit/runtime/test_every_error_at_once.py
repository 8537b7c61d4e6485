# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E501 (manifests and messages are whole lines)
"""A manifest's mistakes are all reported together: each with the node, the field, the value and the fix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from streamapp.errors import ManifestError
from streamapp.manifest import parse_manifest, parse_object

Problems = Callable[..., list[str]]

LINES = "- {name: lines, stream: {topic: t, value: {format: json, schema: 'user STRING, amount DOUBLE'}}}\n"
PAIR = LINES + "- {name: other, stream: {topic: u, value: {format: json, schema: 'user STRING, paid DOUBLE'}}}\n"


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        pytest.param(
            "- {name: x, fliter: amount > 1}",
            "node 'x': unknown operation `fliter`; did you mean `filter`?",
            id="unknown operation",
        ),
        pytest.param(
            "- {name: x}",
            "node 'x': has no operation; add one of: stream, table, globalTable, filter, select, with, flatMap, keyBy, merge, "
            "branch, groupBy, deduplicate, join, toTable, toStream, suppress, python, to",
            id="no operation",
        ),
        pytest.param(
            "- {name: x, to: {}}",
            "node 'x': `to.topic`: `topic` is missing; add it, e.g. topic: orders",
            id="missing field",
        ),
        pytest.param(
            "- {filter: amount > 1}",
            "node '#2': `name` is missing; add it, e.g. name: words",
            id="missing name",
        ),
        pytest.param(
            "- {name: x, groupBy: [user]}",
            "node 'x': `aggregate` is missing; say what to compute, e.g. aggregate: {count: \"count(*)\"}",
            id="missing aggregate",
        ),
        pytest.param(
            "- {name: x, aggregate: {'n': count(*)}}",
            "node 'x': `groupBy` is missing; say what to aggregate by, e.g. groupBy: [user]",
            id="missing groupBy",
        ),
        pytest.param(
            "- {name: x, filter: amount > 1, select: {a: user}}",
            "node 'x': has `filter` and `select`, and a node has one operation; make a node of each",
            id="two operations",
        ),
        pytest.param(
            "- {name: a, from: b, filter: amount > 1}\n- {name: b, from: a, filter: amount > 2}",
            "node 'a': `from`: reads itself: a → b → a; make one of them read another node",
            id="cycle",
        ),
        pytest.param(
            "- {name: x, from: x, filter: amount > 1}",
            "node 'x': `from`: reads itself: x → x; make one of them read another node",
            id="cycle of one",
        ),
        pytest.param(
            "- {name: x, from: line, filter: amount > 1}",
            "node 'x': `from`: there is no node 'line'; did you mean `lines`?",
            id="unknown from",
        ),
        pytest.param(
            "- {name: lines, filter: amount > 1}",
            "node 'lines': `name`: two nodes are named 'lines', the first in line 6; rename one of them",
            id="duplicate name",
        ),
        pytest.param(
            "- {name: x, filter: amount >}",
            "node 'x': `filter`: cannot be parsed as Spark SQL: something is missing after `amount >`; "
            "check brackets, quotes and operators",
            id="unparsable SQL",
        ),
        pytest.param(
            "- {name: x, filter: amunt > 1}",
            "node 'x': `filter`: unknown column `amunt` (in \"amunt > 1\"); did you mean `amount`?",
            id="unknown column",
        ),
        pytest.param(
            "- {name: x, filter: lenght(user) > 1}",
            "node 'x': `filter`: unknown function `lenght` (in \"lenght(user) > 1\"); did you mean `length`?",
            id="unknown function",
        ),
        pytest.param(
            "- {name: x, to: {topic: t}}",
            "node 'x': `to.topic`: topic 't' is also read, by node 'lines': the app would feed itself for ever; "
            "write to another topic",
            id="sink topic that is also a source",
        ),
        pytest.param(
            "- {name: x, filter: \"reflect('java.lang.System', 'exit', 1) is null\"}",
            "node 'x': `filter`: function `reflect` cannot be used: it reaches outside the data that the topology reads "
            "(in \"reflect('java.lang.System', 'exit', 1) is null\")",
            id="forbidden function",
        ),
        pytest.param(
            "- {name: x, grace: 5s, filter: amount > 1}",
            "node 'x': `grace` is only for `groupBy`; remove `grace`",
            id="field of another operation",
        ),
        pytest.param(
            "- {name: x, groupBy: [user], aggregate: {'n': count(*)}, emit: final}",
            "node 'x': `emit`: `emit: final` needs a `window`: without one no result is ever final; "
            "add e.g. window: {tumbling: 5 minutes}, or emit: updates",
            id="final without a window",
        ),
        pytest.param(
            "- {name: x, groupBy: [user], aggregate: {'n': count(*)}, window: {hopping: 5 minutes}}",
            "node 'x': `window.every`: `every` is missing; say how often a window starts, e.g. every: 1 minute",
            id="hopping without every",
        ),
        pytest.param(
            "- {name: x, groupBy: [user], aggregate: {'n': count(*)}, window: {hopping: 1 minute, every: 5 minutes}}",
            "node 'x': `window.every`: `every: 5 minutes` is longer than the window: records would fall between two; "
            "make it at most the size",
            id="windows with holes",
        ),
        pytest.param(
            "- {name: x, groupBy: [user], aggregate: {all: count(*)}, window: {hopping: 365 days, every: 1ms}}",
            "node 'x': `window.every`: `every: 1ms` puts each record into 31,536,000,000 windows of 365 days; "
            "make it longer: a record may be in 1,000 windows",
            id="more windows than can be planned",
        ),
        pytest.param(
            "- {name: x, groupBy: [user], aggregate: {'n': count(*)}, window: {session: 0s}}",
            "node 'x': `window.session`: '0s' is no time at all; write e.g. 5 minutes",
            id="sessions without a gap",
        ),
        pytest.param(
            "- {name: x, groupBy: [user], aggregate: {'n': count(*)}, window: {session: 5s, hopping: 9s}}",
            "node 'x': `window`: has `hopping` and `session`; keep one of them",
            id="sessions that hop",
        ),
        pytest.param(
            "- {name: x, groupBy: [user], aggregate: {'n': count(*)}, window: {session: 5s, every: 1s}}",
            "node 'x': `window.every`: `every` is for hopping windows; remove it, or write hopping",
            id="sessions with a step",
        ),
        pytest.param(
            "- {name: x, groupBy: [{window_end: user}], aggregate: {'n': count(*)}, window: {session: 5s}}",
            "node 'x': `groupBy`: `window_end` is also a column of the window; give it another name",
            id="a group named like an end of a session",
        ),
        pytest.param(
            "- {name: x, groupBy: [user], aggregate: {'n': count(*)}, window: {sliding: 5s, every: 1s}}",
            "node 'x': `window.every`: `every` is for hopping windows; remove it, or write hopping",
            id="sliding windows with a step",
        ),
        pytest.param(
            "- {name: x, groupBy: [user], aggregate: {'n': count(*)}, retention: 1 day}",
            "node 'x': `retention` is there without a `window`; add e.g. window: {tumbling: 5 minutes}",
            id="retention without a window",
        ),
        pytest.param(
            "- {name: x, groupBy: [user], aggregate: {'n': count(*)}, window: {tumbling: 5s}, retention: 0s}",
            "node 'x': `retention`: '0s' is no time at all; write e.g. 5 minutes",
            id="retention of nothing",
        ),
        pytest.param(
            "- {name: x, groupBy: [user], aggregate: {'n': count(*)}, window: {tumbling: 5s}, late: {topic: t}}",
            "node 'x': `late.topic`: topic 't' is also read, by node 'lines': the app would feed itself for ever; write to "
            "another topic",
            id="late records that come again",
        ),
        pytest.param(
            "- {name: x, join: {with: lines, within: 5s, late: {topic: t}, select: {a: left.user}}}",
            "node 'x': `join.late.topic`: topic 't' is also read, by node 'lines': the app would feed itself for ever; "
            "write to another topic",
            id="late records of a join that come again",
        ),
        pytest.param(
            "- {name: x, groupBy: [user], aggregate: {'n': count(*)}, window: {tumbling: 5s}, late: {topic: u}}\n"
            "- {name: x-late, from: x, filter: n > 1}",
            "node 'x-late': `name`: two nodes are named 'x-late', the first in line 7; rename one of them",
            id="a node named like that of late records",
        ),
        pytest.param(
            "- {name: x, join: {with: lines, within: 5s, late: {topic: u}, select: {a: left.user}}}\n"
            "- {name: x-late, from: x, filter: a = 'b'}",
            "node 'x-late': `name`: two nodes are named 'x-late', the first in line 7; rename one of them",
            id="a node named like that of late records of a join",
        ),
        pytest.param(
            "- {name: x, groupBy: [user], aggregate: {'n': count(*)}, late: {topic: u}}",
            "node 'x': `late` is there without a `window`; add e.g. window: {tumbling: 5 minutes}",
            id="late without a window",
        ),
        pytest.param(
            "- {name: x, groupBy: [user], aggregate: {'n': amount}}",
            "node 'x': `aggregate.n`: is no aggregate (in \"amount\"); use an aggregate function, e.g. count(*), sum(amount)",
            id="aggregate that is none",
        ),
        pytest.param(
            "- {name: x, with: {'n': sum(amount)}}",
            "node 'x': `with.n`: aggregates, and this expression sees one record (in \"sum(amount)\"); "
            "use groupBy with aggregate",
            id="aggregate in a map",
        ),
        pytest.param(
            "- {name: x, groupBy: [user], aggregate: {'n': sum(amount) + amount}}",
            "node 'x': `aggregate.n`: column `amount` is neither in `groupBy` nor inside an aggregate function "
            '(in "sum(amount) + amount"); write e.g. max(amount), or add it to groupBy',
            id="ungrouped column",
        ),
        pytest.param(
            "- {name: x, groupBy: [{r: rand()}], aggregate: {'n': count(*)}}",
            "node 'x': `groupBy.r`: is not deterministic: an epoch that is run again would put the record elsewhere "
            '(in "rand()"); compute it in a `with` node before',
            id="random group",
        ),
        pytest.param(
            "- {name: x, to: {topic: o, value: long}}",
            "node 'x': `to.value`: format long holds exactly one column, and the value has 2 columns: user, amount; "
            "use json, or a `select` node before",
            id="single-value format of several columns",
        ),
        pytest.param(
            "- {name: x, to: {topic: 'a b'}}",
            "node 'x': `to.topic`: topic 'a b' is no topic name: letters, digits, `.`, `_` and `-` only",
            id="illegal topic",
        ),
        pytest.param(
            "- {name: a b, filter: amount > 1}",
            "node 'a b': `name`: 'a b' cannot be part of a topic's name; use letters, digits, `.`, `_` and `-`",
            id="illegal node name",
        ),
        pytest.param(
            "- {name: out, to: {topic: o}}\n- {name: x, filter: amount > 1}",
            "node 'x': `from` is missing, and the node above, 'out', is a sink; name the node to read",
            id="below a sink",
        ),
        pytest.param(
            "- {name: b, branch: [{name: big, when: amount > 9}, {name: rest}]}\n- {name: x, filter: amount > 1}",
            "node 'x': `from` is missing, and the node above, 'b', is a branch; e.g. from: big",
            id="below a branch",
        ),
        pytest.param(
            "- {name: b, branch: [{name: big, when: amount > 9}]}\n- {name: x, from: b, filter: amount > 1}",
            "node 'x': `from`: 'b' is a branch; read one of its branches: big",
            id="from a branch",
        ),
        pytest.param(
            "- {name: b, branch: [{name: all}, {name: big, when: amount > 9}]}",
            "node 'all': `when` is missing, and only the last branch may take the rest; add when: …",
            id="branch without when before others",
        ),
        pytest.param(
            "- {name: k, keyBy: [usr]}",
            "node 'k': `keyBy`: unknown column `usr`; did you mean `user`?",
            id="unknown key column",
        ),
        pytest.param(
            "- {name: k, keyBy: [lower(user)]}",
            "node 'k': `keyBy`: `lower(user)` is not a column's name; compute it in a `with` node before",
            id="key that is an expression",
        ),
        pytest.param(
            "- {name: k, keyBy: [user]}\n- {name: x, with: {user: lower(user)}}",
            "node 'x': `with.user`: column `user` is part of the key, which stays as it is here (in \"lower(user)\"); "
            "use another name, and keyBy after it",
            id="changed key",
        ),
        pytest.param(
            "- {name: x, merge: [lines, lines]}",
            "node 'x': `merge`: 'lines' is there twice; name it once",
            id="merge with itself",
        ),
        pytest.param(
            "- {name: x, from: lines, join: {with: lines, within: 5s}}",
            "node 'x': `join.select`: both sides have `user`, `amount`; name them with select, e.g. select: "
            "{user: left.user, user_right: right.user}",
            id="join with itself",
        ),
        pytest.param(
            "- {name: x, stream: {topic: a, pattern: b}}",
            "node 'x': `stream`: there are `topic` and `pattern`; keep one of them",
            id="two places to read",
        ),
        pytest.param(
            "- {name: x, from: lines, stream: {topic: a}}",
            "node 'x': `from` is not for a stream, which reads topics; remove `from`",
            id="stream with an input",
        ),
        pytest.param(
            "- {name: x, stream: {topic: a, value: json}}",
            "node 'x': `stream.value`: json needs a schema; write {format: json, schema: \"user STRING, amount DOUBLE\"}",
            id="json without a schema",
        ),
        pytest.param(
            "- {name: x, stream: {topic: a, value: {format: long, schema: a INT}}}",
            "node 'x': `stream.value`: format long has no schema; leave `schema` out",
            id="schema without json",
        ),
        pytest.param(
            "- {name: x, filter: __key = 1}",
            "node 'x': `filter`: column `__key`: names that start with two underscores are the engine's own "
            '(in "__key = 1")',
            id="the engine's columns",
        ),
        pytest.param(
            "- {name: x, stream: {topic: a, value: {format: json, schema: user STRING, amount DOUBLE}}}",
            "node 'x': `stream.value.schema`: is cut off at a comma: inside { } a comma ends a value that is not in quotes; "
            "write schema: 'user STRING, amount DOUBLE'",
            id="schema without quotes",
        ),
        pytest.param(
            "- {name: x, with: {c: regexp_extract(user, 'a: b', 1), d: user}}",
            "node 'x': `with.c`: is cut off at a comma: inside { } a comma ends a value that is not in quotes; "
            "write c: \"regexp_extract(user, 'a: b', 1)\"",
            id="expression without quotes",
        ),
        pytest.param(
            "- {name: x, filter: user = ada}",
            "node 'x': `filter`: unknown column `ada` (in \"user = ada\"); there are: key, user, amount, timestamp, topic, "
            "partition, offset, headers; a text is written in single quotes, 'ada'",
            id="text without quotes",
        ),
        pytest.param(
            "- {name: x, filter: 'upper(user, 1) = user'}",
            "node 'x': `filter`: `upper` takes 1 argument, 2 given (in \"upper(user, 1) = user\"); remove what is too much",
            id="too many arguments",
        ),
        pytest.param(
            "- {name: x, with: {a: date_trunc(user)}}",
            "node 'x': `with.a`: `date_trunc` takes at least 2 arguments, 1 given (in \"date_trunc(user)\"); "
            "add what is missing",
            id="too few arguments",
        ),
        pytest.param(
            "- {name: x, filter: amount =< 3 and user = '>>>'}",
            "node 'x': `filter`: `=<` is no operator here (in \"amount =< 3 and user = '>>>'\"); write `<=`",
            id="operator of another language",
        ),
        pytest.param(
            "- {name: x, with: {a: explode(array(user))}}",
            "node 'x': `with.a`: function `explode` makes several rows of one (in \"explode(array(user))\"); "
            "use a flatMap node",
            id="rows of one row",
        ),
        pytest.param(
            "- {name: x, groupBy: [user], aggregate: {'n': rand()}}",
            "node 'x': `aggregate.n`: is no aggregate (in \"rand()\"); use an aggregate function, e.g. count(*), sum(amount)",
            id="aggregate that is none, and random",
        ),
        pytest.param(
            "- {name: x, from: [lines], filter: amount > 1}",
            "node 'x': `from`: needs a string, and this is a list; write lines, without brackets",
            id="list of one",
        ),
        pytest.param(
            "- {name: x, from: [lines, out], filter: amount > 1}",
            "node 'x': `from`: needs a string, and this is a list; name one, or make a `merge` node of them before",
            id="list of several inputs",
        ),
        pytest.param(
            "- {name: x, keyBy: user}",
            "node 'x': `keyBy`: needs a list, and this is 'user'; write [user]",
            id="no list",
        ),
        pytest.param(
            "- {name: x, from: lines, to: results}",
            "node 'x': `to`: needs a map, and this is 'results'; write {topic: results}",
            id="no map",
        ),
        pytest.param(
            "- {name: x, groupBy: [user], aggregate: {'n': count(*)}, window: 5 minutes}",
            "node 'x': `window`: needs a map, and this is '5 minutes'; write {tumbling: 5 minutes}",
            id="no map but a duration",
        ),
        pytest.param(
            "- {name: x, keyBy: {user: user}}",
            "node 'x': `keyBy`: needs a list, and this is a map; begin each of its items with `- `",
            id="map and no list",
        ),
        pytest.param(
            "- just text",
            "node '#2': a node is a map with a name and an operation, and this is 'just text'; "
            "write e.g. {name: words, filter: length(value) > 3}",
            id="node that is text",
        ),
    ],
)
def test_one_mistake_is_one_problem(problems: Problems, nodes: str, expected: str) -> None:
    assert problems(LINES + nodes + "\n- {name: fine, from: lines, to: {topic: fine}}") == [expected]


@pytest.mark.parametrize(
    ("join", "expected"),
    [
        (
            "{with: other, select: {a: other.paid}}",
            "node 'x': `join.within`: `within` is missing; a stream-stream join needs a window, e.g. within: 5 minutes, or "
            "before: 0s, after: 1 hour",
        ),
        (
            "{with: othr, within: 5s}",
            "node 'x': `join.with`: there is no node 'othr'; did you mean `other`?",
        ),
        (
            "{with: other, within: 5s}",
            "node 'x': `join.select`: both sides have `user`; name them with select, "
            "e.g. select: {user: lines.user, user_right: other.user}",
        ),
        (
            "{with: other, within: 5s, select: {u: user}}",
            "node 'x': `join.select.u`: column `user` does not say which side it is of; write lines.user",
        ),
        (
            "{with: other, within: 5s, select: {u: other.usr}}",
            "node 'x': `join.select.u`: node 'other' has no column `usr` (in \"other.usr\"); did you mean `user`?",
        ),
        (
            "{with: other, within: 5s, select: {u: c.paid}}",
            "node 'x': `join.select.u`: `c` is neither side of the join (in \"c.paid\"); there are: lines, other",
        ),
        (
            "{with: other, by: [user, amount], within: 5s, select: {a: other.paid}}",
            "node 'x': `join.by`: `user`, `amount` of 'lines' does not match the key of 'other', the record's own key "
            "(in \"user, amount\"); name as many columns, or give 'other' another key with a `keyBy` node",
        ),
        (
            "{with: other, by: [user], match: {user: user}, within: 5s, select: {a: other.paid}}",
            "node 'x': `join.match`: there are `by` and `match`; remove `by`",
        ),
        (
            "{with: other, match: {usr: user}, within: 5s, select: {a: other.paid}}",
            "node 'x': `join.match`: unknown column `usr`; did you mean `user`?",
        ),
        (
            "{with: other, match: {user: ident}, within: 5s, select: {a: other.paid}}",
            "node 'x': `join.match`: unknown column `ident`; there are: key, user, paid, timestamp, topic, partition, offset, headers",
        ),
        (
            "{with: other, match: {user: user}, within: 5s, select: {a: right.payd}}",
            "node 'x': `join.select.a`: node 'right' has no column `payd` (in \"right.payd\"); did you mean `paid`?",
        ),
        (
            "{with: other, match: {user: user}, within: 5s, select: {a: right.paid, b: lines.user}}",
            "node 'x': `join.select.b`: `lines` is neither side of the join (in \"lines.user\"); there are: left, right",
        ),
        (
            "{with: other, type: right, within: 5s, select: {a: other.paid}}",
            "node 'x': `join.type`: there is no 'right'; use inner, left or outer",
        ),
        (
            "{with: other, before: 5s, within: 1s, select: {a: other.paid}}",
            "node 'x': `join.within`: `within` stands for `before` and `after`; remove it, or both of them",
        ),
        (
            "{with: other, after: 5, select: {a: other.paid}}",
            "node 'x': `join.after`: `5` is no duration: it has no unit; write 5s for seconds, 5ms for milliseconds",
        ),
    ],
)
def test_joins_are_checked(problems: Problems, join: str, expected: str) -> None:
    assert problems(PAIR + f"- {{name: x, from: lines, join: {join}}}") == [expected]


@pytest.mark.parametrize(
    "operation",
    ["filter: count > 1", "select: {double: count * 2}", "with: {more: count + 1}", "to: {topic: o}"],
)
def test_a_table_can_be_mapped(problems: Problems, operation: str) -> None:
    nodes = LINES + "- {name: table, groupBy: [user], aggregate: {count: count(*)}}\n"
    assert problems(nodes + f"- {{name: x, {operation}}}") == []


@pytest.mark.parametrize(
    ("operation", "said"),
    [
        ("keyBy: [count]", "keyBy of a table is not available yet"),
        ("flatMap: {'n': 'sequence(1, count)'}", "flatMap of a table is not available yet"),
        ("branch: [{name: b, when: count > 1}]", "branch of a table is not available yet"),
        ("groupBy: [user], aggregate: {'n': count(*)}, window: {tumbling: 5s}", "'table' is a table, whose rows"),
        (
            "join: {with: lines, within: 5s, by: [user], select: {c: x.count}}",
            "is a table, and `within` is for two streams",
        ),
        ("join: {with: lines, by: [user], select: {c: x.count}}", "change the sides: from: lines, join: {with: table}"),
        ("join: {with: table, select: {c: left.count}}", "a table is joined with itself"),
        ("from: lines, join: {with: table, by: [user], type: outer}", "an outer join of a stream with a table"),
        ("join: {with: again, match: {count: times}}", "found by its key, `user`, and not by `times`"),
        ("join: {with: again, by: [count], type: outer}", "an outer join by `count`: a row of 'again' that no row of"),
        ("from: lines, join: {with: table, by: [user], select: {r: rand()}}", "is not deterministic: a row that is"),
        ("from: lines, join: {with: table, by: [user], grace: 5s}", "`grace` is for joins whose records wait"),
        ("from: lines, join: {with: table, by: [user], asOf: true}", "'table' is computed, and keeps no history"),
        ("join: {with: again, asOf: true}", "its rows stand for no moment"),
        ("toTable: {}", "'table' is a table already; read 'table' in its place"),
        ("from: lines, toStream: {}", "'lines' is a stream already; read 'lines' in its place"),
    ],
)
def test_what_a_table_cannot_do_yet_is_refused(problems: Problems, operation: str, said: str) -> None:
    nodes = LINES + "- {name: again, groupBy: [user], aggregate: {times: count(*)}}\n"
    nodes += "- {name: table, from: lines, groupBy: [user], aggregate: {count: count(*)}}\n"
    assert any(said in problem for problem in problems(nodes + f"- {{name: x, {operation}}}"))


def test_merged_streams_have_the_same_columns_and_keys(problems: Problems) -> None:
    nodes = PAIR + "- {name: keyed, from: lines, keyBy: [user]}\n- {name: all, merge: [lines, other]}\n"
    assert problems(nodes + "- {name: all-2, merge: [lines, keyed]}\n- {name: out, to: {topic: o}}") == [
        "node 'all': `merge`: 'lines' has the columns `user`, `amount`, 'other' has `user`, `paid`; "
        "make them the same with a `select` node before",
        "node 'all-2': `merge`: 'lines' has the columns `user`, `amount`, 'keyed' has `amount`; "
        "make them the same with a `select` node before",
        "node 'all-2': `merge`: 'lines' has the key the record's own key, 'keyed' has `user`; "
        "give both the same key, with a `keyBy` node before",
    ]


def test_a_broken_node_does_not_make_those_behind_it_wrong(problems: Problems) -> None:
    nodes = (
        LINES
        + "- {name: a, with: {'n': '1'}, filter: n > 0}\n- {name: b, filter: n > 1}\n"
        + "- {name: c, groupBy: ['n'], aggregate: {m: max(x)}}\n"
    )
    assert problems(nodes + "- {name: d, filter: m > 1 and zzz}\n- {name: out, to: {topic: o}}") == [
        "node 'a': has `with` and `filter`, and a node has one operation; make a node of each",
        "node 'd': `filter`: unknown column `zzz` (in \"m > 1 and zzz\"); there are: n, m, timestamp",
    ]


def test_a_mistake_hides_no_other_of_the_same_node(problems: Problems) -> None:
    nodes = (
        "- {name: o, stream: {topic: a b, value: {format: json, schema: user STRNG}, timestamp: lowr(user)}}\n"
        "- {name: p, stream: {topic: p, value: {format: json, schema: 'user STRING, paid LONG'}, key: avro}}\n"
        "- {name: w, from: p, with: {a: , b: lowr(user), c: usr}}\n"
        "- {name: g, from: [w], groupBy: [user], aggregate: {'n': summ(paid)}, window: {tumbling: 5}}\n"
        "- {name: j, from: p, join: {with: q, within: 5, by: [usr], select: {u: p.usr, q: q.a, l: lowr(q.b)}}}\n"
        "- {name: t, from: nobody, to: {topic: c d, partitions: many}}\n"
        "- {name: k, from: p, groupBy: user, aggregate: {'n': summ(paid)}, store: e f}"
    )
    assert [problem.split("; ")[0].split(" (in")[0] for problem in problems(nodes)] == [
        "node 'o': `stream.value`: schema 'user STRNG': unknown type `STRNG` of field `user`",
        "node 'o': `stream.topic`: topic 'a b' is no topic name: letters, digits, `.`, `_` and `-` only",
        "node 'o': `stream.timestamp`: unknown function `lowr`",
        "node 'p': `stream.key`: 'avro' is not available yet in this version",
        "node 'w': `with.a`: there is nothing after the colon",
        "node 'w': `with.b`: unknown function `lowr`",
        "node 'w': `with.c`: unknown column `usr`",
        "node 'g': `from`: needs a string, and this is a list",
        "node 'g': `window.tumbling`: `5` is no duration: it has no unit",
        "node 'g': `aggregate.n`: unknown function `summ`",
        "node 'j': `join.within`: `5` is no duration: it has no unit",
        "node 'j': `join.with`: there is no node 'q'",
        "node 'j': `join.by`: unknown column `usr`",
        "node 'j': `join.select.l`: unknown function `lowr`",
        "node 'j': `join.select.u`: node 'p' has no column `usr`",
        "node 't': `to.partitions`: needs a whole number, and this is 'many'",
        "node 't': `from`: there is no node 'nobody'",
        "node 't': `to.topic`: topic 'c d' is no topic name: letters, digits, `.`, `_` and `-` only",
        "node 'k': `groupBy`: needs a list, and this is 'user'",
        "node 'k': `store`: 'e f' cannot be part of a topic's name",
        "node 'k': `aggregate.n`: unknown function `summ`",
    ]


def test_what_could_not_be_checked_is_named(text: Callable[..., str]) -> None:
    nodes = (
        LINES
        + "- {name: a, with: {'n': '1'}, filter: n > 0}\n- {name: b, filter: n > 1}\n- {name: c, from: lines, filter: usr}"
    )
    with pytest.raises(ManifestError) as error:
        parse_manifest(text(nodes))
    assert error.value.unchecked == ("a", "b")


def test_settings_and_nodes_are_reported_together_in_the_order_of_the_text(text: Callable[..., str]) -> None:
    spec = "guarantee: exactly_once\nreplicas: 2\nautoscaling: {maxReplicas: 3}\nmaxParalelism: 4\n"
    with pytest.raises(ManifestError) as error:
        parse_manifest(text(LINES + "- {name: x, filter: usr = 'a'}\n- {name: out, to: {topic: o}}", spec))
    found = [(problem.line, problem.node, problem.field) for problem in error.value.problems]
    assert found == [(5, None, "guarantee"), (8, None, "maxParalelism"), (11, "x", "filter")]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("guarantee: at-most-once", "`guarantee`: there is no 'at-most-once'; did you mean `at-least-once`?"),
        ("replicas: two", "`replicas`: needs a whole number, and this is 'two'; write a number without quotes"),
        ("replicas: true", "`replicas`: needs a whole number, and this is true; write a number without quotes"),
        ("maxParallelism: 0", "`maxParallelism`: 0 is too small; at least 1"),
        (
            "epochInterval: 5",
            "`epochInterval`: `5` is no duration: it has no unit; write 5s for seconds, 5ms for milliseconds",
        ),
        (
            "epochInterval: '100'",
            "`epochInterval`: '100' is not a duration: a whole number and a unit; "
            "write e.g. 100ms, 5s, 5 minutes, 7 days",
        ),
        (
            "startFrom: yesterday",
            "`startFrom`: 'yesterday' is neither earliest nor latest nor a timestamp; "
            "write e.g. '2024-01-31T00:00:00Z'",
        ),
        (
            "onBadRecord: {deadLetters: t}",
            "`onBadRecord.deadLetter`: `deadLetter` is missing; add it, e.g. deadLetter: bad-records",
        ),
        (
            "applicationId: 'a b'",
            "`applicationId`: 'a b' cannot be the prefix of topics' names; use letters, digits, `.`, `_` and `-`",
        ),
        ("closeWindows: true", "`closeWindows` is for apps that stop; add run: untilCaughtUp"),
        ("schedule: '0 * * * *'", "`schedule` is for apps that stop; add run: untilCaughtUp"),
        (
            "replicas: 1\nautoscaling: {maxReplicas: 3}",
            "`replicas` and `autoscaling` are both there; remove one: autoscaling sets the replicas",
        ),
        (
            "autoscaling: {minReplicas: 5, maxReplicas: 3}",
            "`autoscaling`: minReplicas 5 is more than maxReplicas 3; make minReplicas the smaller one",
        ),
        (
            "upgrade: {allowStateLoss: [counts]}",
            "`upgrade.allowStateLoss`: a store cannot lose its state in place yet in "
            "this version; leave `allowStateLoss` out; another `store` on the node begins empty",
        ),
        (
            "standbyReplicas: 1",
            "`standbyReplicas`: warm copies of stores are not available yet in this version; "
            "leave `standbyReplicas` out",
        ),
        (
            "kafka: {bootstrapServers: localhost}",
            "`kafka.bootstrapServers`: 'localhost' is not HOST:PORT; write e.g. kafka:9092",
        ),
        (
            "kafka: {bootstrapServers: 'a:1,localhost:abc'}",
            "`kafka.bootstrapServers`: 'localhost:abc' is not HOST:PORT; write e.g. kafka:9092",
        ),
        ("kafka: k:9092", "`kafka`: needs a map, and this is 'k:9092'; write {bootstrapServers: k:9092}"),
        (
            "kafka: {}",
            "`kafka.bootstrapServers`: `bootstrapServers` is missing; add it, e.g. bootstrapServers: kafka:9092",
        ),
    ],
)
def test_settings_are_checked(problems: Problems, spec: str, expected: str) -> None:
    assert expected in problems(LINES + "- {name: out, to: {topic: o}}", spec)


@pytest.mark.parametrize(
    "node",
    [
        "sql: select 1",
        "process: {class: 'm:C'}",
        "to: {connector: parquet}",
        "stream: {connector: parquet}",
        "stream: {topic: u, value: avro}",
        "stream: {topic: u, value: {format: protobuf}}",
        "stream: {topic: u, value: debezium}",
    ],
)
def test_what_is_not_there_yet_is_refused_by_name(problems: Problems, node: str) -> None:
    found = problems(LINES + f"- {{name: x, {node}}}")
    assert sum("not available yet in this version" in problem for problem in found) == 1


@pytest.mark.parametrize("key", [True, 3, None, 1.5, (1, 2), b"name"])
@pytest.mark.parametrize(
    ("path", "where"),
    [
        ((), ""),
        (("metadata",), "`metadata`: "),
        (("spec", "kafka"), "`kafka`: "),
        (("spec", "topology", 0), "node 'a': "),
        (("spec", "topology", 0, "stream"), "node 'a': `stream`: "),
        (("spec", "topology", 1, "select"), "node 'b': `select`: "),
    ],
)
def test_keys_of_plain_data_are_text(path: tuple[str | int, ...], where: str, key: object) -> None:
    nodes = [{"name": "a", "stream": {"topic": "t", "value": "text"}}, {"name": "b", "select": {"c": "value"}}]
    head = {"apiVersion": "streamapp.dev/v1alpha1", "kind": "StreamApp", "metadata": {"name": "a"}}
    data: Any = {**head, "spec": {"kafka": {"bootstrapServers": "k:9092"}, "topology": nodes}}
    place = data
    for part in path:
        place = place[part]
    place[key] = "x"
    with pytest.raises(ManifestError) as error:
        parse_object(data)
    assert str(error.value) == f"{where}the key {key!r} is no text; write a name in quotes"


def test_plain_data_may_be_nested_deep_and_stays_as_it_is() -> None:
    template: Any = {1: "x"}
    for _ in range(3000):
        template = {"a": template}
    nodes = [{"name": "a", "stream": {"topic": "t", "value": "text"}}, {"name": "b", "to": {"topic": "u"}}]
    head = {"apiVersion": "streamapp.dev/v1alpha1", "kind": "StreamApp", "metadata": {"name": "a"}}
    with pytest.raises(ManifestError) as error:
        parse_object({**head, "spec": {"driver": {"podTemplate": template}, "topology": nodes}})
    assert str(error.value).endswith(".a.a`: the key 1 is no text; write a name in quotes")
    for _ in range(3000):
        template = template["a"]
    assert template == {1: "x"}


def test_plain_data_is_checked_like_text() -> None:
    with pytest.raises(ManifestError) as error:
        parse_object(
            {
                "apiVersion": "streamapp.dev/v1alpha1",
                "kind": "StreamApp",
                "metadata": {"name": "a"},
                "spec": {},
            }
        )
    assert [str(problem) for problem in error.value.problems] == [
        "`topology` is missing; add it, e.g. topology: [{name: lines, stream: {topic: text-lines, value: text}}, …]"
    ]


RATES = "- {name: rates, table: {topic: r, history: 1 hour, value: {format: json, schema: 'rate INT, g STRING'}}}\n"
CLICKS = RATES + "- {name: clicks, stream: {topic: c}}\n"


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        (
            CLICKS.replace("history: 1 hour, ", "") + "- {name: x, join: {with: rates, asOf: true}}\n",
            "`join.asOf`: 'rates' keeps no history; add it to 'rates', e.g. history: 1 hour",
        ),
        (
            f"{CLICKS}- {{name: x, store: s, join: {{with: rates}}}}\n",
            "`store`: the join keeps nothing: it is computed of what its tables keep; remove `store`",
        ),
        (
            f"{CLICKS}- {{name: high, from: rates, filter: rate > 1}}\n"
            "- {name: x, from: clicks, join: {with: high, asOf: true, grace: 2h}}\n",
            "`join.grace`: records wait for 2h, and 'rates' has a history of 1 hour: the rows that they are to meet would be gone; "
            "make it shorter, or the history of 'rates' longer",
        ),
        (
            f"{CLICKS}- {{name: seen, join: {{with: rates, asOf: true, select: {{g: right.g}}}}}}\n"
            "- {name: per-g, groupBy: [g], aggregate: {many: count(*)}}\n- {name: told, toStream: {}}\n"
            "- {name: x, join: {with: rates, by: [g], asOf: true, select: {rate: right.rate}}}\n",
            "`join.asOf`: 'rates' comes to this join by an internal topic, which brings no history; read its topic with a "
            "second `table` node, for this join",
        ),
    ],
)
def test_a_row_of_the_records_time_must_be_known(problems: Problems, nodes: str, said: str) -> None:
    assert problems(nodes + "- {name: out, to: {topic: o}}\n") == [f"node 'x': {said}"]
