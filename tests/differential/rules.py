# SPDX-License-Identifier: Apache-2.0
"""Where we differ from Kafka Streams on purpose (docs/semantics.md), each as a change of its records or results.

No other difference is allowed: with these rules the results are compared exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from differential.records import TIME, Result, Sent, text_of, with_stream_time

Side = Literal["left", "right"]
SIDES: dict[str, Side] = {"s": "left", "t": "right"}
SIDES_OF_TABLES: dict[str, Side] = {"u": "left", "v": "right"}
Which = tuple[Side, int]
"""A record of a join: its side, and its number."""


def every_record_moves_time(records: Iterable[Sent]) -> Iterator[Sent]:
    """Stream time moves with every record that is read. In Kafka Streams only with those that have a key and, for some
    operators, a value."""
    reached: dict[tuple[str, int], int] = {}
    for sent, now in with_stream_time(records):
        place = sent.topic, sent.partition
        if (sent.key is None or sent.value is None) and now > reached.get(place, now - 1):
            yield replace(sent, key=TIME, value={"n": 0, "g": TIME, "x": 0})
        reached[place] = now
        yield sent


def a_value_is_needed(records: Iterable[Sent]) -> Iterator[Sent]:
    """A record without a value takes no part in a window. In Kafka Streams it does, against Kafka Streams' own
    manual."""
    return (sent for sent in records if sent.value is not None)


def without_deletions_of_nothing(records: Iterable[Sent]) -> Iterator[Sent]:
    """The deletion of a row that is not there changes nothing. In Kafka Streams it moves the time of records that have
    no partner."""
    there: set[tuple[str, str | None]] = set()
    for sent in records:
        row = sent.topic, sent.key
        if sent.value is not None:
            there.add(row)
            yield sent
        elif row in there:
            there.remove(row)
            yield sent


def without_empty_deletions(results: Iterable[Result]) -> Iterator[Result]:
    """A row that a filter leaves out is deleted at each of its updates here; in Kafka Streams only if it was let
    through before."""
    there: set[str | None] = set()
    for result in results:
        if result.value is not None:
            there.add(result.key)
            yield result
        elif result.key in there:
            there.remove(result.key)
            yield result


def without_deletions_of_what_stays(results: Iterable[Result]) -> Iterator[Result]:
    """A session whose bounds a record leaves as they were is not deleted before its update. In Kafka Streams it is."""
    waiting: list[Result] = []
    for result in results:
        if result.value is None:
            waiting.append(result)
        else:
            yield from (gone for gone in waiting if gone.key != result.key)
            waiting = []
            yield result
    yield from waiting


def at_the_later_row(records: Iterable[Sent], results: Iterable[Result]) -> Iterator[Result]:
    """A result of a foreign-key join has the later time of its rows, whichever has come last. In Kafka Streams, when
    the right row has changed, it has the right row's time."""
    rows = rows_by_number(records)
    for result in results:
        pair = [rows[side][result.fields[side]] for side in SIDES.values() if result.fields.get(side) is not None]
        yield replace(result, timestamp=max(sent.timestamp for sent in pair)) if pair else result


def equal_rows_by_number(results: Iterable[Result]) -> Iterator[Result]:
    """Sorts rows with the same `x` by number, as their order is not defined."""
    for result in results:
        if result.value is not None:
            ordered = sorted(result.fields["top"] or (), key=lambda row: (-row["x"], row["n"]))
            result = replace(result, value=text_of({"top": ordered}))
        yield result


def rows_by_number(records: Iterable[Sent]) -> dict[Side, dict[int, Sent]]:
    """The rows of the tables `u` and `v`, by the numbers that results have of them."""
    found: dict[Side, dict[int, Sent]] = {"left": {}, "right": {}}
    for sent in records:
        if sent.value is not None:
            found[SIDES_OF_TABLES[sent.topic]][sent.value["n"]] = sent
    return found


@dataclass(frozen=True)
class Pairing:
    """A join of the streams `s` and `t`: how far before and after the left record the right one may be, in ms.

    Attributes:
        alone: the sides whose records are given alone where they meet none.
    """

    before: int
    after: int
    grace: int
    alone: tuple[Side, ...] = ()

    def last_moment(self, sent: Sent) -> int:
        """The stream time up to which a record may be read, and one that is to meet it."""
        return sent.timestamp + (self.after if sent.topic == "s" else self.before) + self.grace

    def in_time(self, records: Iterable[Sent]) -> Iterator[Sent]:
        """A late record takes no part. In Kafka Streams it comes out alone at once, and may meet records that are still
        kept."""
        return (sent for sent, now in with_stream_time(records) if now <= self.last_moment(sent))

    def said_once(self, records: Iterable[Sent], results: Iterable[Result]) -> Iterator[Result]:
        """A record that may stay alone comes out alone or in pairs: once its window and grace are past it meets none.

        In Kafka Streams it comes out alone as soon as its window is past, without its grace, if it is read after that;
        and it comes out in pairs as well if partners come later. It may not come out alone if its partner comes just
        then.
        """
        read = {
            (SIDES[sent.topic], sent.value["n"]): (sent, now) for sent, now in with_stream_time(records) if sent.value
        }
        told = [(result, _who(result)) for result in results]
        pairs = [(result, who) for result, who in told if len(who) == 2]
        kept = [(result, who) for result, who in pairs if self._may_meet(*(read[one] for one in who))]
        met = {one for _, who in kept for one in who}
        single = [(result, who[0]) for result, who in told if len(who) == 1 and who[0] not in met]
        missed = {one for _, who in pairs for one in who if one[0] in self.alone} - met - {one for _, one in single}
        yield from (result for result, _ in (*kept, *single))
        for side, number in sorted(missed):
            sent = read[side, number][0]
            value = text_of({"left": None, "right": None, side: number})
            yield Result(sent.key, value, sent.timestamp)

    def _may_meet(self, left: tuple[Sent, int], right: tuple[Sent, int]) -> bool:
        """Whether each record was read before the other one, if that may stay alone, had to come out alone."""
        of_left, of_right = "left" not in self.alone, "right" not in self.alone
        return (of_left or right[1] <= self.last_moment(left[0])) and (
            of_right or left[1] <= self.last_moment(right[0])
        )


def _who(result: Result) -> tuple[Which, ...]:
    pair = result.fields
    return tuple((side, pair[side]) for side in SIDES.values() if pair[side] is not None)
