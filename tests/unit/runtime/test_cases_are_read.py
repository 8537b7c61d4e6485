# SPDX-License-Identifier: Apache-2.0
"""Files of test cases: all mistakes in them are reported at once, each with its place."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from streamapp.testing.cases import CaseError, Expect, read_cases
from streamapp.testing.compare import difference, rows_difference
from streamapp.testing.fit import misfits

FILE = Path("cases.yaml")
EXAMPLE = Path(__file__).parents[3] / "examples" / "tests" / "word-count.yaml"

HEAD = "app: word-count.yaml\ncases:\n- name: a\n  steps:\n"


def problems(steps: str, head: str = HEAD) -> tuple[str, ...]:
    with pytest.raises(CaseError) as caught:
        read_cases(head + steps, FILE)
    return caught.value.problems


@pytest.mark.parametrize(
    ("steps", "told"),
    [
        ("  - {}\n", "`cases[0].steps[0]`: is empty; a step is one of send, expect, "),
        ("  - {crash: {}, restart: {}}\n", "`cases[0].steps[0]`: has `crash` and `restart`; a step is one of"),
        ("  - {sent: {}}\n", "`cases[0].steps[0].sent`: unknown field `sent`; did you mean `send`? (line 5)"),
        (
            "  - advance: 1 parsec\n",
            "[0].advance`: '1 parsec' is not a duration: no unit `parsec`; write e.g. ",
        ),
        (
            "  - advance: 5\n",
            "[0].advance`: '5' is not a duration: a whole number and a unit; write e.g. ",
        ),
        ("  - advance: 0s\n", "`cases[0].steps[0].advance`: moves nothing; write e.g. advance: 1 hour (line 5)"),
        (
            "  - advance: {processing: 1 hour}\n",
            "the clock's time cannot be moved, as no timers go by it in this",
        ),
        ("  - scale: 100\n", "`cases[0].steps[0].scale`: input should be less than or equal to 16, and it is 100"),
        ("  - send: {topic: t, records: []}\n", "`cases[0].steps[0].send.records`: list should have at least 1 item"),
        ("  - send: {records: [{value: a}]}\n", "`cases[0].steps[0].send`: `topic` is missing; add it (line 5)"),
        ("  - send: {topic: t, records: [{valeu: a}]}\n", "unknown field `valeu`; did you mean `value`? (line 5)"),
        ("  - expect: {topic: t, records: [], order: keys}\n", "input should be 'key', 'exact', 'any' or 'last'"),
        ("  - store: {name: s, key: a, value: {}, rows: []}\n", "`store` needs one of `value`, for a"),
        ("  - crash: {}\n- name: a\n  steps: [{crash: {}}]\n", "there are two cases named 'a'"),
        ("  - send: {topic: t, records: [{value: 'a}]}\n", "is not YAML"),
    ],
)
def test_mistakes_are_told_with_their_place(steps: str, told: str) -> None:
    assert any(told in problem for problem in problems(steps)), problems(steps)


def test_each_case_names_its_app_or_the_file_does() -> None:
    assert "names no `app`" in problems("  - crash: {}\n", "cases:\n- name: a\n  steps:\n")[0]
    assert "is empty" in problems("", "")[0]


def test_topics_and_stores_that_the_app_does_not_have_are_told_before_anything_starts(tmp_path: Path) -> None:
    text = EXAMPLE.read_text().replace("app: ../word-count.yaml", f"app: {EXAMPLE.parents[1] / 'word-count.yaml'}")
    assert misfits(read_cases(text, FILE)) == []
    wrong = text.replace("topic: text-lines", "topic: text-line").replace("name: word-counts,", "name: words,")
    told = misfits(read_cases(wrong, FILE))
    assert len(told) == 4
    assert "case 'counts words': `send`: the app does not read topic 'text-line'; did you mean `text-lines`?" in told[0]
    assert "`store`: the app has no store 'words'; did you mean `word-counts`?" in told[1]


def test_the_clock_cannot_be_moved(tmp_path: Path) -> None:
    """Event time that is the clock's would not move with the case."""
    lines = "  - {name: lines,  stream: {topic: text-lines, value: text, timestamp: processing}}"
    app = (EXAMPLE.parents[1] / "word-count.yaml").read_text()
    (tmp_path / "word-count.yaml").write_text(app)
    cases = read_cases(HEAD + "  - advance: 1 hour\n", tmp_path / "cases.yaml")
    assert cases.cases[0].steps[0].advance_ms == 3_600_000
    assert misfits(cases) == []
    source = next(line for line in app.splitlines() if "name: lines" in line)
    (tmp_path / "word-count.yaml").write_text(app.replace(source, lines))
    (told,) = misfits(cases)
    assert "`advance`: node 'lines' has `timestamp: processing`, and a case cannot move the clock; " in told


