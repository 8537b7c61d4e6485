# SPDX-License-Identifier: Apache-2.0
"""The effect of each node on records, from topic to topic."""

from __future__ import annotations

import os
import re
import signal
import struct
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from lib.faults import alter
from lib.inprocess import App, Record
from streamapp.errors import DataError, InputError, ManifestError, StreamAppError
from streamapp.kafka.admin import Admin
from streamapp.kafka.config import KafkaConfig

pytestmark = pytest.mark.kafka

Make = Callable[..., App]
HOUR = 3_600_000
NOON = 1_704_110_400_000  # 2024-01-01T12:00:00Z


@pytest.fixture
def app(kafka: KafkaConfig, tmp_path: Path) -> Make:
    def make(topology: str, spec: str = "", inputs: tuple[str, ...] = ("in",), partitions: int = 1) -> App:
        made = App(kafka, tmp_path, topology, spec)
        made.create(*inputs, partitions=partitions)
        return made

    return make


def test_the_current_time_is_that_of_the_epoch(app: Make) -> None:
    """The time of the epoch before a shuffle, and in a task, whose expressions live from epoch to epoch."""
    a = app(
        """
  - {name: in, stream: {topic: $T-in, value: {format: json, schema: "at BIGINT"}}}
  - {name: timed, with: {at: unix_micros(now())}}
  - {name: known, table: {topic: $T-known, value: text}}
  - name: joined
    from: timed
    join:
      with: known
      type: left
      select:
        at: timed.at
        here: unix_micros(current_timestamp())
        now: unix_micros(now())
        day: current_date() = cast(current_timestamp() as date)
        local: unix_micros(cast(localtimestamp() as timestamp))
  - {name: out, to: {topic: $T-out}}
""",
        inputs=("in", "known"),
    )
    # An app begins with epochs of a few thousand records.
    a.send("in", *((f"k{i}", {"at": 0}, NOON) for i in range(20_000)))
    begun = time.time() * 1e6
    a.run()
    found = [
        (r.value["at"], r.value["here"], r.value["now"], r.value["local"], r.value["day"]) for r in a.received("out")
    ]
    assert len(found) == 20_000
    assert all((here, now, local, day) == (at, at, at, True) for at, here, now, local, day in found)
    epochs = {at for at, *_ in found}
    assert len(epochs) > 1
    assert all(begun < at < time.time() * 1e6 for at in epochs)


def test_filter_with_and_select_keep_key_and_time(app: Make) -> None:
    a = app("""
  - {name: in, stream: {topic: $T-in, value: {format: json, schema: "user STRING, amount DOUBLE"}}}
  - {name: big, filter: amount > 10}
  - {name: taxed, with: {tax: amount * 0.5}}
  - {name: shown, select: {who: upper(user), total: amount + tax, offset: offset}}
  - {name: out, to: {topic: $T-out}}
  - {name: again, stream: {topic: $T-in, value: text, timestamp: processing}}
  - {name: again-out, to: {topic: $T-again, value: text}}
""")
    a.send(
        "in",
        ("k1", {"user": "ada", "amount": 20}, NOON),
        ("k2", {"user": "bob", "amount": 5}, NOON),
        ("k3", {"user": None, "amount": 12}, NOON + 1),
    )
    begun = int(time.time() * 1000)
    a.run()
    assert sorted((r.key, r.value, r.timestamp) for r in a.received("out")) == [
        ("k1", {"offset": 0, "total": 30.0, "who": "ADA"}, NOON),
        ("k3", {"offset": 2, "total": 18.0, "who": None}, NOON + 1),
    ]
    (epoch,) = {r.timestamp for r in a.received("again")}  # `timestamp: processing` is the time of the epoch
    assert begun <= epoch <= time.time() * 1000


