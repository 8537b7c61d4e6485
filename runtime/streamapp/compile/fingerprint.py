# SPDX-License-Identifier: Apache-2.0
"""A store's fingerprint: equal for two versions of an app exactly when the one can go on with the other's
state.

It covers what the state's keys and values ARE:
- the operation, and for an aggregate the window, for a join the type and `within` (how long rows are kept);
- the key: each expression, followed back through the nodes before to the fields of topics and their types,
  because the same rows must find the same key again;
- an aggregate's expressions, and for the columns they use the declared type where a column comes unchanged
  from a topic;
- a join's columns on both sides, and what its `select` uses of the records' own, which the rows it keeps are
  made of.

It leaves out everything that only decides which records come or where results go: filters, the computing of
aggregated values, the body of a `python` function of that name, topics, node and store names, grace, `emit`,
everything downstream, comments, spelling, and the order of maps. After a changed filter or a corrected `with`
expression the app thus goes on with the old sums, as is meant by a correction under way.
"""

from __future__ import annotations

from streamapp.nodes import Node, Origins, Topology
from streamapp.origins import digest

_SCHEME = 1
"""Part of every fingerprint: raise it when the runtime lays state out in another way."""


def fingerprint(topology: Topology, node: Node) -> str:
    """16 hexadecimal digits for the state of a node with stores, of the topology as the user wrote it, uncut."""
    origins: dict[str, Origins] = {}
    for one in (*topology.ancestors(node.name), node):
        inputs, before = [topology.columns(name) for name in one.inputs], [origins[name] for name in one.inputs]
        origins[one.name] = one.origins(inputs, before)
    return digest([_SCHEME, node.state_shape(inputs, before)])
