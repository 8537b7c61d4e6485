# SPDX-License-Identifier: Apache-2.0
"""The pass that cuts: internal topics where one query cannot go on by itself.

A query has one shuffle, and everything in it runs at one pace. So an edge of the topology is cut, by a
RepartitionSink on the near side and a RepartitionSource on the far side, where

- a stateful node reads what another stateful node gave (there would be two shuffles),
- a merge brings together records from behind a stateful node with any others (they leave the shuffle at
  another time),
- a stateful node reads what was computed by something that is not deterministic, or by a function of the
  user's, of which nobody knows: when an epoch runs again, a record must come out of the same partition as
  before, so what it is is written down first.

The topic is named after the reader, of a stateful one after its store, so that nodes put in before it later do not lose
what is in the topic, and it goes on with the state.
Every hop costs one epoch of latency.
"""

from __future__ import annotations

from dataclasses import dataclass

from streamapp.compile.context import Context, free
from streamapp.expressions import read_expression
from streamapp.internal_topics import repartition_topic
from streamapp.nodes import Node, RepartitionSink, RepartitionSource, Role, Topology


@dataclass(frozen=True)
class _Origin:
    """Where a node's records come from, as far back as the last internal topic."""

    shuffle: str | None
    """The node behind whose shuffle they come out; None when they come from topics only."""
    repeatable: bool
    """False when computing them again might give others."""


def cut_by_internal_topics(topology: Topology, context: Context) -> Topology:
    """The topology with internal topics where it must be cut."""
    origins: dict[str, _Origin] = {}
    nodes: list[Node] = []
    for node in topology.nodes:
        cut = _edges_to_cut(node, origins)
        renamed: dict[str, str] = {}
        for upstream in cut:
            name = node.hop_name(upstream)
            what = f"an internal topic before '{node.name}'"
            far, near = (free(f"{name}-repartition-{end}", what, topology) for end in ("source", "sink"))
            topic = repartition_topic(context.application_id, name)
            source = RepartitionSource(far, topic, upstream, topology.columns(upstream))
            nodes += [RepartitionSink(near, upstream, topic), source]
            origins[source.name] = _Origin(None, True)
            renamed[upstream] = source.name
        made = node.with_inputs(renamed)
        nodes.append(made)
        origins[node.name] = _origin(made, origins)
    return Topology(tuple(nodes))


def _edges_to_cut(node: Node, origins: dict[str, _Origin]) -> tuple[str, ...]:
    """The inputs that must come through an internal topic."""
    # Of a merge of records from behind a shuffle with others, what is not repeatable is written down as well,
    # so that it is computed once, however many hops later it is read.
    mixed = len({origins[name].shuffle for name in node.inputs}) > 1
    if not (node.keyed or mixed):
        return ()
    return tuple(n for n in node.inputs if origins[n].shuffle is not None or not origins[n].repeatable)


def _origin(node: Node, origins: dict[str, _Origin]) -> _Origin:
    if node.keyed:
        return _Origin(node.name, True)
    inputs = [origins[name] for name in node.inputs]
    if not inputs:
        return _Origin(None, True)
    return _Origin(inputs[0].shuffle, all(o.repeatable for o in inputs) and _repeatable(node))


def _repeatable(node: Node) -> bool:
    computed = (expression.text for expression in node.expressions() if expression.role is not Role.KEY)
    return not node.functions and all(read_expression(text).deterministic for text in computed)
