# SPDX-License-Identifier: Apache-2.0
"""Which source of a sub-topology is which one of an earlier version. Each has a number; Spark keeps its position under
it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

from streamapp.nodes import Node


@dataclass(frozen=True)
class Input:
    """A source of a sub-topology that has run."""

    node: str
    topics: frozenset[str]
    """The topics that it names."""
    pattern: str | None = None
    """The pattern of the topics that it reads, where it names none."""
    until: int | None = None
    """The last epoch that was planned with it, where later versions are without it. Topics that a source reads no more
    are a source that has ended, too."""
    position: str | None = None
    """The position up to which a source was read that has ended, or has come back, as Spark has it. None where some of
    the records before may not have been processed."""

    @staticmethod
    def of(source: Node) -> Input:
        """A source of a plan."""
        return Input(source.name, frozenset(source.topics_read), source.pattern_read)

    def is_of(self, other: Input) -> bool:
        """Whether both read the same topics."""
        return (self.topics, self.pattern) == (other.topics, other.pattern)

    def became(self, other: Input) -> bool:
        """Whether both have one name and read some of the same topics, as far as is known."""
        by_pattern = self.pattern is not None or other.pattern is not None
        return self.node == other.node and (by_pattern or bool(self.topics & other.topics))


@dataclass(frozen=True)
class Numbering:
    """The numbers of a sub-topology's sources, after those of earlier versions have been found among them."""

    numbers: Mapping[str, int] = field(default_factory=dict)
    """The numbers, by the name of the source's node."""
    new: frozenset[str] = frozenset()
    """Nodes of sources that have no position."""
    gone: Mapping[int, Input] = field(default_factory=dict)
    """The sources that the version before has read and this one does not, by number."""
    back: Mapping[str, Input] = field(default_factory=dict)
    """The sources that an earlier version has read, and the version before has not, with no position to go on from, by
    the names of the nodes that read them now."""
    positions: Mapping[str, str] = field(default_factory=dict)
    """The positions where sources that have come back go on, by the names of their nodes."""


def numbered(sources: Sequence[Node], before: Mapping[int, Input], *, by_topic: bool = False) -> Numbering:
    """Numbers the sources. A source that reads the topics of one before gets its number, whatever it is called; then
    one of the same name, with topics more or less; then one that was read by an earlier version, with its position. Any
    other source gets a number that was never used.

    Args:
        sources: those of the sub-topology now.
        before: those with a position, and those of earlier versions.
        by_topic: whether positions stand under topics, too, so that a source of another name is still the same one.
    """

    def comes_back(each: Input, source: Input) -> bool:
        return each.position is not None and each.is_of(source) and (by_topic or each.node == source.node)

    now = {source.name: Input.of(source) for source in sources}
    left = {number: each for number, each in before.items() if each.until is None}
    ended = {number: each for number, each in before.items() if each.until is not None}
    found: dict[str, int] = {}
    for alike, among in ((_same, left), (Input.is_of, left), (Input.became, left), (comes_back, ended)):
        for name, source in now.items():
            number = next((number for number, each in among.items() if alike(each, source)), None)
            if number is not None and name not in found:
                found[name] = number
                del among[number]
    unused = count(max(before, default=-1) + 1)
    new = {name: next(unused) for name in now if name not in found}
    was = {name: before[number] for name, number in found.items()}
    positions = {name: one.position for name, one in was.items() if one.position is not None}
    for name, one in was.items():
        if dropped := one.topics - now[name].topics:
            left[next(unused)] = Input(one.node, dropped)
    back = {
        name: each
        for name, source in now.items()
        for each in ended.values()
        if (by_topic or each.node == name) and _read_again(each, source, was.get(name))
    }
    return Numbering(found | new, frozenset(new), left, back, positions)


def _read_again(ended: Input, now: Input, was: Input | None) -> bool:
    """Whether the source `now` reads topics of the one that has ended, which it has not read all along."""
    if was is None and ended.pattern is not None:
        return ended.is_of(now)
    return bool(ended.topics & (now.topics - was.topics if was else now.topics))


def _same(one: Input, other: Input) -> bool:
    return one.node == other.node and one.is_of(other)
