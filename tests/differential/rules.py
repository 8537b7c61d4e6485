# SPDX-License-Identifier: Apache-2.0
"""Where we differ from Kafka Streams on purpose (docs/semantics.md), each as what is done to its records or results.

Nothing else is forgiven: with these rules what comes out is compared exactly.
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
    """Stream time moves where a record is read. There only by those that have a key and, some operators, a value."""
    reached: dict[tuple[str, int], int] = {}
    for sent, now in with_stream_time(records):
        place = sent.topic, sent.partition
        if (sent.key is None or sent.value is None) and now > reached.get(place, now - 1):
            yield replace(sent, key=TIME, value={"n": 0, "g": TIME, "x": 0})
        reached[place] = now
        yield sent


def a_value_is_needed(records: Iterable[Sent]) -> Iterator[Sent]:
    """A record without a value takes no part in a window. There it does, against what its own manual says."""
    return (sent for sent in records if sent.value is not None)


def without_deletions_of_nothing(records: Iterable[Sent]) -> Iterator[Sent]:
    """The deletion of a row that is not there changes nothing. There it moves the time of what has no partner."""
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
    """A row that a filter leaves out is deleted at each of its updates here, there only where it was let through."""
    there: set[str | None] = set()
    for result in results:
        if result.value is not None:
            there.add(result.key)
            yield result
        elif result.key in there:
            there.remove(result.key)
            yield result


def without_deletions_of_what_stays(results: Iterable[Result]) -> Iterator[Result]:
    """A session that a record leaves as long as it was is not deleted before it is told anew. There it is."""
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
    """A result of a foreign-key join has the later time of its rows, whichever has come last. There, when the right row
    has changed, it has that one's."""
    rows = rows_by_number(records)
    for result in results:
        pair = [rows[side][result.fields[side]] for side in SIDES.values() if result.fields.get(side) is not None]
        yield replace(result, timestamp=max(sent.timestamp for sent in pair)) if pair else result


def equal_rows_by_number(results: Iterable[Result]) -> Iterator[Result]:
    """In which order rows with the same `x` stand, nobody says."""
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
        """A late record takes no part. There it is given alone at once, and may meet what is still kept."""
        return (sent for sent, now in with_stream_time(records) if now <= self.last_moment(sent))

    def said_once(self, records: Iterable[Sent], results: Iterable[Result]) -> Iterator[Result]:
        """A record that may stay alone is given alone or in pairs: once its window and grace are past it meets none.

        There it is given alone as soon as its window is past, without its grace, if it is read after that; and it is
        given in pairs as well where some come later. It may miss being alone where the one to meet it comes just then.
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
        """Whether each was read before the other one, if that may stay alone, had to be given alone."""
        of_left, of_right = "left" not in self.alone, "right" not in self.alone
        return (of_left or right[1] <= self.last_moment(left[0])) and (
            of_right or left[1] <= self.last_moment(right[0])
        )


def _who(result: Result) -> tuple[Which, ...]:
    pair = result.fields
    return tuple((side, pair[side]) for side in SIDES.values() if pair[side] is not None)
