# SPDX-License-Identifier: Apache-2.0
"""The topologies that are compared: nodes of a manifest, each with a twin of the same name in tests/jvm/oracle.

An operation that lands brings its twins from PREPARED into COMPARED.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from differential.oracle import Answer
from differential.records import FIELDS, SECOND, STREAMS, TABLES, TIME, Result, Sent, merged
from differential.rules import Pairing, Side, a_value_is_needed, deleted_once, every_record_moves_time

SOURCES = "".join(
    f"  - {{name: {name}, {kind}: {{topic: $T-{name}, value: {{format: json, schema: '{FIELDS}'}}}}}}\n"
    for kind, names in (("stream", STREAMS), ("table", TABLES))
    for name in names
)


@dataclass(frozen=True)
class Twin:
    """A topology that both have.

    Attributes:
        name: of the twin, and of the node whose results go to the topic of the same name.
        node: that node, without its name.
        gives_table: whether what comes out is updates of a table; else it is a multiset.
        keeps_keys: whether what meets lies in one partition; else one driver reads all partitions.
        every_update: whether each update comes that comes there, where an epoch takes one record of each partition.
    """

    name: str
    node: str
    reads: tuple[str, ...]
    gives_table: bool = True
    keeps_keys: bool = True
    every_update: bool = True

    @property
    def nodes(self) -> str:
        """The node and its sink."""
        return f"  - {{name: {self.name}, {self.node}}}\n  - {{name: {self.name}-out, to: {{topic: $T-{self.name}}}}}\n"

    def questions(self, records: Sequence[Sent]) -> list[list[Sent]]:
        """What Kafka Streams is given: for each partition, or in one where keys move."""
        taken = list(self.taken(sent for sent in records if sent.topic in self.reads))
        partitions = sorted({sent.partition for sent in taken}) if self.keeps_keys else [None]
        return [merged(s for s in taken if partition is None or s.partition == partition) for partition in partitions]

    def taken(self, records: Iterable[Sent]) -> Iterable[Sent]:
        """Those of its input that Kafka Streams is given."""
        return records

    def expected(self, given: Sequence[Sent], results: Sequence[Result]) -> Sequence[Result]:
        """What is to come out here where this comes out of Kafka Streams."""
        return results

    def late(self, records: Sequence[Sent], asked: Sequence[tuple[Sequence[Sent], Answer]]) -> int:
        """How many late records we are to count."""
        return 0


@dataclass(frozen=True)
class Windowed(Twin):
    """A count in windows of the stream `s`."""

    def taken(self, records: Iterable[Sent]) -> Iterable[Sent]:
        return a_value_is_needed(every_record_moves_time(records))

    def expected(self, given: Sequence[Sent], results: Sequence[Result]) -> Sequence[Result]:
        return [result for result in results if TIME not in (result.key or "")]

    def late(self, records: Sequence[Sent], asked: Sequence[tuple[Sequence[Sent], Answer]]) -> int:
        return sum(answer.dropped - sum(sent.key is None for sent in given) for given, answer in asked)


@dataclass(frozen=True)
class Joined(Twin):
    """A join of the streams `s` and `t`."""

    pairing: Pairing = field(kw_only=True)

    def taken(self, records: Iterable[Sent]) -> Iterable[Sent]:
        return self.pairing.in_time(records)

    def expected(self, given: Sequence[Sent], results: Sequence[Result]) -> Sequence[Result]:
        return list(self.pairing.said_once(given, results))

    def late(self, records: Sequence[Sent], asked: Sequence[tuple[Sequence[Sent], Answer]]) -> int:
        read = [sent for sent in records if sent.topic in self.reads]
        in_time = set(map(id, self.taken(read)))
        return sum(sent.value is not None and id(sent) not in in_time for sent in read)


@dataclass(frozen=True)
class Tabled(Twin):
    """A table, or a stream that looks one up: records are processed in the order of a task, as they are given."""

    def questions(self, records: Sequence[Sent]) -> list[list[Sent]]:
        taken = [sent for sent in records if sent.topic in self.reads]
        partitions = sorted({sent.partition for sent in taken})
        return [[sent for sent in taken if sent.partition == partition] for partition in partitions]

    def expected(self, given: Sequence[Sent], results: Sequence[Result]) -> Sequence[Result]:
        return list(deleted_once(results)) if self.gives_table else results


def _windowed(name: str, window: str, emit: str = "updates") -> Twin:
    node = f"from: s, groupBy: [key], aggregate: {{'n': count(*)}}, window: {window}, emit: {emit}"
    return Windowed(name, node, ("s",), gives_table=emit == "updates")


def _joined(name: str, before: int, after: int, grace: int) -> Twin:
    kind = name.rpartition("-")[2]
    alone: dict[str, tuple[Side, ...]] = {"inner": (), "left": ("left",), "outer": ("left", "right")}
    window = f"before: {before}s, after: {after}s, grace: {grace}s"
    node = f"from: s, join: {{with: t, type: {kind}, {window}, select: {{left: s.n, right: t.n}}}}"
    pairing = Pairing(before * SECOND, after * SECOND, grace * SECOND, alone[kind])
    return Joined(name, node, STREAMS, gives_table=False, pairing=pairing)


def _with_table(name: str, left: str, join: str) -> Twin:
    node = f"from: {left}, join: {{with: v, {join}, select: {{left: left.n, right: right.n}}}}"
    return Tabled(name, node, (left, "v"), gives_table=left == "u")


KINDS = ("inner", "left", "outer")
TUMBLING = "{tumbling: 10s}, grace: 4s"
HOPPING = "{hopping: 12s, every: 4s}, grace: 2s"

AGGREGATES = (
    Twin("count", "from: s, groupBy: [key], aggregate: {'n': count(*)}", ("s",)),
    Twin("sum", "from: s, groupBy: [key], aggregate: {total: sum(x)}", ("s",)),
    Twin("count-by-g", "from: s, groupBy: [g], aggregate: {'n': count(*)}", ("s",), keeps_keys=False),
)
WINDOWS = (
    _windowed("tumbling", TUMBLING),
    _windowed("hopping-final", HOPPING, "final"),
    _windowed("strict-final", "{tumbling: 5s}", "final"),
)
PAIRS = (
    *(_joined(kind, 4, 9, 3) for kind in KINDS),
    _joined("near-left", 5, 5, 0),
)
OF_TABLES = (
    Tabled("table", "from: u, toStream: {}", ("u",)),
    Tabled("table-filter", "from: u, filter: x > 0", ("u",)),
    Tabled("table-select", "from: u, select: {twice: x * 2}", ("u",)),
    Tabled("to-table", "from: s, toTable: {}", ("s",)),
    # An epoch in which a row moves may be one of the other group as well.
    Tabled(
        "table-count", "from: u, groupBy: [g], aggregate: {'n': count(*), total: sum(x)}", ("u",), every_update=False
    ),
    *(_with_table(f"stream-table-{kind}", "s", f"type: {kind}") for kind in ("inner", "left")),
    *(_with_table(f"table-table-{kind}", "u", f"type: {kind}") for kind in KINDS),
)
COMPARED = (*AGGREGATES, *WINDOWS, *PAIRS, *OF_TABLES)
"""What there is today."""

SESSION = "{session: 4s}, grace: 3s"
SLIDING = "{sliding: 6s}, grace: 3s"
PREPARED = (
    _windowed("session", SESSION),
    _windowed("session-final", SESSION, "final"),
    _windowed("sliding", SLIDING),
    _windowed("sliding-final", SLIDING, "final"),
    *(_with_table(f"foreign-key-{kind}", "u", f"type: {kind}, by: [g]") for kind in ("inner", "left")),
)
"""What is to come, by the contract."""


def manifest(twins: Iterable[Twin]) -> str:
    """All of them in one app, with the sources that they read."""
    read = {topic for twin in twins for topic in twin.reads}
    sources = [line for line in SOURCES.splitlines(keepends=True) if line.split("name: ")[1].split(",")[0] in read]
    return "".join((*sources, *(twin.nodes for twin in twins)))
