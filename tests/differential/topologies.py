# SPDX-License-Identifier: Apache-2.0
"""The topologies that are compared: nodes of a manifest, each with a twin of the same name in tests/jvm/oracle."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from differential.oracle import Answer
from differential.records import END, FIELDS, SECOND, STREAMS, TABLES, TIME, Result, Sent, by_time, by_turn
from differential.rules import (
    Pairing,
    Side,
    a_value_is_needed,
    at_the_later_row,
    equal_rows_by_number,
    every_record_moves_time,
    rows_by_number,
    without_deletions_of_nothing,
    without_deletions_of_what_stays,
    without_empty_deletions,
)

# Tables are read in the order of time beside the streams, so that the order of a record and a row is known.
SCHEMA = f"value: {{format: json, schema: '{FIELDS}'}}"
SOURCES = {
    name: f"  - {{name: {name}, {kind}: {{topic: $T-{name}, {SCHEMA}{more}}}}}\n"
    for names, kind, more in ((STREAMS, "stream", ""), (TABLES, "table", ", bootstrap: false"))
    for name in names
}
SOURCES["v"] += f"  - {{name: w, table: {{topic: $T-v, {SCHEMA}, bootstrap: false, history: 1 day}}}}\n"
"""The same topic as a table with a history of its rows."""
SOURCES["v"] += f"  - {{name: everywhere, globalTable: {{topic: $T-v, {SCHEMA}, bootstrap: false}}}}\n"
OF_BOTH = "select: {left: left.n, right: right.n}"


@dataclass(frozen=True)
class Twin:
    """A topology that StreamApp and Kafka Streams both have.

    Attributes:
        name: of the twin, and of the node whose results go to the topic of the same name.
        node: that node, without its name.
        gives_table: whether the results are updates of a table; else they are a multiset.
        keeps_keys: whether records that meet lie in one partition; else one driver reads all partitions.
        every_update: whether each update there comes here too, where records are read one by one.
        same_updates: whether each update here comes there too, in its order.
    """

    name: str
    node: str
    reads: tuple[str, ...]
    gives_table: bool = True
    keeps_keys: bool = True
    every_update: bool = True
    same_updates: bool = True

    @property
    def nodes(self) -> str:
        """The node and its sink."""
        return f"  - {{name: {self.name}, {self.node}}}\n  - {{name: {self.name}-out, to: {{topic: $T-{self.name}}}}}\n"

    def questions(self, records: Sequence[Sent]) -> list[list[Sent]]:
        """The records that Kafka Streams gets: a list for each partition, or one list where keys move.

        In the order that all records have here: records that it does not get have moved stream time too.
        """
        read = [sent for sent in records if sent.topic in self.reads]
        partitions = sorted({sent.partition for sent in read}) if self.keeps_keys else [None]
        orders = (
            self.in_order(sent for sent in read if partition in (None, sent.partition)) for partition in partitions
        )
        return [list(self.taken(order)) for order in orders]

    def in_order(self, records: Iterable[Sent]) -> list[Sent]:
        """Returns the records in the order in which they are processed here."""
        return by_turn(records)

    def taken(self, records: Iterable[Sent]) -> Iterable[Sent]:
        """Returns those of its input that Kafka Streams gets, in order."""
        return records

    def expected(self, given: Sequence[Sent], results: Sequence[Result]) -> Sequence[Result]:
        """The results expected here, from those of Kafka Streams."""
        return results

    def compared(self, ours: Sequence[Result]) -> Sequence[Result]:
        """The results from here that are compared."""
        return ours

    def require_possible(self, given: Sequence[Sent], ours: Sequence[Result]) -> None:
        """Raises unless each update is one that these records may give, where Kafka Streams may give others on the
        way."""

    def late(self, records: Sequence[Sent], asked: Sequence[tuple[Sequence[Sent], Answer]]) -> int:
        """The number of late records that we are to count."""
        return 0


@dataclass(frozen=True)
class Filtered(Twin):
    """A filter of a table."""

    def compared(self, ours: Sequence[Result]) -> Sequence[Result]:
        return list(without_empty_deletions(ours))


@dataclass(frozen=True)
class Tabled(Twin):
    """A table. The deletion of a row that is not there changes nothing here, and gives no result."""

    def taken(self, records: Iterable[Sent]) -> Iterable[Sent]:
        return without_deletions_of_nothing(records)

    def expected(self, given: Sequence[Sent], results: Sequence[Result]) -> Sequence[Result]:
        return list(without_empty_deletions(results))


@dataclass(frozen=True)
class Seldom(Twin):
    """Fewer updates of a table. The time of the slowest partition lets them go here, and their own partition's time
    there. The updates on the way differ, the last ones do not."""

    def taken(self, records: Iterable[Sent]) -> Iterable[Sent]:
        return without_deletions_of_nothing(every_record_moves_time(records))

    def expected(self, given: Sequence[Sent], results: Sequence[Result]) -> Sequence[Result]:
        return [result for result in self.compared(list(without_empty_deletions(results))) if result.key != TIME]

    def compared(self, ours: Sequence[Result]) -> Sequence[Result]:
        """Leaves out the last record of a partition: it waits there for a later one, and may be in the epoch that lets
        go here."""
        return [result for result in ours if not (result.key or "").startswith(END)]


@dataclass(frozen=True)
class Top(Twin):
    """The rows with the highest `x`."""

    def expected(self, given: Sequence[Sent], results: Sequence[Result]) -> Sequence[Result]:
        return list(equal_rows_by_number(results))

    def compared(self, ours: Sequence[Result]) -> Sequence[Result]:
        return list(equal_rows_by_number(ours))


@dataclass(frozen=True)
class HeldBack(Twin):
    """A join as of the records' time that waits for late rows: as if all of the table had been there before. Records
    that no later record has let go yet still wait."""

    grace: int = field(kw_only=True)

    def in_order(self, records: Iterable[Sent]) -> list[Sent]:
        return sorted(by_turn(records), key=lambda sent: sent.topic not in TABLES)

    def expected(self, given: Sequence[Sent], results: Sequence[Result]) -> Sequence[Result]:
        closed = max(sent.timestamp for sent in given)
        return [result for result in results if result.timestamp + self.grace < closed]


@dataclass(frozen=True)
class Foreign(Tabled):
    """A foreign-key join of the tables `u` and `v`. Rows and results move by topics: the updates on the way depend on
    when they arrive, the last ones do not."""

    def expected(self, given: Sequence[Sent], results: Sequence[Result]) -> Sequence[Result]:
        return list(at_the_later_row(given, results))

    def require_possible(self, given: Sequence[Sent], ours: Sequence[Result]) -> None:
        rows = rows_by_number(given)
        for result in ours:
            if result.value is None:
                continue
            left = rows["left"][result.fields["left"]]
            assert left.key == result.key, result
            if result.fields["right"] is not None:
                assert left.value is not None
                assert rows["right"][result.fields["right"]].key == left.value["g"], result
            else:
                assert self.name.endswith("-left"), result


@dataclass(frozen=True)
class Windowed(Twin):
    """A count in windows of the stream `s`, or of both."""

    def taken(self, records: Iterable[Sent]) -> Iterable[Sent]:
        return a_value_is_needed(every_record_moves_time(records))

    def expected(self, given: Sequence[Sent], results: Sequence[Result]) -> Sequence[Result]:
        return [result for result in results if TIME not in (result.key or "")]

    def late(self, records: Sequence[Sent], asked: Sequence[tuple[Sequence[Sent], Answer]]) -> int:
        return sum(answer.dropped - sum(sent.key is None for sent in given) for given, answer in asked)


@dataclass(frozen=True)
class Sessions(Windowed):
    """Sessions of the stream `s`."""

    def expected(self, given: Sequence[Sent], results: Sequence[Result]) -> Sequence[Result]:
        return list(without_deletions_of_what_stays(super().expected(given, results)))


@dataclass(frozen=True)
class Joined(Twin):
    """A join of the streams `s` and `t`."""

    pairing: Pairing = field(kw_only=True)

    def taken(self, records: Iterable[Sent]) -> Iterable[Sent]:
        return self.pairing.in_time(records)

    def in_order(self, records: Iterable[Sent]) -> list[Sent]:
        return by_time(records)

    def expected(self, given: Sequence[Sent], results: Sequence[Result]) -> Sequence[Result]:
        return list(self.pairing.said_once(given, results))

    def late(self, records: Sequence[Sent], asked: Sequence[tuple[Sequence[Sent], Answer]]) -> int:
        read = [sent for sent in records if sent.topic in self.reads]
        in_time = set(map(id, self.taken(read)))
        return sum(sent.value is not None and id(sent) not in in_time for sent in read)


def _windowed(name: str, window: str, emit: str = "updates", of: str = "aggregate: {'n': count(*)}") -> Twin:
    node = f"from: s, groupBy: [key], {of}, window: {window}, emit: {emit}"
    kind = Sessions if name.startswith("session") else Windowed
    return kind(name, node, ("s",), gives_table=emit == "updates")


def _joined(name: str, before: int, after: int, grace: int) -> Twin:
    kind = name.rpartition("-")[2]
    alone: dict[str, tuple[Side, ...]] = {"inner": (), "left": ("left",), "outer": ("left", "right")}
    window = f"before: {before}s, after: {after}s, grace: {grace}s"
    node = f"from: s, join: {{with: t, type: {kind}, {window}, select: {{left: s.n, right: t.n}}}}"
    pairing = Pairing(before * SECOND, after * SECOND, grace * SECOND, alone[kind])
    return Joined(name, node, STREAMS, gives_table=False, pairing=pairing)


def _foreign(name: str) -> Twin:
    kind = name.rpartition("-")[2]
    node = f"from: u, join: {{with: v, by: [g], type: {kind}, {OF_BOTH}}}"
    return Foreign(name, node, TABLES, every_update=False, same_updates=False)


def _with_table(name: str, left: str) -> Twin:
    kind = name.rpartition("-")[2]
    node = f"from: {left}, join: {{with: v, type: {kind}, {OF_BOTH}}}"
    return Tabled(name, node, (left, "v")) if left == "u" else Twin(name, node, (left, "v"), gives_table=False)


def _global(name: str) -> Twin:
    """The records keep their key, and go to the rows that `g` names, in any order."""
    node = f"from: s, join: {{with: everywhere, by: [g], type: {name.rpartition('-')[2]}, {OF_BOTH}}}"
    return Twin(name, node, ("s", "v"), gives_table=False)


def _as_of(name: str) -> Twin:
    kind = name.rpartition("-")[2]
    node = f"from: s, join: {{with: w, asOf: true, type: {kind}, {OF_BOTH}}}"
    if "held" not in name:
        return Twin(name, node, ("s", "v"), gives_table=False)
    grace = node.replace("asOf: true", "asOf: true, grace: 20s")
    return HeldBack(name, grace, ("s", "v"), gives_table=False, grace=20 * SECOND)


KINDS = ("inner", "left", "outer")
TUMBLING = "{tumbling: 10s}, grace: 4s"
HOPPING = "{hopping: 12s, every: 4s}, grace: 2s"
SESSION = "{session: 4s}, grace: 3s"
SLIDING = "{sliding: 6s}, grace: 10m"
"""A grace in which nothing is late. In Kafka Streams a record that is late for the window which ends with it may miss
in later windows too, as those are made of windows that are kept."""
SELDOM = "suppress: {untilTimeLimit: 7s}"

REDUCE = "reduce: {'n': 'greatest(acc.n, n)', x: 'coalesce(acc.x, 0) * 3 % 1009 + n'}"
FOLD = "aggregate: {first: first(n), last: last(n), x: last(x)}"

AGGREGATES = (
    Twin("count", "from: s, groupBy: [key], aggregate: {'n': count(*), total: sum(x)}", ("s",)),
    Filtered("count-filter", "from: count, filter: total > 0", ("s",)),
    Twin("reduce", f"from: s, groupBy: [key], {REDUCE}", ("s",)),
    Top("top", "from: s, groupBy: [key], top: {rows: 3, by: x}", ("s",)),
    Twin("fold", f"from: s, groupBy: [key], {FOLD}", ("s",)),
    Seldom("fold-seldom", f"from: fold, {SELDOM}", ("s",), every_update=False, same_updates=False),
    Twin(
        "fold-looked-up",
        "from: t, join: {with: fold, select: {left: left.n, right: right.last}}",
        STREAMS,
        gives_table=False,
    ),
    Twin(
        "cogroup",
        "groupBy: [key], cogroup: [{from: s, aggregate: {first: first(n)}}, "
        "{from: t, aggregate: {last: last(n), many: count(*)}}]",
        STREAMS,
        every_update=False,  # an epoch takes a record of each
    ),
    Twin("count-by-g", "from: s, groupBy: [g], aggregate: {'n': count(*)}", ("s",), keeps_keys=False),
)
WINDOWS = (
    _windowed("tumbling", TUMBLING),
    _windowed("hopping-final", HOPPING, "final"),
    _windowed("tumbling-reduce", TUMBLING, of=REDUCE),
    _windowed("hopping-fold", HOPPING, "final", FOLD),
    _windowed("session-final", SESSION, "final"),
    _windowed("session-reduce", SESSION, of=REDUCE),
    _windowed("sliding", SLIDING),
    _windowed("sliding-final", SLIDING, "final"),
    Windowed(
        "cogroup-hopping",
        "groupBy: [key], cogroup: [{from: s, aggregate: {ours: count(*)}}, {from: t, aggregate: {theirs: sum(n)}}], "
        f"window: {HOPPING}",
        STREAMS,
        every_update=False,
    ),
)
PAIRS = (
    *(_joined(f"published-{kind}", 15, 15, 5) for kind in KINDS),
    _joined("around-outer", 4, 9, 3),
    _joined("near-left", 5, 5, 0),
)
OF_TABLES = (
    Tabled("table", "from: u, toStream: {}", ("u",)),
    Tabled("table-filter", "from: u, filter: x > 0", ("u",)),
    Tabled("table-select", "from: u, select: {twice: x * 2}", ("u",)),
    Seldom("table-seldom", f"from: u, {SELDOM}", ("u",), every_update=False, same_updates=False),
    Tabled("to-table", "from: s, toTable: {}", ("s",)),
    # Rows of several partitions move to one group in one epoch.
    Twin("table-count", "from: u, groupBy: [g], aggregate: {'n': count(*), total: sum(x)}", ("u",), every_update=False),
    *(_with_table(f"stream-table-{kind}", "s") for kind in ("inner", "left")),
    *(_global(f"global-{kind}") for kind in ("inner", "left")),
    *(_as_of(f"as-of-{kind}") for kind in ("inner", "left", "held-left")),
    Twin(
        "versions-count",
        "from: w, groupBy: [g], aggregate: {'n': count(*), total: sum(x)}",
        ("v",),
        every_update=False,
        same_updates=False,  # changes of several keys go by a topic, in any order
    ),
    *(_with_table(f"table-table-{kind}", "u") for kind in KINDS),
    *(_foreign(f"foreign-key-{kind}") for kind in ("inner", "left")),
)
COMPARED = (*AGGREGATES, *WINDOWS, *PAIRS, *OF_TABLES)
"""All topologies that are compared."""


def manifest(twins: Sequence[Twin]) -> str:
    """A manifest of one app with all of them and the sources that they read."""
    read = sorted({topic for twin in twins for topic in twin.reads})
    return "".join((*(SOURCES[topic] for topic in read), *(twin.nodes for twin in twins)))
