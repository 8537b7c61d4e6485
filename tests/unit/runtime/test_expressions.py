# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamapp.expressions import normalise, quote, read_expression


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("split(lower(value), ' ')", {("value",)}),
        ("timestamp > '2020-01-01' and offset % 2 = 0", {("timestamp",), ("offset",)}),
        ("timestamp '2020-01-01 00:00:00'", set()),
        ("`my-node`.`a b`.c", {("my-node", "a b", "c")}),
        ("transform(xs, x -> x + y)", {("xs",), ("y",)}),
        ("aggregate(xs, 0, (acc, x) -> acc + x)", {("xs",)}),
        ("transform(users, user -> user.name)", {("users",)}),
        ("extract(year from timestamp)", {("timestamp",)}),
        ("datediff(DAY, a, b)", {("a",), ("b",)}),
        ("cast(x as decimal(10, 2))", {("x",)}),
        ("case user when 'x' then 1 else 0 end", {("user",)}),
        ("headers[0].value", {("headers",)}),
        ("count(*) filter (where n > 1)", {("n",)}),
        ("current_date", set()),
    ],
)
def test_columns_are_found(text: str, columns: set[tuple[str, ...]]) -> None:
    found = read_expression(text)
    assert found.faults == ()
    assert set(found.columns) == columns


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("reflect('a', 'b')", "reaches outside"),
        ("`reflect`('a', 'b')", "reaches outside"),
        ("ReFlEcT ('a', 'b')", "reaches outside"),
        ("if(true, 1, java_method('a', 'b'))", "reaches outside"),
        ("r'\\' || try_reflect('a', 'b')", "reaches outside"),
        ("input_file_name()", "it is about files"),
        ("my.own(1)", "called with a qualified name"),
        ("read_files('/etc')", "unknown function `read_files`"),
        ("(select max(x) from t)", "is a statement and not an expression"),
        ("x in (select y from t)", "holds a query"),
        ("exists(select 1)", "holds a query"),
        ("1 + (table t)", "is no expression"),
        ("x in (values 1)", "holds a query"),
        ("(from t select x)", "is a statement"),
        ("1 + (describe t)", "holds a query"),
        ("identifier('reflect')('a', 'b')", "cannot be parsed"),
        ("row_number() over (order by x)", "looks at neighbouring rows"),
        ("sum(x) over ()", "uses OVER"),
        ("explode(xs)", "makes several rows of one"),
        ("window(timestamp, '5 minutes')", "windows are a field of the node"),
        ("sum(distinct x)", "aggregates DISTINCT values"),
        ("approx_count_distinct(distinct x)", "aggregates DISTINCT values"),
        ("count(distinct *)", "uses `*`"),
        ("mode(x)", "how its state lies in memory"),
        ("collect_set(x)", "in which they lie in memory"),
        ("sum(count(*))", "aggregate function `count` is inside another"),
        ("struct(*)", "uses `*`"),
        ("*", "is `*`"),
        ("a as b", "gives the expression a name"),
        ("a; b", "holds a `;`"),
        ("a, b", "cannot be parsed"),
        ("'open", "cannot be read"),
        ("(a", "cannot be parsed"),
        ("?", "parameter marker"),
        (":name", "parameter marker"),
        ("drop table t", "is a statement"),
        ("-- nothing", "holds a comment, `--`"),
        ("/* /*+ */ reflect('java.lang.System', 'getProperty', 'user.dir') || -- */\n 'x'", "holds a comment, `/*`"),
        ("a /* b */", "holds a comment"),
        ("a /*+ broadcast(b) */", "holds a comment"),
        ("a {# b #}", "holds `{`"),
        ("{{ a }}", "holds `{`"),
        ("$$a$$", "holds `$`"),
        ("a # b", "holds `#`"),
        ("a \\ b", "holds `\\`"),
        ("a\u200b + b", "U+200B"),
        ("'a\u202eb'", "U+202E"),
        ("`a\u2066`", "U+2066"),
        ("a\x0b+ b", "U+000B"),
        ("a\u00a0+ b", "outside of quotes"),
        ("größe + 1", "holds `ö` outside of quotes"),
        ("n'a\\'", "is not closed"),
        ("n'a'", "can be read in two ways"),
        ("1 + 'open", "the quote ' at character 5 is not closed"),
        ("at > timestamp 'now'", "`now` as a time is when Spark plans"),
        ("cast(' Today UTC' as date)", "`today` as a time"),
        ("'yesterday'::timestamp_ntz", "`yesterday` as a time"),
        ("to_timestamp('tomorrow')", "`tomorrow` as a time"),
        ("  ", "is empty"),
        ("x" * 30_000, "is longer than"),
    ],
)
def test_what_a_stream_cannot_do_is_refused(text: str, said: str) -> None:
    faults = read_expression(text).faults
    assert faults
    assert any(said in fault.message for fault in faults)


@pytest.mark.parametrize("text", ["at > 'now'", "timestamp 'epoch'", "cast('nowhere' as date)", "cast(now as date)"])
def test_what_is_no_word_for_a_time_is_read(text: str) -> None:
    assert read_expression(text).faults == ()