def expected(order: str, *records: Mapping[str, object]) -> tuple[str, ...]:
    seen = [
        {"key": "a", "value": {"n": 1}, "timestamp": "2024-01-01T00:00:00.000Z", "partition": 0},
        {"key": "b", "value": {"n": 1}, "timestamp": "2024-01-01T00:00:01.000Z", "partition": 0},
        {"key": "a", "value": {"n": 2}, "timestamp": "2024-01-01T00:00:02.000Z", "partition": 0},
    ]
    steps = f"  - expect: {{topic: t, order: {order}, records: {[dict(record) for record in records]}}}\n"
    step = read_cases(HEAD + steps, FILE).cases[0].steps[0].expect
    assert step is not None
    return difference(step, seen)


A1: Mapping[str, object] = {"key": "a", "value": {"n": 1}}
A2: Mapping[str, object] = {"key": "a", "value": {"n": 2}}
B1: Mapping[str, object] = {"key": "b", "value": {"n": 1}}


def test_words_of_records_are_texts_as_they_are_written() -> None:
    """YAML has numbers and booleans of its own, and topics have none."""
    records = "{key: y, value: 1.50}, {key: 007, value: null}, {value: {'n': y, x: 1.50}}"
    send = read_cases(f"{HEAD}  - send: {{topic: t, records: [{records}]}}\n", FILE).cases[0].steps[0].send
    assert send is not None
    assert send.records == [
        {"key": "y", "value": "1.50"},
        {"key": "007", "value": None},
        {"value": {"n": True, "x": 1.5}},
    ]


def test_order_by_key_is_kept_within_a_key_only() -> None:
    assert expected("key", B1, A1, A2) == ()
    assert expected("key", A2, B1, A1) != ()
    assert expected("any", A2, B1, A1) == ()
    assert expected("exact", A1, B1, A2) == ()
    assert expected("exact", B1, A1, A2) != ()


def test_the_last_record_of_each_key_is_what_a_table_comes_to() -> None:
    assert expected("last", B1, A2) == ()
    assert expected("last", B1, A1) != ()
    assert expected("last", A2) == ('  key "a" value {"n": 2}', '+ key "b" value {"n": 1}')
    gone: Mapping[str, object] = {"key": "b", "value": None}
    records = [dict(A2), dict(gone)]
    assert difference(Expect(topic="t", records=records, order="last"), [B1, A1, gone, A2]) == ()
    assert difference(Expect(topic="t", records=records, order="last"), [gone, A2, A1, B1]) == (
        '- key "a" value {"n": 2}',
        '+ key "a" value {"n": 1}',
        '- key "b" value null',
        '+ key "b" value {"n": 1}',
    )


@pytest.mark.parametrize(
    ("records", "told"),
    [("{key: a, value: null}, {key: a, value: {'n': 1}}", '2 of key "a"'), ("{value: null}", "name the key")],
)
def test_the_last_record_of_a_key_is_one(records: str, told: str) -> None:
    (problem,) = problems(f"  - expect: {{topic: t, order: last, records: [{records}]}}\n")
    assert told in problem


def test_a_missing_and_an_extra_record_are_shown() -> None:
    told = expected("key", A1, B1)
    assert told == ('  key "a" value {"n": 1}', '+ key "a" value {"n": 2}', '  key "b" value {"n": 1}')
    assert '- key "b" value {"n": 1}' in expected("key", A1, A2, B1, B1)


def test_only_fields_that_are_named_are_compared() -> None:
    at_one = {**B1, "timestamp": "2024-01-01T02:00:01+02:00"}
    assert expected("key", A1, at_one, A2) == ()
    assert expected("key", A1, {**B1, "timestamp": "2024-01-01T00:00:09Z"}, A2) != ()
    assert expected("any", {"value": {"n": 1}}, {"value": {"n": 1}}, {"value": {"n": 2}}) == ()


def test_rows_of_a_store() -> None:
    rows = [{"word": "a", "count": 2}]
    assert rows_difference([{"count": 2}], rows) == ()
    assert rows_difference([], rows) == ('+ {"count": 2, "word": "a"}',)
    assert rows_difference([{"count": 3}], rows) == ('- {"count": 3}', '+ {"count": 2}')
    assert rows_difference([{"count": 3}], []) == ('- {"count": 3}',)
