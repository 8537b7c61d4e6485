# SPDX-License-Identifier: Apache-2.0
"""The interface of every node, so that nothing else keeps a table of operations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Self

from streamapp.nodes.columns import Columns
from streamapp.outline import Outline

if TYPE_CHECKING:
    from streamapp.errors import Problem
    from streamapp.nodes.topology import Topology

Origin = str | tuple[str, str | None, str]
"""The origin of a column: ("field", type, name) of a topic, ("function", type, name) of the user's, or the digest of
how it is computed."""
Origins = Mapping[str, Origin]
"""Origins by the column's name in lower case."""

STREAM = "STREAM"
TABLE = "TABLE"


class Role(StrEnum):
    """The purpose of an expression, which decides what its value must be."""

    CONDITION = "condition"
    """Whether a record is kept: true or false."""
    EARLIER = "earlier"
    """The condition of an arm before this one. It is a mistake of that arm's when it is wrong."""
    COLUMN = "column"
    """A column's value, of one record."""
    ARRAY = "array"
    """Something with one record per element."""
    KEY = "key"
    """No expression: the name of a column."""
    GROUP = "group"
    """A column of the key, of one record."""
    AGGREGATE = "aggregate"
    """A column's value, of all records of a group."""
    FOLDED = "folded"
    """A column's value, of a record and of the value so far of those before it in its group, `acc.column`."""
    JOINED = "joined"
    """A column's value, of two records: its columns are written NODE.column."""
    TIMESTAMP = "timestamp"
    """A record's event time."""


@dataclass(frozen=True)
class NodeExpression:
    """An expression of a node."""

    role: Role
    field: str
    """Where it stands in the manifest, e.g. `select.total`."""
    text: str


@dataclass(frozen=True)
class StoredTable:
    """A store as it can be queried: the rows of a table."""

    key: tuple[str, ...]
    """Columns, without those of the window."""
    values: tuple[str, ...]
    windowed: bool