@pytest.mark.parametrize("text", ["array_sort(collect_list(x))", "sort_array(collect_set(x), false)"])
def test_a_sorted_list_does_not_depend_on_the_order(text: str) -> None:
    assert read_expression(text).faults == ()


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    "text",
    [
        "(" * 3000 + "1" + ")" * 3000,
        "+".join(["1"] * 5000),
        "not " * 4000 + "a",
        "a" + "[0]" * 3000,
        "case when " * 1500 + "1",
        "- " * 5000 + "1",
        "a" + ".b" * 5000,
        "~" * 9000 + "1",
        "array(" * 2000,
        "x -> " * 2000 + "1",
        "a and " * 3000 + "b",
        "cast(a as " + "array<" * 190 + "int" + ">" * 190 + ")",
    ],
)
def test_deep_expressions_are_refused_and_do_no_harm(text: str) -> None:
    assert read_expression(text).faults


@given(st.text(max_size=60) | st.text(alphabet="()[]'\"`,.*+-/ <>=abcselfrom0123|&~:;?{}\\", max_size=60))
def test_any_text_gives_an_answer(text: str) -> None:
    read_expression(text)
    normalise(text)


@pytest.mark.parametrize(
    "text", ["rand()", "uuid()", "shuffle(xs)", "aes_encrypt(a, b)", "1 + monotonically_increasing_id()"]
)
def test_what_cannot_be_repeated_is_known(text: str) -> None:
    assert not read_expression(text).deterministic


@pytest.mark.parametrize("text", ["current_timestamp()", "now()", "current_date", "hash(x)", "'rand()'"])
def test_the_time_of_an_epoch_can_be_repeated(text: str) -> None:
    assert read_expression(text).deterministic


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("SUM( amount )", "sum(amount)"),
        ("`amount` + 1", "AMOUNT+1"),
        ("a /* why */ + b -- so\n", "a+b"),
        ("a   AND\n b", "a and b"),
    ],
)
def test_spelling_does_not_matter(one: str, other: str) -> None:
    assert normalise(one) == normalise(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("'A'", "'a'"),
        ("'a b'", "'a  b'"),
        ("a b", "ab"),
        ("'--x'", "''"),
        ("`a b`", "ab"),
        ("r'\\'", "'\\\\'"),
        ("r'\\' || 'A'", "r'\\' || 'a'"),
        ("r'\\'  || ' A'", "r'\\'  || 'A'"),
        ("'a' 'b'", "'a''b'"),
        ('"a" "b"', '"a""b"'),
    ],
)
def test_meaning_does(one: str, other: str) -> None:
    assert normalise(one) != normalise(other)


@pytest.mark.parametrize(
    "text",
    [
        "'größe -- /* */ {# #} $ # \\\\'",
        "`größe`",
        "r'\\d+' || r\"\\\"",
        "X'00'",
        "'it''s'",
        "'it\\'s'",
        "date'2020-01-01'",
        "a - -b",
    ],
)
def test_texts_in_quotes_may_hold_anything_that_is_seen(text: str) -> None:
    assert read_expression(text).faults == ()


def test_names_are_quoted_where_they_must_be() -> None:
    assert [quote(name) for name in ("user", "_x1", "my-node", "a`b", "1a", "größe")] == [
        "user",
        "_x1",
        "`my-node`",
        "`a``b`",
        "`1a`",
        "`größe`",
    ]


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("repeat(x, 2147483647)", "2,147,483,647"),
        ("length(repeat('a', 1000001))", "1,000,001"),
        ("space(2000000)", "2,000,000"),
        ("lpad(x, 10000000, '-')", "10,000,000"),
        ("`repeat`(x, 2000000L)", "2,000,000"),
        ("array_repeat(x, 1e9)", "1,000,000,000"),
        ("array_repeat(x, 1e999)", "1,000,000,000,000,000,000"),
        ("sequence(1, 5000000)", "5,000,000"),
        ("sequence(-1, -9000000, -2)", "4,500,000"),
        ("transform(sequence(0, 1000000), i -> i)", "1,000,001"),
        ("format_string('%02147483647d', 1)", "2,147,483,647"),
        ("repeat(repeat('x', 1000), 1001)", "1,001,000"),
        ("repeat('x', (2000000000))", "2,000,000,000"),
        ("sequence(1, ((5000000)))", "5,000,000"),
        ("array_repeat(sequence(1, 10000), 101)", "1,010,000"),
    ],
)
def test_a_constant_that_asks_for_gigabytes_is_refused(text: str, size: str) -> None:
    (fault,) = read_expression(text).faults
    assert f" asks for {size} elements or characters of each record" in fault.message
    assert fault.fix == "1,000,000 are the most"


@pytest.mark.parametrize(
    "text",
    [
        "repeat('x', 50000 * 50000)",
        "space(int('2000000000'))",
        "rpad(x, cast(2000000000 as int))",
        "sequence(timestamp'1970-01-01', timestamp'2026-01-01', interval 1 second)",
    ],
)
def test_a_size_that_is_computed_of_constants_is_refused(text: str) -> None:
    (fault,) = read_expression(text).faults
    assert "has a size that is computed of constants" in fault.message


@pytest.mark.parametrize(
    "text",
    [
        "repeat(x, 1000000)",
        "repeat(x, n)",
        "sequence(0, n)",
        "sequence(1, 5000000, 9)",
        "lpad(x, 20)",
        "rpad(x, n + 1)",
        "sequence(to_date('2020-01-01'), to_date('2020-12-31'), interval 1 day)",
        "repeat('=', length(x))",
        "sequence(to_date('2020-01-01'), to_date('2020-12-31'))",
        "repeat(repeat('x', 1000), 1000)",
        "transform(sequence(1, 3), i -> repeat('x', i))",
    ],
)
def test_a_size_that_is_moderate_or_of_the_record_is_none_of_the_checks(text: str) -> None:
    assert read_expression(text).faults == ()