def test_branches_and_several_sinks_come_from_one_pass(app: Make) -> None:
    a = app(
        """
  - {name: in, stream: {topic: $T-in, value: text}}
  - {name: all, to: {topic: $T-all, value: text}}
  - {name: words, from: in, flatMap: {word: "split(value, ' ')"}}
  - {name: only, select: {word: word}}
  - name: by-length
    branch: [{name: short, when: length(word) < 3}, {name: long, when: length(word) > 5}, {name: rest}]
  - {name: short-out, from: short, to: {topic: $T-short, value: text}}
  - {name: loud, from: long, select: {word: upper(word)}}
  - {name: both, merge: [loud, rest]}
  - {name: both-out, to: {topic: $T-both, value: text}}
""",
        partitions=2,
    )
    a.send("in", ("a", "it is a streaming topology"), ("b", "in the log"))
    a.send("in", ("c", "of streams"), partition=1)
    a.run()
    assert len(a.plan.subtopologies) == 1
    assert sorted(r.value for r in a.received("all")) == [
        "in the log",
        "it is a streaming topology",
        "of streams",
    ]
    assert sorted(r.value for r in a.received("short")) == ["a", "in", "is", "it", "of"]
    assert sorted((r.key, r.value) for r in a.received("both")) == [
        ("a", "STREAMING"),
        ("a", "TOPOLOGY"),
        ("b", "log"),
        ("b", "the"),
        ("c", "STREAMS"),
    ]


def test_order_within_a_key_is_kept_without_state(app: Make) -> None:
    a = app(
        """
  - {name: in, stream: {topic: $T-in, value: long}}
  - {name: out, to: {topic: $T-out, value: long}}
""",
        partitions=2,
    )
    for partition in (0, 1):
        a.send("in", *((f"k{partition}", str(n)) for n in range(200)), partition=partition)
    a.run()
    for key in ("k0", "k1"):
        assert [r.value for r in a.received("out") if r.key == key] == list(range(200))


def test_null_keys_take_no_part_in_a_group(app: Make) -> None:
    a = app("""
  - {name: in, stream: {topic: $T-in, value: text}}
  - {name: counts, groupBy: [key], aggregate: {'n': count(*), latest: max(timestamp)}}
  - {name: out, to: {topic: $T-out}}
""")
    a.send(
        "in",
        ("a", "1", NOON),
        (None, "2", NOON),
        ("a", None, NOON),
        ("a", "3", NOON + 5000),
        ("b", "4", NOON),
    )
    a.run()
    assert a.latest("out") == {
        "a": {"latest": "2024-01-01T12:00:05.000Z", "n": 2},
        "b": {"latest": "2024-01-01T12:00:00.000Z", "n": 1},
    }
    assert {r.key: r.timestamp for r in a.received("out")} == {
        "a": NOON + 5000,
        "b": NOON,
    }  # the latest input's time


def test_a_table_row_that_stops_matching_is_deleted(app: Make) -> None:
    a = app("""
  - {name: in, stream: {topic: $T-in, value: long}}
  - {name: sums, groupBy: [key], aggregate: {total: sum(value)}}
  - {name: small, filter: total < 10}
  - {name: out, to: {topic: $T-out}}
""")
    a.send("in", ("a", "3"), ("b", "4"))
    a.run()
    assert a.latest("out") == {"a": {"total": 3}, "b": {"total": 4}}
    a.send("in", ("a", "30"))
    a.run()
    assert a.latest("out") == {"a": None, "b": {"total": 4}}


def test_a_deletion_stays_one_and_the_key_can_be_used_after_select(app: Make) -> None:
    a = app("""
  - {name: in, stream: {topic: $T-in, value: long}}
  - {name: sums, groupBy: [key], aggregate: {total: sum(value)}}
  - {name: small, filter: total < 10}
  - {name: shown, select: {double: total * 2}}
  - {name: named, with: {who: upper(key)}}
  - {name: out, to: {topic: $T-out}}
""")
    a.send("in", ("a", "3"), ("b", "40"))
    a.run()
    assert a.latest("out") == {"a": {"double": 6, "who": "A"}, "b": None}


