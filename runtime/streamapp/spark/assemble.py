# SPDX-License-Identifier: Apache-2.0
"""A sub-topology as ONE DataFrame of output records, so that every row is computed once however many sinks there are.

A chain of nodes is a chain of DataFrames. Where rows fan out (several consumers, branches), Spark would run the part
before the fan-out once for each sink; instead the branches share one frame. Each row is copied once per consumer;
`__at` names the edge that the copy is for. While other branches are built, a branch's columns are parked in a struct
column `__edge_N`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from streamapp import nodes as n
from streamapp import operations as o
from streamapp.plan import SubTopology
from streamapp.spark.entries import entries_of
from streamapp.spark.exits import wanted_by
from streamapp.spark.flow import Flow, column
from streamapp.spark.late import RECORD
from streamapp.spark.merged import merged
from streamapp.spark.records import RECORD_COLUMNS, RECORD_TYPES
from streamapp.spark.tasks import Task
from streamapp.spark.visitor import Visitor

_AT = "__at"


def assemble(part: SubTopology, visitor: Visitor) -> DataFrame:
    """The output records (topic, key, value, timestamp, headers) of a sub-topology.

    Raises:
        ManifestError: when Spark cannot make sense of an expression, naming the node.
    """
    if not part.stateful:
        return _records(part.nodes, visitor, {})
    if part.task:
        return _around_task(part, visitor)
    (name,) = part.stateful
    before = _ancestors(part.nodes, name)
    stateful = visitor.visit(before[-1], _inputs(before, visitor))
    inner = {node.name for node in before}
    after = tuple(node for node in part.nodes if node.name not in inner)
    if any(isinstance(node, n.LateRecords) for node in after):
        late = f"{name}\0late"
        after = tuple(node.with_inputs({name: late}) if isinstance(node, n.LateRecords) else node for node in after)
        return _records(
            after, visitor, {name: stateful, late: Flow(stateful.frame, RECORD_COLUMNS, (), (), packed=RECORD)}
        )
    return _records(after, visitor, {name: stateful})


@dataclass(frozen=True)
class _AllEntries(n.Node):
    """Stands for a task, as the reader of all its entries."""

    sources: tuple[str, ...]

    @property
    def inputs(self) -> tuple[str, ...]:
        return self.sources


def _around_task(part: SubTopology, visitor: Visitor) -> DataFrame:
    entries = entries_of(part)
    reader = _AllEntries("", tuple(entry.source for entry in entries))
    outside = (*(node for node in part.nodes if node.source or node.name not in part.task), reader)
    before = _ancestors(outside, reader.name)
    flows = _inputs(before, visitor)
    exits, output = Task(part, flows[0].frame.sparkSession, visitor).exits(entries, flows)
    names = {(exit.node, exit.kind): f"{exit.node}\0{exit.kind}" for exit in exits}
    inner = {*(node.name for node in before), *part.task}
    after = []
    for node in part.nodes:
        if node.name not in inner:
            kind = wanted_by(node)
            renamed = {name: names[name, kind] for name in node.inputs if (name, kind) in names}
            after.append(node.with_inputs(renamed))
    if not exits:
        return output.select(*(F.lit(None).cast(kind).alias(name) for name, kind in RECORD_TYPES.items()))
    return _records(tuple(after), visitor, {names[exit.node, exit.kind]: exit.flow for exit in exits})


def _ancestors(nodes: tuple[n.Node, ...], name: str) -> tuple[n.Node, ...]:
    """All nodes that a node depends on, and the node itself at the end."""
    by_name = {node.name: node for node in nodes}
    wanted: set[str] = set()
    pending = [name]
    while pending:
        current = pending.pop()
        if current not in wanted:
            wanted.add(current)
            pending.extend(by_name[current].inputs)
    return tuple(node for node in nodes if node.name in wanted)


def _inputs(nodes: tuple[n.Node, ...], visitor: Visitor) -> list[Flow]:
    """The flows that the last of these nodes reads.

    A source is read only once, even if its rows arrive by several ways. If it were read twice, stream time would take
    the partitions of both readings for the same ones, and rows that one of them has not read yet would count as late.
    """
    consumers = _consumers(nodes)
    if any(len(edges) > 1 for edges in consumers.values()):
        return _SharedFrame(nodes[:-1], visitor, {}, consumers).inputs_of(nodes[-1])
    flows: dict[str, Flow] = {}
    for node in nodes[:-1]:
        flows[node.name] = visitor.visit(node, [flows[name] for name in node.inputs])
    return [flows[name] for name in nodes[-1].inputs]


def _records(nodes: tuple[n.Node, ...], visitor: Visitor, given: dict[str, Flow]) -> DataFrame:
    consumers = _consumers(nodes)
    # If it were read twice, the part that several share would be computed twice.
    if len(given) > 1 or any(len(edges) > 1 for edges in consumers.values()):
        return _SharedFrame(nodes, visitor, given, consumers).records()
    flows = {name: unpacked(flow) for name, flow in given.items()}
    for node in nodes:
        flows[node.name] = visit_node(node, nodes, visitor, [flows[name] for name in node.inputs])
    sinks = [flows[node.name].frame for node in nodes if node.name not in consumers]
    if not sinks:  # a store alone
        sinks = [visitor.unwritten(flow).frame for flow in given.values()]
    return reduce(lambda a, b: a.unionByName(b), sinks)


def _consumers(nodes: tuple[n.Node, ...]) -> dict[str, list[tuple[str, int]]]:
    """The readers of each node's output, each with the number of the input that it reads it as."""
    found: dict[str, list[tuple[str, int]]] = {}
    for node in nodes:
        for position, name in enumerate(node.inputs):
            found.setdefault(name, []).append((node.name, position))
    return found