@dataclass(frozen=True)
class Node:
    """A step of the topology; `name` is unique in it."""

    name: str

    operation: ClassVar[str]
    """The manifest's name for it; for a node that a pass makes, the name that `explain` uses."""
    outline: ClassVar[Outline] = Outline()
    """Its fields of the manifest."""
    source: ClassVar[bool] = False
    """True when it reads a topic."""
    sink: ClassVar[bool] = False
    """True when it writes a topic."""
    internal: ClassVar[bool] = False
    """True when that topic is the app's own."""
    keyed: ClassVar[bool] = False
    """True when all records of a key must come to one place: its inputs are shuffled."""
    row_wise: ClassVar[bool] = False
    """True when each row becomes one row, or none, by expressions alone: it can run in the task whose rows it reads."""

    @property
    def in_task(self) -> bool:
        """True when it runs in the task of its key, beside other such nodes of the same key."""
        return False

    @property
    def leaves_task(self) -> bool:
        """True when no stateful node can go on with its records in its task: they have another key than the task goes
        by, or go on long after they have come, and are late for what goes by the time of records."""
        return False

    def in_a_task(self) -> Self | None:
        """A node that can run alone, as it runs in the task that has its rows under its key; None where it never
        does."""
        return None

    @property
    def timed(self) -> bool:
        """True when its state and its late records go by the stream time of its sources: a task takes its rows in that
        order."""
        return self.in_task

    @property
    def in_order(self) -> bool:
        """True when it takes its rows in an order: by stream time, and where that is equal by where they were read."""
        return self.in_task

    @property
    def gives_later(self) -> str | None:
        """The cause of results that come after the records that make them: "windows that are still open". None when
        they come at once."""
        return None

    @property
    def lag_ms(self) -> int:
        """How far the event time of its results may lie before the time that is closed by stream time, in milliseconds:
        it keeps the records that make them for that long."""
        return 0

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the nodes whose output this one reads, in order."""
        return ()

    def with_inputs(self, renamed: Mapping[str, str]) -> Self:
        """The node reading other nodes, by old name to new name."""
        return self

    @property
    def topics_read(self) -> tuple[str, ...]:
        """The topics that it reads and names."""
        return ()

    @property
    def pattern_read(self) -> str | None:
        """The pattern of the topics that it reads, where it names none."""
        return None

    @property
    def topics_written(self) -> tuple[str, ...]:
        """The topics that it writes."""
        return ()

    @property
    def topic_field(self) -> str:
        """Where the manifest names the topic that it reads or writes."""
        return f"{self.operation}.topic"

    @property
    def partitions_wanted(self) -> int | None:
        """How many partitions the topic that it writes gets when it is made. None: as many as the broker says."""
        return None

    @property
    def makes_bad_records(self) -> bool:
        """True when it may meet a record that it cannot read."""
        return False

    @property
    def owner(self) -> str:
        """The node of the manifest that problems of this one name."""
        return self.name

    def reads(self, topic: str) -> bool:
        """Whether it reads that topic."""
        return topic in self.topics_read

    @property
    def stores(self) -> tuple[str, ...]:
        """Names of the stores that it keeps its state in."""
        return ()

    def stored_table(self, store: str, inputs: Sequence[Columns] = ()) -> StoredTable | None:
        """Its store of that name as it can be queried, by the columns of its inputs; None when it holds no table."""
        return None

    @property
    def subtopology(self) -> str | None:
        """The name of the sub-topology that is built around it alone; None when it goes along with others. Without
        state, a sub-topology is named after a source; that of nodes which share a task, after their first store."""
        return None

    @property
    def tables_needed(self) -> tuple[str, ...]:
        """Those of its inputs whose rows it looks up by their key."""
        return ()

    def keeps_task(self, key: Sequence[str]) -> bool:
        """Whether its rows, of this key, are under the key that its task goes by."""
        return True

    def met_by(self, name: str) -> tuple[str, ...]:
        """The columns of that input that its key is made of; none: the input's key."""
        return ()

    def takes_changes(self, kinds: Sequence[str]) -> bool:
        """Whether it needs the old row of each change, beside the new one; by the kinds of its inputs."""
        return False

    @property
    def output_mode(self) -> str:
        """`update` when its output replaces its earlier output, else `append`."""
        return "append"

    @property
    def functions(self) -> tuple[str, ...]:
        """The functions of the user's that it calls, as `module:name`. Nobody knows whether they are deterministic."""
        return ()

    def expressions(self) -> tuple[NodeExpression, ...]:
        """Everything that it asks Spark to compute, and the columns that it names; in the manifest's order."""
        return ()

    def output_kind(self, inputs: Sequence[str]) -> str:
        """STREAM (independent events) or TABLE (the latest value of each key), by the kinds of its inputs."""
        return inputs[0] if inputs else STREAM

    def output_columns(self, inputs: Sequence[Columns]) -> Columns:
        """The columns of its output, by those of its inputs; for a sink, those of its input."""
        return inputs[0]

    def hop_name(self, upstream: str) -> str:
        """The name of the internal topic between that input and this node: after the store where there is one, so that
        the topic's records are not lost when nodes are put in before it later."""
        return f"{self.name}-{upstream}"

    def check(self, topology: Topology) -> Iterable[Problem]:
        """The problems of the node in its place: the kinds and columns of its inputs, its names, its expressions."""
        return ()

    def origins(self, inputs: Sequence[Columns], before: Sequence[Origins]) -> Origins:
        """The origin of each column of its output.

        Args:
            inputs: the columns of each of its inputs.
            before: the origins of those.
        """
        return before[0]

    def state_shape(self, inputs: Sequence[Columns], before: Sequence[Origins]) -> Any:
        """The shape of its state's keys and values, as plain data: equal for two versions exactly when one can go on
        with the other's state. None without state."""
        return None

    def description(self, inputs: Sequence[Columns]) -> str:
        """A description on one line, in the manifest's terms.

        Args:
            inputs: the columns of each of its inputs.
        """
        return ""


@dataclass(frozen=True)
class OneInput(Node):
    """A node that reads one other."""

    input: str

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.input,)

    def with_inputs(self, renamed: Mapping[str, str]) -> Self:
        return replace(self, input=renamed.get(self.input, self.input))