def test_tumbling_windows_by_event_time(app: Make) -> None:
    a = app("""
  - {name: in, stream: {topic: $T-in, value: {format: json, schema: "at TIMESTAMP, n INT"}, timestamp: at}}
  - {name: sums, groupBy: [key], window: {tumbling: 1 hour}, grace: 0s, aggregate: {total: sum(n)}}
  - {name: out, to: {topic: $T-out}}
""")
    a.send(
        "in",
        ("a", {"at": "2024-01-01T12:10:00Z", "n": 1}),
        ("a", {"at": "2024-01-01T12:50:00Z", "n": 2}),
        ("a", {"at": "2024-01-01T13:00:00Z", "n": 4}),
    )
    a.run()
    window = '{{"key":"a","window_start":"2024-01-01T{0}:00:00.000Z","window_end":"2024-01-01T{1}:00:00.000Z"}}'
    assert a.latest("out") == {window.format(12, 13): {"total": 3}, window.format(13, 14): {"total": 4}}


def test_hopping_windows_overlap(app: Make) -> None:
    a = app("""
  - {name: in, stream: {topic: $T-in, value: text}}
  - {name: counts, groupBy: [key], window: {hopping: 1 hour, every: 30 minutes}, aggregate: {'n': count(*)}}
  - {name: out, to: {topic: $T-out}}
""")
    a.send("in", ("a", "x", NOON + HOUR // 4))
    a.run()
    assert len(a.latest("out")) == 2


def test_final_results_come_once_when_the_window_closes(app: Make) -> None:
    a = app("""
  - {name: in, stream: {topic: $T-in, value: text}}
  - {name: counts, groupBy: [key], window: {tumbling: 1 hour}, grace: 10 minutes, emit: final,
     aggregate: {'n': count(*)}}
  - {name: out, to: {topic: $T-out}}
""")
    a.send("in", ("a", "x", NOON), ("a", "y", NOON + HOUR - 1), ("b", "z", NOON + HOUR + 1))
    a.run()
    assert a.received("out") == []  # the watermark is before the window's end plus grace
    a.send("in", ("c", "w", NOON + 3 * HOUR))
    a.run()
    a.send("in", ("c", "late", NOON), ("c", "w", NOON + 4 * HOUR))
    a.run()
    finals = [(r.key, r.value) for r in a.received("out")]
    assert len(finals) == len({k for k, _ in finals})
    assert all('"key":"c"' not in str(k) or v == {"n": 1} for k, v in finals)
    assert sorted((str(k)[8], v["n"]) for k, v in finals)[:2] == [("a", 2), ("b", 1)]
    late = sum(p["lateRecords"] for p in a.statuses[-1]["subTopologies"].values())
    assert late == 1


def test_a_stream_stream_join_pairs_within_the_window(app: Make) -> None:
    a = app(
        """
  - {name: orders, stream: {topic: $T-orders, value: {format: json, schema: "id STRING, amount INT"}}}
  - {name: by-id, keyBy: [id]}
  - {name: payments, stream: {topic: $T-payments, value: {format: json, schema: "id STRING, paid INT"}}}
  - {name: payments-by-id, keyBy: [id]}
  - name: paid
    from: by-id
    join:
      with: payments-by-id
      within: 10 minutes
      grace: 1 minute
      select:
        id: "`by-id`.id"
        open: "`by-id`.amount - `payments-by-id`.paid"
        after: "unix_millis(`payments-by-id`.timestamp) - unix_millis(`by-id`.timestamp)"
  - {name: out, to: {topic: $T-out}}
  - {name: totals, from: paid, groupBy: [id], aggregate: {'n': count(*), open: sum(open)}}
  - {name: totals-out, to: {topic: $T-totals}}
""",
        inputs=("orders", "payments"),
    )
    a.send("orders", (None, {"id": "o1", "amount": 10}, NOON), (None, {"id": "o2", "amount": 20}, NOON))
    a.send(
        "payments",
        (None, {"id": "o1", "paid": 7}, NOON + 5 * 60_000),
        (None, {"id": "o1", "paid": 1}, NOON - 60_000),
        (None, {"id": "o2", "paid": 20}, NOON + HOUR),
        (None, {"id": "o1", "paid": 2}, NOON - 60_000),  # more than within and grace behind what its partition has
    )
    a.run()
    got = sorted((r.key, r.value["open"], r.value["after"], r.timestamp) for r in a.received("out"))
    assert got == [("o1", 3, 5 * 60_000, NOON + 5 * 60_000), ("o1", 9, -60_000, NOON)]
    assert a.latest("totals") == {"o1": {"n": 2, "open": 12}}
    assert a.statuses[-1]["subTopologies"]["paid"]["lateRecords"] == 1
    assert len(a.plan.subtopologies) == 1


def test_every_format_is_read_and_written(app: Make) -> None:
    formats: list[tuple[str, bytes, object]] = [
        ("text", b"t\xc3\xa9xt", "t\u00e9xt"),
        ("bytes", b"\x00\xff", "AP8="),
        ("integer", b"-7", -7),
        ("long", b"9000000000", 9_000_000_000),
        ("double", b"2.5", 2.5),
        ("bigendian-integer", struct.pack(">i", -7), -7),
        ("bigendian-long", struct.pack(">q", -9_000_000_000), -9_000_000_000),
        ("bigendian-double", struct.pack(">d", 2.5), 2.5),
    ]
    nodes = """
  - {name: $F, stream: {topic: $T-$F, value: {format: $F}, key: {format: $F}}}
  - {name: $F-json, to: {topic: $T-$F-json}}
  - {name: $F-same, from: $F, to: {topic: $T-$F-same, value: {format: $F}, key: {format: $F}}}
"""
    inputs = tuple(form for form, _, _ in formats)
    a = app("".join(nodes.replace("$F", form) for form in inputs), inputs=inputs)
    for form, raw, _ in formats:
        a.send(form, (raw, raw), (None, None))
    a.run()
    for form, raw, shown in formats:
        values = [r.value for r in a.received(f"{form}-json")]
        assert sorted(values, key=str) == sorted([{"value": shown}, None], key=str), form
        assert sorted(a.raw(f"{form}-same"), key=str) == sorted([(raw, raw), (None, None)], key=str), form


BAD = """
  - {name: in, stream: {topic: $T-in, value: {format: json, schema: "n INT"}}}
  - {name: sums, groupBy: [key], aggregate: {total: sum(n)}}
  - {name: out, to: {topic: $T-out}}
"""


@pytest.mark.parametrize("bad", ["no json", '{"n": "seven"}', "[1]", "7"])
def test_a_bad_record_fails_and_is_named(app: Make, bad: str) -> None:
    a = app(BAD)
    a.send("in", ("a", {"n": 1}), ("a", bad))
    with pytest.raises(InputError, match=r"node 'in': topic .*-in, partition 0, offset 1: .*json") as failure:
        a.run()
    assert bad in str(failure.value)


def test_a_number_that_is_none_is_named(app: Make) -> None:
    numbers = [
        ("value", "integer", b"9000000000"),
        ("value", "long", b"7.5"),
        ("value", "double", b"2,5"),
        ("value", "bigendian-integer", b"abc"),
        ("value", "bigendian-long", b"abcd"),
        ("value", "bigendian-double", b""),
        ("key", "integer", b"seven"),
        ("key", "bigendian-long", b"abcd"),
    ]
    nodes = []
    for part, form, _ in numbers:
        formats = {"key": "text", "value": "text"} | {part: form}
        name = f"{part}-{form}"
        nodes.append(f"""
  - {{name: {name}, stream: {{topic: $T-{name}, key: {formats["key"]}, value: {formats["value"]}}}}}
  - {{name: to-{name}, to: {{topic: $T-out}}}}
""")
    inputs = tuple(f"{part}-{form}" for part, form, _ in numbers)
    a = app("".join(nodes), "  onBadRecord: {deadLetter: $T-dead}", inputs)
    for part, form, bad in numbers:
        a.send(f"{part}-{form}", (bad, b"x") if part == "key" else ("x", bad))
    a.run()
    assert a.received("out") == []
    told = {headers["streamapp.node"]: headers["streamapp.error"] for headers in map(_headers, a.received("dead"))}
    assert told.keys() == set(inputs)
    for part, form, _ in numbers:
        assert re.search(f"{part}.*{form}", told[f"{part}-{form}"]), told


def test_a_number_that_is_none_fails(app: Make) -> None:
    a = app("""
  - {name: in, stream: {topic: $T-in, value: bigendian-long}}
  - {name: out, to: {topic: $T-out}}
""")
    a.send("in", ("x", b"abcd"))
    with pytest.raises(InputError, match=r"node 'in': topic .*-in, partition 0, offset 0: .*value.*bigendian-long"):
        a.run()
    assert a.received("out") == []


def _headers(record: Record) -> dict[str, str]:
    return dict(record.headers)


def test_bad_records_are_dropped_and_counted(app: Make) -> None:
    a = app(BAD, "  onBadRecord: Drop")
    a.send("in", ("a", {"n": 1}), ("a", "no json"), ("a", {"n": 2}))
    a.run()
    assert a.latest("out") == {"a": {"total": 3}}
    assert a.statuses[-1]["subTopologies"]["sums"]["badRecords"] == {"in": 1}


def test_dead_letters_keep_the_record_and_say_where_it_was(app: Make) -> None:
    a = app(BAD, "  onBadRecord: {deadLetter: $T-dead}")
    a.send("in", ("a", {"n": 1}, NOON), ("b", "no json", NOON), ("a", {"n": 2}, NOON))
    a.run()
    assert a.latest("out") == {"a": {"total": 3}}
    (letter,) = a.received("dead")
    assert (letter.key, letter.value, letter.timestamp) == ("b", "no json", NOON)
    headers = dict(letter.headers)
    assert (headers["streamapp.topic"], headers["streamapp.partition"], headers["streamapp.offset"]) == (
        a.topic("in"),
        "0",
        "1",
    )
    assert headers["streamapp.node"] == "in"
    assert "json" in headers["streamapp.error"]


def test_dead_letters_say_which_field_was_expected_to_be_what_and_what_it_is(app: Make) -> None:
    schema = "at TIMESTAMP, items ARRAY<STRUCT<price: DOUBLE, name: STRING>>, by MAP<STRING, INT>"
    a = app(
        f"""
  - {{name: in, stream: {{topic: $T-in, key: integer, value: {{format: json, schema: "{schema}"}}, timestamp: at}}}}
  - {{name: out, to: {{topic: $T-out}}}}
""",
        "  onBadRecord: {deadLetter: $T-dead}",
    )
    at = "2024-01-01T12:00:00Z"
    a.send("in", ("1", {"at": at, "items": [{"price": 1}]}), ("2", {"at": None}), ("3", '{"at": nil}'), ("4", "[1]"))
    a.send("in", ("5", {"at": at, "items": [{"price": 1.5}, {"name": "pen", "price": "dear"}]}))
    a.send("in", ("6", {"at": at, "by": {"a": 1, "b": 2.5}}), ("7", {"at": at, "items": {}}), ("eight", {"at": at}))
    a.run()
    assert [(r.key, r.timestamp) for r in a.received("out")] == [("1", NOON)]
    names = ("error", "field", "expected", "found")
    told = {r.key: [dict(r.headers)[f"streamapp.{name}"] for name in names] for r in a.received("dead")}
    malformed = told.pop("3")
    assert malformed[0].startswith("the value cannot be read as json: Unrecognized token 'nil'")
    assert malformed[1:3] == ["value", "JSON"]
    assert malformed[3].endswith(" at line 1, column 8")
    row = "STRUCT<price: DOUBLE, name: STRING>"
    whole = f"STRUCT<at: TIMESTAMP, items: ARRAY<{row}>, by: MAP<STRING, INT>>"
    json, key = "the value cannot be read as json: ", "the key cannot be read as integer: "
    assert told == {
        "2": ["the timestamp expression `at` gives null", "timestamp", "TIMESTAMP", "null"],
        "4": [f"{json}it is [1], not {whole}", "value", whole, "[1]"],
        "5": [f'{json}`items[1].price` is "dear", not DOUBLE', "value.items[1].price", "DOUBLE", '"dear"'],
        "6": [f"{json}`by['b']` is 2.5, not INT", "value.by['b']", "INT", "2.5"],
        "7": [f"{json}`items` is {{}}, not ARRAY<{row}>", "value.items", f"ARRAY<{row}>", "{}"],
        "eight": [f'{key}it is "eight"', "key", "integer", '"eight"'],
    }


AHEAD = """
  - {name: in, stream: {topic: $T-in, value: {format: json, schema: "at TIMESTAMP, n INT"}, timestamp: at}}
"""
AHEAD_WITH_HOP = (
    AHEAD
    + """
  - {name: shaken, with: {r: rand()}}
  - {name: sums, groupBy: [key], aggregate: {total: sum(n)}}
"""
)


@pytest.mark.parametrize("hop", [False, True], ids=["stateless", "hop"])
def test_an_event_time_that_is_too_far_ahead_makes_a_bad_record(app: Make, hop: bool) -> None:
    out = "  - {name: out, to: {topic: $T-out}}"
    a = app((AHEAD_WITH_HOP if hop else AHEAD) + out, "  onBadRecord: {deadLetter: $T-dead}")
    a.send("in", ("a", {"at": "2024-01-01T13:00:00Z", "n": 1}, NOON))
    a.send("in", ("b", {"at": "2024-01-01T13:00:01Z", "n": 2}, NOON))
    a.run()
    assert [(r.key, r.timestamp) for r in a.received("out")] == [("a", NOON + 3_600_000)]
    (letter,) = a.received("dead")
    assert dict(letter.headers)["streamapp.error"] == (
        "the timestamp expression `at` gives 2024-01-01 13:00:01, which is more than maxAhead (3600000 ms) later than "
        "the record's own timestamp 2024-01-01 12:00:00"
    )
    a.change(AHEAD + out)
    a.send("in", ("c", {"at": "2024-01-02T12:00:00Z", "n": 1}, NOON))
    if not hop:
        with pytest.raises(DataError, match=r"topic \S+-in, partition 0, offset 2: .* 2024-01-02 12:00:00, which"):
            a.run()


def test_an_event_time_far_ahead_passes_hops_and_an_output_that_refuses_it_is_named(app: Make) -> None:
    topology = AHEAD_WITH_HOP.replace("timestamp: at", "timestamp: at, maxAhead: 36500 days")
    a = app(topology + "  - {name: out, to: {topic: $T-out}}")
    a.send("in", ("a", {"at": "2100-01-01T00:00:00Z", "n": 1}, NOON))
    refused = f"topic '{a.topic('out')}' does not take a record of the time 2100-01-01T00:00:00Z: its .*, 3600000,"
    with pytest.raises(DataError, match=refused):
        a.run()
    alter(a.kafka, a.topic("out"), message_timestamp_after_max_ms=str(2**63 - 1))
    hop = a.topic("sums-repartition")
    alter(a.kafka, hop, message_timestamp_after_max_ms="3600000")  # as earlier versions have made it
    a.send("in", ("a", {"at": "2100-01-01T00:00:00Z", "n": 2}, NOON))
    a.run()
    assert a.latest("out") == {"a": {"total": 3}}


def test_an_expression_that_meets_impossible_data_names_the_error(app: Make) -> None:
    a = app("""
  - {name: in, stream: {topic: $T-in, value: integer}}
  - {name: ratio, select: {r: 10 / value}}
  - {name: out, to: {topic: $T-out}}
""")
    a.send("in", ("a", "5"), ("a", "0"))
    with pytest.raises(StreamAppError, match="DIVIDE_BY_ZERO"):
        a.run()


def test_a_list_of_topics_is_one_stream(app: Make) -> None:
    a = app(
        """
  - {name: in, stream: {topics: [$T-one, $T-two], value: text}}
  - {name: out, to: {topic: $T-out, value: text}}
""",
        inputs=("one", "two", "three"),
    )
    a.send("one", ("a", "1"))
    a.send("two", ("b", "2"))
    a.send("three", ("c", "3"))
    a.run()
    assert a.raw("out") == [(b"a", b"1"), (b"b", b"2")] or a.raw("out") == [(b"b", b"2"), (b"a", b"1")]


def test_topics_by_pattern(app: Make) -> None:
    a = app(
        """
  - {name: in, stream: {pattern: "$T-in.*", value: text}}
  - {name: out, to: {topic: $T-out, value: text}}
""",
        inputs=("in1", "in2"),
    )
    a.send("in1", ("a", "one"))
    a.send("in2", ("b", "two"))
    a.run()
    assert a.latest("out") == {"a": "one", "b": "two"}


def test_non_deterministic_work_passes_an_internal_topic_before_a_shuffle(app: Make) -> None:
    a = app("""
  - {name: in, stream: {topic: $T-in, value: text}}
  - {name: tagged, with: {id: uuid()}}
  - {name: counts, groupBy: [id], aggregate: {'n': count(*)}}
  - {name: out, to: {topic: $T-out}}
""")
    a.send("in", *(("a", str(n)) for n in range(50)))
    a.run()
    assert len(a.plan.subtopologies) == 2
    assert list(a.latest("out").values()) == [{"n": 1}] * 50


def test_a_hop_is_purged_when_it_has_been_read(app: Make) -> None:
    a = app("""
  - {name: in, stream: {topic: $T-in, value: text}}
  - {name: drawn, with: {'n': cast(rand() * 0 as int)}}
  - {name: counts, groupBy: ['n'], aggregate: {count: count(*)}}
  - {name: out, to: {topic: $T-out}}
""")
    a.send("in", *[(None, "x")] * 100)
    hop = Admin(a.kafka)

    def watch(status: Mapping[str, Any]) -> None:
        if any(hop.start_offsets(a.topic("counts-repartition")).values()):
            os.kill(os.getpid(), signal.SIGTERM)

    a.run_until_told(watch)
    a.send("in", (None, "x"))
    a.run()
    assert a.latest("out") == {"0": {"count": 101}}
    assert (a.statuses[-1]["recordsRead"], a.statuses[-1]["recordsWritten"]) == (1, 1)  # the hop's records do not count


def test_a_merge_of_different_types_is_refused(kafka: KafkaConfig, tmp_path: Path) -> None:
    topology = "".join(
        f"  - {{name: {name}, stream: {{topic: $T-{name}, value: {{format: json, schema: 'amount {kind}'}}}}}}\n"
        for name, kind in (("ours", "INT"), ("theirs", "BIGINT"))
    )
    app = App(
        kafka, tmp_path, topology + "  - {name: all, merge: [ours, theirs]}\n  - {name: out, to: {topic: $T-out}}\n"
    )
    app.create("ours", "theirs")
    said = "node 'all': `merge`: `amount` is int in 'ours' and bigint in 'theirs'; cast one of them in a `with` node"
    with pytest.raises(ManifestError, match=said):
        app.run()