def unpacked(flow: Flow) -> Flow:
    """The flow with a frame of its own rows alone, where its frame has rows of others too."""
    if flow.packed is None:
        return flow
    names = flow.physical()
    frame = flow.frame.select(*(flow.physically(name).alias(name) for name in names))
    return replace(flow, frame=frame, packed=None)


def visit_node(node: n.Node, nodes: tuple[n.Node, ...], visitor: Visitor, inputs: list[Flow]) -> Flow:
    """The flow of one of these nodes over the flows of its inputs."""
    if isinstance(node, n.DeadLetter):
        source = next(s for s in nodes if s.name == node.input)
        assert isinstance(source, o.Stream)
        inputs = [visitor.sources.bad_records(source)]
    return visitor.visit(node, inputs)


@dataclass
class _Parked:
    """A flow whose columns wait in the struct column `edge` of the shared frame."""

    flow: Flow
    edge: str
    number: int


class _SharedFrame:
    """The frame that all branches share, with the flows that are parked in it."""

    def __init__(
        self,
        nodes: tuple[n.Node, ...],
        visitor: Visitor,
        given: dict[str, Flow],
        consumers: dict[str, list[tuple[str, int]]],
    ) -> None:
        self._nodes = nodes
        self._visitor = visitor
        self._consumers = consumers
        self._parked: dict[tuple[str, int], _Parked] = {}
        self._outputs: list[_Parked] = []
        self._number = 0
        self._frame: DataFrame | None = None
        if given and all(flow.packed is not None for flow in given.values()):
            self._start_together(given)
        else:
            for name, flow in given.items():
                self._start(name, flow)

    def records(self) -> DataFrame:
        """The records of all sinks."""
        self._run()
        assert self._frame is not None
        # Each row belongs to exactly one output: the others' structs are null.
        merged = F.coalesce(*(column(parked.edge) for parked in self._outputs))
        return self._frame.select(merged.alias("__record")).select(
            *(F.col("__record")[name].alias(name) for name in RECORD_COLUMNS)
        )

    def inputs_of(self, node: n.Node) -> list[Flow]:
        """The flows that a node outside these nodes reads: one flow alone, or several that share a frame."""
        self._run()
        parked = [self._parked.pop((node.name, i)) for i in range(len(node.inputs))]
        if len(parked) == 1:
            return [replace(parked[0].flow, frame=self._unpack(parked[0], ()))]
        assert self._frame is not None
        return [replace(waiting.flow, frame=self._frame, packed=waiting.edge) for waiting in parked]

    def _run(self) -> None:
        for node in self._nodes:
            if not node.inputs:
                self._start(node.name, visit_node(node, self._nodes, self._visitor, []))
        for node in self._nodes:
            if node.inputs:
                self._step(node)

    def _start(self, name: str, flow: Flow) -> None:
        """Adds a root (a source, or the stateful node) to the shared frame."""
        edges = self._consumers[name]
        parked = [self._new_edge(flow) for _ in edges]
        struct = F.struct(*(column(p) for p in flow.physical()))
        frame = flow.frame.select(
            F.explode(F.array(*(F.lit(p.number) for p in parked))).alias(_AT), struct.alias("__row")
        )
        frame = frame.select(_AT, *(F.when(column(_AT) == p.number, column("__row")).alias(p.edge) for p in parked))
        for edge, waiting in zip(edges, parked, strict=True):
            self._parked[edge] = waiting
        self._frame = frame if self._frame is None else self._frame.unionByName(frame, allowMissingColumns=True)

    def _start_together(self, given: dict[str, Flow]) -> None:
        """Adds roots that share a frame; each row belongs to one of them."""
        numbers: Column = F.lit(None)
        parked: list[tuple[str, _Parked]] = []
        for name, flow in given.items():
            edges = self._consumers.get(name, [])  # none where there is only a store
            mine = [self._new_edge(replace(flow, packed=None)) for _ in edges]
            self._parked |= dict(zip(edges, mine, strict=True))
            assert flow.packed is not None
            parked += [(flow.packed, waiting) for waiting in mine]
            there = column(flow.packed).isNotNull()
            numbers = F.when(there, F.array(*(F.lit(p.number) for p in mine))).otherwise(numbers)
        roots = dict.fromkeys(root for root, _ in parked)
        frame = next(iter(given.values())).frame.select(F.explode(numbers).alias(_AT), *map(column, roots))
        self._frame = frame.select(
            _AT, *(F.when(column(_AT) == p.number, column(root)).alias(p.edge) for root, p in parked)
        )

    def _new_edge(self, flow: Flow) -> _Parked:
        self._number += 1
        return _Parked(flow, f"__edge_{self._number}", self._number)

    def _step(self, node: n.Node) -> None:
        assert self._frame is not None
        inputs = [self._parked.pop((node.name, i)) for i in range(len(node.inputs))]
        edges = {parked.edge for parked in inputs}
        carried = tuple(name for name in self._frame.columns if name not in edges)
        if isinstance(node, o.Merge):
            flow = self._merged(node, inputs, carried)
        else:
            (waiting,) = inputs
            flow = replace(
                waiting.flow,
                frame=self._unpack(waiting, carried),
                guard=column(_AT) == waiting.number,
                carried=carried,
            )
            flow = self._visitor.visit(node, [flow])
        self._park(node.name, flow, carried)

    def _unpack(self, waiting: _Parked, carried: tuple[str, ...]) -> DataFrame:
        assert self._frame is not None
        fields = [column(waiting.edge)[name].alias(name) for name in replace(waiting.flow, carried=()).physical()]
        return self._frame.select(*(column(c) for c in carried), *fields)

    def _merged(self, node: o.Merge, inputs: list[_Parked], carried: tuple[str, ...]) -> Flow:
        """Rows of any of the edges become rows of the first: structs of equal shape, one of them not null."""
        assert self._frame is not None
        first = inputs[0]
        flow, rows = merged(node, [replace(p.flow, frame=self._frame, packed=p.edge) for p in inputs])
        structs = [
            F.when(column(_AT) == parked.number, F.struct(*columns))
            for parked, columns in zip(inputs, rows, strict=True)
        ]
        at = F.when(column(_AT).isin([p.number for p in inputs]), F.lit(first.number)).otherwise(column(_AT))
        self._frame = self._frame.select(
            at.alias(_AT), *(column(c) for c in carried if c != _AT), F.coalesce(*structs).alias(first.edge)
        )
        waiting = replace(first, flow=flow)
        return replace(flow, frame=self._unpack(waiting, carried), guard=column(_AT) == first.number, carried=carried)

    def _park(self, name: str, flow: Flow, carried: tuple[str, ...]) -> None:
        assert flow.guard is not None
        edges = self._consumers.get(name, [])
        bare = replace(flow, carried=(), guard=None)
        names = list(RECORD_COLUMNS) if not edges else bare.physical()
        struct = F.struct(*(column(c) for c in names))
        parked = [self._new_edge(bare) for _ in edges] or [self._new_edge(bare)]
        numbers = F.array(*(F.lit(p.number) for p in parked))
        others = [column(c) for c in carried if c != _AT]
        packed = flow.frame.select(
            F.explode(F.when(flow.guard, numbers).otherwise(F.array(column(_AT)))).alias("__next"),
            *others,
            F.when(flow.guard, struct).alias("__row"),
        )
        self._frame = packed.select(
            column("__next").alias(_AT),
            *others,
            *(F.when(column("__next") == p.number, column("__row")).alias(p.edge) for p in parked),
        )
        if edges:
            for edge, waiting in zip(edges, parked, strict=True):
                self._parked[edge] = waiting
        else:
            self._outputs.append(parked[0])
