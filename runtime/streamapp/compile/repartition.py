# SPDX-License-Identifier: Apache-2.0
"""The pass that cuts: internal topics where one query cannot go on by itself.

A query has one shuffle, and everything in it runs at one pace. So an edge of the topology is cut, by a
RepartitionSink on the near side and a RepartitionSource on the far side, where

- a stateful node reads the output of another stateful node, unless both run in one task of the same key (there would
  be two shuffles),
- a merge brings together records from behind a stateful node with any others (they leave the shuffle at
  another time),
- a stateful node reads values that were computed by something that is not deterministic, or by a function of the
  user's, which may not be: when an epoch runs again, a record must come out of the same partition as before, so its
  values are written down first.

A node that looks rows of a table up needs the table in its task: where the table comes by a topic, a node of ours keeps
its rows there. A node that needs the old row of each change reads both, the old and the new row, from the topic.

The topic is named after the reader, or after the reader's store if it is stateful. So its records are not lost when
nodes are put in before the reader later, and the topic goes on with the state.
Every hop costs one epoch of latency.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace

from streamapp.compile.context import Context, free
from streamapp.compile.tasks import Tasks
from streamapp.errors import ManifestError, Problem
from streamapp.expressions import read_expression
from streamapp.internal_topics import repartition_topic
from streamapp.nodes import TABLE, MovesSource, Node, RepartitionSink, RepartitionSource, Role, Topology
from streamapp.operations import ColumnLookup, ForeignKeyJoin, ForeignResults, ForeignRows, TableJoin, ToTable


@dataclass(frozen=True)
class _Origin:
    """The origin of a node's records, as far back as the last internal topic."""

    shuffle: str | None
    """The node behind whose shuffle they come out; None when they come from topics only."""
    repeatable: bool
    """False when computing them again might give others."""
    task: str | None = None
    """A node of the task that has them under its key, and can go on with them."""
    fed_by: frozenset[str] = frozenset()
    """The internal topics that the records come from are written behind the shuffles of these nodes."""

    @property
    def behind(self) -> frozenset[str]:
        """The nodes behind whose shuffles an internal topic with these records is written."""
        return self.fed_by if self.shuffle is None else frozenset((self.shuffle,))


def cut_by_internal_topics(topology: Topology, context: Context) -> Topology:
    """The topology with internal topics where it must be cut."""
    return _Cut(topology, context).whole()


def is_repeatable(node: Node) -> bool:
    """Whether computing its rows again gives the same ones."""
    computed = (expression.text for expression in node.expressions() if expression.role is not Role.KEY)
    return not node.functions and all(read_expression(text).deterministic for text in computed)


