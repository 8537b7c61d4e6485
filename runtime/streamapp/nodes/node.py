# SPDX-License-Identifier: Apache-2.0
"""What every node can be asked, so that nobody else keeps a table of operations."""

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
"""Where a column comes from: ("field", type, name) of a topic, ("function", type, name) of the user's, or the digest of
how it is computed."""
Origins = Mapping[str, Origin]
"""By the column's name in lower case."""

STREAM = "STREAM"
TABLE = "TABLE"


class Role(StrEnum):
    """What an expression is for, and so what its value must be."""

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
    """A column's value, of a record and of what those before it in its group have come to, `acc.column`."""
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
    """What can be asked of a store: the rows of a table."""

    key: tuple[str, ...]
    """Columns, without those of the window."""
    values: tuple[str, ...]
    windowed: bool


@dataclass(frozen=True)
class Node:
    """A step of the topology; `name` is unique in it."""

    name: str

    operation: ClassVar[str]
    """What the manifest calls it; of a node that a pass makes: what `explain` calls it."""
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
        """True when what it keeps, and what is late for it, goes by the stream time of its sources: a task takes its
        rows in that order."""
        return self.in_task

    @property
    def in_order(self) -> bool:
        """True when it takes its rows in an order: of stream time, and where that is equal of where they were read."""
        return self.in_task

    @property
    def gives_later(self) -> str | None:
        """What its results wait for, where they come after the records that make them: "windows that are still open".
        None when they come at once."""
        return None

    @property
    def lag_ms(self) -> int:
        """How much earlier than what is closed by stream time the event time of its results may be, in milliseconds:
        it keeps what makes them for that long."""
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
        """The node of the manifest that is named where something is wrong with it."""
        return self.name

    def reads(self, topic: str) -> bool:
        """Whether it reads that topic."""
        return topic in self.topics_read

    @property
    def stores(self) -> tuple[str, ...]:
        """Names of the stores that it keeps its state in."""
        return ()

    def stored_table(self, store: str, inputs: Sequence[Columns] = ()) -> StoredTable | None:
        """What can be asked of that store of its, by the columns of its inputs; None when it holds no table."""
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
        """Whether it must know what each row was, beside what it is; by the kinds of its inputs."""
        return False

    @property
    def output_mode(self) -> str:
        """`update` when what it gives replaces what it gave before, else `append`."""
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
        """The columns of its output, by those of its inputs; of a sink: those it is given."""
        return inputs[0]

    def hop_name(self, upstream: str) -> str:
        """What the internal topic between that input and this node is called: by the store where there is one, so that
        nodes put in before it later do not lose what is in the topic."""
        return f"{self.name}-{upstream}"

    def check(self, topology: Topology) -> Iterable[Problem]:
        """What is wrong with it in its place: the kinds and columns of what it reads, its names, its expressions."""
        return ()

    def origins(self, inputs: Sequence[Columns], before: Sequence[Origins]) -> Origins:
        """Where each column of its output comes from.

        Args:
            inputs: the columns of each of its inputs.
            before: where those come from.
        """
        return before[0]

    def state_shape(self, inputs: Sequence[Columns], before: Sequence[Origins]) -> Any:
        """What its state's keys and values are, as plain data: equal for two versions exactly when one can go on with
        the other's state. None without state."""
        return None

    def description(self, inputs: Sequence[Columns]) -> str:
        """What it does, on one line, in the manifest's terms.

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
