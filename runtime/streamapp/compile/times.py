# SPDX-License-Identifier: Apache-2.0
"""Stream time across internal topics: which of them carry it, and whose it is."""

from __future__ import annotations

from dataclasses import replace

from streamapp.nodes import Node, RepartitionSink, RepartitionSource
from streamapp.plan import SubTopology


def carry_times(parts: tuple[SubTopology, ...]) -> tuple[SubTopology, ...]:
    """The same sub-topologies, in which internal topics carry stream time to those readers that go by it.

    A writer knows its time for their sake, whether it goes by it itself or not, and so do those that write for it.

    Args:
        parts: in an order in which each comes after those whose internal topics it reads.
    """
    carrying: set[str] = set()
    for part in reversed(parts):
        if part.timed or part.writes_internally & carrying:
            carrying |= part.reads_internally
    writers = {
        node.topic: (part.name, lags_ms[node.input])
        for part in parts
        for lags_ms in (_lags_ms(part),)
        for node in part.nodes
        if isinstance(node, RepartitionSink)
    }

    def with_time(node: Node) -> Node:
        if isinstance(node, RepartitionSink) and node.topic in carrying:
            return replace(node, carries_time=True)
        if isinstance(node, RepartitionSource) and node.topic in carrying:
            writer, lag_ms = writers[node.topic]
            return replace(node, written_by=writer, writers_lag_ms=lag_ms)
        return node

    return tuple(replace(part, nodes=tuple(map(with_time, part.nodes))) for part in parts)


def _lags_ms(part: SubTopology) -> dict[str, int]:
    """By how much the rows of each node may lag behind what is closed in its sub-topology."""
    found: dict[str, int] = {}
    for node in part.nodes:
        found[node.name] = node.lag_ms + max((found[name] for name in node.inputs), default=0)
    return found