class _Cut:
    def __init__(self, topology: Topology, context: Context) -> None:
        self._topology = topology
        self._context = context
        self._origins: dict[str, _Origin] = {}
        self._nodes: list[Node] = []
        self._tasks = Tasks()

    def whole(self) -> Topology:
        for node in self._topology.nodes:
            if isinstance(node, ForeignKeyJoin):
                self._by_foreign_key(node)
            elif isinstance(node, ColumnLookup):
                self._by_columns(node)
            elif node.takes_changes([self._topology.kind(name) for name in node.inputs]):
                self._after_changes(node)
            elif (made := self._in_a_task(node)) is not None:
                self._join_a_task(made)
            else:
                self._alone(node)
        return Topology(tuple(self._nodes))

    def _alone(self, node: Node) -> None:
        cut = {name: self._hop(node, name, node.hop_name(name)) for name in self._edges_to_cut(node)}
        self._origins[node.name] = self._origin(self._add(node.with_inputs(cut)))

    def _edges_to_cut(self, node: Node) -> tuple[str, ...]:
        """The inputs that must come through an internal topic."""
        origins = {name: self._origins[name] for name in node.inputs}
        # Where records from behind a shuffle are merged with others, those that are not repeatable are written down as
        # well, so that they are computed once, however many hops later they are read.
        mixed = len({origin.shuffle and self._tasks.whole(origin.shuffle) for origin in origins.values()}) > 1
        if not (node.keyed or mixed):
            return ()
        return tuple(name for name, o in origins.items() if o.shuffle is not None or not o.repeatable)

    def _origin(self, node: Node) -> _Origin:
        if node.keyed:
            self._reads(node.inputs, node.name)
            return _Origin(node.name, True)
        inputs = [self._origins[name] for name in node.inputs]
        if not inputs:
            return _Origin(None, True)
        repeatable = all(o.repeatable for o in inputs) and is_repeatable(node)
        task = inputs[0].task if node.row_wise and repeatable else None
        return _Origin(inputs[0].shuffle, repeatable, task, frozenset().union(*(o.fed_by for o in inputs)))

    def _reads(self, names: Iterable[str], reader: str) -> None:
        """Notes that records of these nodes come to the shuffle of `reader`."""
        for name in names:
            for source in self._origins[name].fed_by:
                self._tasks.feed(source, reader)

    # Nodes that share tasks

    def _in_a_task(self, node: Node) -> Node | None:
        """The node as it shares a task; None where it does not. A node that could run alone shares a task where its
        rows are in one."""
        if node.in_task:
            return node
        there = node.keyed and all(self._task_of(node, name) for name in node.inputs)
        return node.in_a_task() if there else None

    def _task_of(self, node: Node, name: str) -> str | None:
        """A node of the task that has the input's rows under the key that `node` goes by; None where there is none."""
        task = self._origins[name].task
        return task if task is not None and self._fits(node, name) else None

    def _join_a_task(self, node: Node) -> None:
        there = {name: task for name in node.inputs if (task := self._task_of(node, name))}
        apart = [name for name in node.inputs if name not in there and not self._comes_from_topics(node, name)]
        fed_by = {source for name in node.inputs if name not in there for source in self._origins[name].behind}
        if not self._tasks.may_unite(there.values(), fed_by):
            there, apart = {}, [name for name in node.inputs if not self._comes_from_topics(node, name)]
        task = self._tasks.unite(there.values(), node.name)
        cut = {}
        for name in dict.fromkeys(apart):  # once for a stream that is joined with itself
            hop = node.hop_name(name)
            cut[name] = self._hop(node, name, hop)
            if self._needs_table(node, name):
                self._require_no_history(node, name)
                cut[name] = self._kept(hop, cut[name], task)
        made = self._add(node.with_inputs(cut))
        self._reads((name for name in made.inputs if name not in there), node.name)
        goes_on = self._keeps_task(node) and not node.leaves_task
        self._origins[node.name] = _Origin(node.name, True, node.name if goes_on else None)

    def _keeps_task(self, node: Node) -> bool:
        """Whether its rows are under the key that its task goes by. Those of nodes that this pass has made are."""
        return node.name not in self._topology or node.keeps_task(self._topology.key_columns(node.name))

    def _require_no_history(self, node: Node, name: str) -> None:
        """Raises where a join needs the history of a table that comes by a topic: it brings the rows from now on."""
        if isinstance(node, TableJoin) and node.as_of and name == node.right:
            message = f"'{name}' comes to this join by an internal topic, which brings no history"
            fix = "read its topic with a second `table` node, for this join"
            raise ManifestError((Problem(node.owner, "join.asOf", None, message, fix),))

    def _fits(self, node: Node, name: str) -> bool:
        """Whether the node goes by the key under which its input's task has the rows."""
        key = [column.lower() for column in self._topology.key_columns(name)]
        met_by = [column.lower() for column in node.met_by(name)]
        return self._needs_table(node, name) or not met_by or met_by == key

    def _needs_table(self, node: Node, name: str) -> bool:
        is_table = name in self._topology and self._topology.kind(name) == TABLE
        return name in node.tables_needed or (is_table and bool(node.tables_needed))

    def _comes_from_topics(self, node: Node, name: str) -> bool:
        """Whether the rows can be shuffled to the task as they are: they come from topics alone."""
        origin = self._origins[name]
        return origin.shuffle is None and origin.repeatable and not self._needs_table(node, name)

    def _kept(self, store: str, name: str, task: str) -> str:
        """Adds a node to the task that keeps a table which comes by a topic; returns the node's name."""
        table = self._add(
            ToTable(free(_table(store), "a table that comes by an internal topic", self._topology), name, store)
        )
        self._tasks.unite([task], table.name)
        self._reads(table.inputs, table.name)
        self._origins[table.name] = _Origin(table.name, True, table.name)
        return table.name

    def _after_changes(self, node: Node) -> None:
        (name,) = node.inputs
        hop = node.hop_name(name)
        signed = self._hop(node, self._with_changes(node, name, hop), hop, of=name, signed=True)
        made = node.with_inputs({name: signed})
        if node.in_task:
            self._join_a_task(made)
        else:
            self._origins[node.name] = self._origin(self._add(made))

    def _with_changes(self, node: Node, name: str, hop: str) -> str:
        """The name of a node in a task that has the table's rows, and so knows the old row of each change: the table
        itself, or the node that keeps it."""
        if self._origins[name].task is not None:
            return name
        rows = f"{hop}-rows"
        return self._kept(rows, self._hop(node, name, rows), _table(rows))

    def _by_columns(self, node: ColumnLookup) -> None:
        """Sends the table's changes to the columns that its rows are looked up by."""
        hop = node.hop_name(node.right)
        changes = self._hop(node, self._with_changes(node, node.right, hop), hop, of=node.right, signed=True)
        self._join_a_task(node.with_inputs({node.right: changes}))

    def _by_foreign_key(self, node: ForeignKeyJoin) -> None:
        """Cuts the join: rows of the left table go to the keys that they name, and their results back to their own."""
        hop = node.left_hop
        moves = self._hop(node, self._with_changes(node, node.left, hop), hop, of=node.left, signed=True, by=node.by)
        name = free(f"{hop}-joined", f"rows of '{node.left}' beside those that they name", self._topology)
        joined = replace(node.with_inputs({node.left: moves}), right=node.right)
        given = {field.name: getattr(joined, field.name) for field in fields(joined)}
        rows = ForeignRows(**{**given, "name": name, "of": node.name})
        self._join_a_task(rows)
        results = self._hop(node, name, node.store, of=node.name)
        self._add(ForeignResults(node.name, results, node.store))
        self._tasks.unite((), node.name)
        self._reads((results,), node.name)
        self._origins[node.name] = _Origin(node.name, True, node.name)

    # The nodes that the pass makes

    def _hop(
        self,
        node: Node,
        upstream: str,
        name: str,
        *,
        of: str | None = None,
        signed: bool = False,
        by: tuple[str, ...] = (),
    ) -> str:
        """Adds the nodes that write and read an internal topic; returns the name of the one that reads it.

        Args:
            of: the user's node whose rows these are, where it is not `upstream` itself.
            by: the columns of a table whose changed rows go to the key that they name.
        """
        what = f"an internal topic before '{node.name}'"
        far, near = (free(f"{name}-repartition-{end}", what, self._topology) for end in ("source", "sink"))
        topic = repartition_topic(self._context.application_id, name)
        given = of or upstream
        self._add(RepartitionSink(near, upstream, topic, signed))
        columns, kind = self._topology.columns(given), self._topology.kind(given)
        source = (far, topic, upstream, columns, kind, signed)
        self._add(MovesSource(*source, by) if by else RepartitionSource(*source))
        self._origins[far] = _Origin(None, True, fed_by=self._origins[upstream].behind)
        return far

    def _add(self, node: Node) -> Node:
        self._nodes.append(node)
        return node


def _table(store: str) -> str:
    """The name of the node that keeps a table which comes by an internal topic."""
    return f"{store}-table"
