# SPDX-License-Identifier: Apache-2.0
"""`groupBy` with `aggregate`: a table with the aggregates of groups of records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from pydantic import BeforeValidator, Field

from streamapp.companions import Rule, Rules, only_for
from streamapp.durations import format_duration, parse_duration
from streamapp.errors import Problem
from streamapp.expressions import quote, read_expression
from streamapp.fields import Duration, Expressions, PositiveDuration, one_of, refuse
from streamapp.nodes import (
    TABLE,
    Columns,
    Node,
    NodeExpression,
    OneInput,
    Origins,
    Role,
    StoredTable,
    Topology,
)
from streamapp.nodes.pairs import Pairs, described, names_of, pairs_of, placed
from streamapp.operations.cogroup import RULES as COGROUPS
from streamapp.operations.cogroup import Cogroup, place_of
from streamapp.operations.group_checks import FOLDED, check_groups, is_retractable
from streamapp.operations.groups import Groups
from streamapp.operations.late import with_late_records
from streamapp.operations.making import Making
from streamapp.operations.steps import Steps
from streamapp.operations.top import RULES as TOPS
from streamapp.operations.top import Top
from streamapp.operations.ttl import expiring, ttl_in_words
from streamapp.operations.window import A_WINDOW, Window, WindowSpec, group_columns
from streamapp.operations.window import RULES as WINDOWS
from streamapp.origins import aggregated, all_computed, declared, digest, expression
from streamapp.outline import Outline

if TYPE_CHECKING:
    from streamapp.manifest.node import NodeSpec

GROUP = Rule(
    "groupBy",
    "`aggregate` is missing",
    'say what to compute, e.g. aggregate: {count: "count(*)"}',
    needs=("aggregate", "reduce", "cogroup", "top"),
    reported_for="aggregate",
)
"""The rule of a `groupBy` with nothing to compute."""
RULES: Rules = (
    GROUP,
    *(
        only_for(field, "groupBy")
        for field in ("aggregate", "reduce", "top", "window", "grace", "retention", "late", "emit", "ttl")
    ),
    Rule(
        "reduce",
        "`aggregate` and `reduce` are both there",
        "keep one of them, or make a node of each",
        excludes=("aggregate",),
    ),
    Rule(
        "ttl",
        "`ttl` is there with a `window`",
        "remove it: a window ends by itself, and `retention` says how long it is kept",
        excludes=("window",),
    ),
    *TOPS,
    *COGROUPS,
    only_for("store", "groupBy", "deduplicate", "join", "table", "globalTable", "toTable", "suppress"),
    *(
        Rule(field, f"`{field}` is there without a `window`", f"add e.g. {A_WINDOW}", needs=("window",))
        for field in ("grace", "retention", "late")
    ),
    Rule(
        "emit",
        "`emit: final` needs a `window`: without one no result is ever final",
        f"add e.g. {A_WINDOW}, or emit: updates",
        needs=("window",),
        value="final",
    ),
)


def _group(value: Any) -> Any:
    if isinstance(value, dict) and len(value) != 1:
        refuse(
            f"one item of groupBy is one column, and this has {len(value)}",
            "write each as an item of its own: [{a: …}, {b: …}]; the order makes the key",
        )
    if not isinstance(value, str | dict):
        refuse(
            "an item of groupBy is a column, or {name: expression}",
            "e.g. groupBy: [user, {day: date(timestamp)}]",
        )
    return value


GroupItem = Annotated[str | dict[str, str], BeforeValidator(_group)]
Given = Annotated[
    list[GroupItem] | None,
    Field(min_length=1, description="Group columns in the key's order: a column, or {name: expression}."),
]
"""The field of the manifest."""
Aggregates = Annotated[Expressions | None, Field(description="With groupBy: column to aggregate expression.")]
Reduce = Annotated[
    Expressions | None,
    Field(
        description="With groupBy: column to its next value, from `acc.column`, its value so far, and a record.",
    ),
]
Grace = Annotated[Duration | None, Field(description="With window: how late a record may come. Default: 0s.")]
Retention = Annotated[
    PositiveDuration | None,
    Field(
        description="With window: how long a window can still be asked for when it is closed. Default: not at all.",
    ),
]
Emit = Annotated[
    str | None,
    BeforeValidator(lambda value: one_of(value, ("updates", "final")) if value is not None else None),
    Field(
        description="With groupBy: `updates` (every change, the default) or `final` (closed windows).",
        json_schema_extra={"enum": ["updates", "final"]},
    ),
]
Expires = Annotated[
    PositiveDuration | None,
    Field(description="With groupBy: how long a group stays that has no record, in event time. Default: for ever."),
]


_LAYOUT = 2
"""The layout of the state of windows, and of `reduce`: since 2, windows are in the order of their starts. Another
number makes another fingerprint."""


@dataclass(frozen=True)
class Aggregate(OneInput):
    """A table: one row per group (and window) with the aggregates of the group's records."""

    by: Pairs
    """Group columns (name, expression), in the key's order."""
    columns: Pairs
    """Aggregates (name, expression), sorted by name."""
    window: Window | None
    grace_ms: int
    emit: str
    """`updates`, or `final`: once per window, when it closes."""
    store: str
    retention_ms: int = 0
    """How long windows stay in the store when they are closed."""
    late: str | None = None
    """The topic that late records go to; None: none."""
    reduce: Pairs = ()
    """In place of aggregates: columns of the records, and how a record changes their values so far."""
    folds: bool = False
    """Whether it runs in the task of its key, where the records of a group are taken in their order: a pass sets it."""
    ttl_ms: int = 0
    """How long a group stays that has no record; 0: for ever."""
    keeps_rows: bool = False
    """Whether it is over a table whose rows it keeps, as an old row cannot be taken out of its aggregates again."""
    top: Top | None = None
    """The rows that its only aggregate keeps, where the manifest asks for these."""
    within: Pairs = ()
    """Where a cogroup has been made into it: for each aggregate the struct column that its expression is over."""

    operation: ClassVar[str] = "groupBy"
    outline: ClassVar[Outline] = Outline(
        rules=RULES,
        inner_rules={"window": WINDOWS},
        columns=(("aggregate",), ("reduce",), ("cogroup", "aggregate")),
        aside=(
            ("grace",),
            ("retention",),
            ("late",),
            ("emit",),
            ("ttl",),
            ("top", "rows"),
            ("store",),
            *(("window", field) for field in WindowSpec.model_fields),
        ),
    )
    keyed: ClassVar[bool] = True

    @classmethod
    def of(cls, spec: NodeSpec, making: Making) -> tuple[Node, ...]:
        # A string is a column's name, whatever characters it has; a map has an expression.
        by = (
            (item, quote(item)) if isinstance(item, str) else next(iter(item.items())) for item in spec.group_by or ()
        )
        common: dict[str, Any] = {
            "by": tuple(by),
            "window": Window.of(spec.name, spec.window, making) if spec.window is not None else None,
            "grace_ms": parse_duration(spec.grace or "0s"),
            "emit": spec.emit or "updates",
            "store": spec.store or spec.name,
            "retention_ms": parse_duration(spec.retention or "0s"),
            "ttl_ms": parse_duration(spec.ttl or "0s"),
            "late": spec.late.topic if spec.late is not None else None,
        }
        made = Cogroup.of(spec, making, **common) if spec.cogroup is not None else cls._of_one(spec, making, common)
        return with_late_records(made, made.late)

    @classmethod
    def _of_one(cls, spec: NodeSpec, making: Making, common: Mapping[str, Any]) -> Self:
        top = Top(spec.top.rows, spec.top.by) if spec.top is not None else None
        return cls(
            spec.name,
            making.input,
            # The input says which columns a row has, when all nodes are there.
            columns=top.aggregates(Columns(), ()) if top is not None else pairs_of(spec.aggregate or {}),
            top=top,
            reduce=pairs_of(spec.reduce or {}),
            **common,
        )

    @property
    def needs_order(self) -> bool:
        """Whether a group depends on the order of its records."""
        return bool(self.reduce) or any(read_expression(text).ordered for _, text in self.columns)

    @property
    def stores(self) -> tuple[str, ...]:
        return (self.store,)

    @property
    def in_task(self) -> bool:
        return self.folds

    @property
    def leaves_task(self) -> bool:
        return self.window is not None

    def in_a_task(self) -> Self:
        return replace(self, folds=True)

    def met_by(self, name: str) -> tuple[str, ...]:
        # A text that is no column's name is no key's either.
        plain = {text: parsed.columns[0][0] for _, text in self.by if (parsed := read_expression(text)).is_column}
        return tuple(plain.get(text, text) for _, text in self.by)

    @property
    def timed(self) -> bool:
        return self.window is not None or self.in_task

    @property
    def lag_ms(self) -> int:
        return 0 if self.window is None else self.window.size_ms + self.grace_ms

    @property
    def in_order(self) -> bool:
        return self.needs_order or self.in_task

    @property
    def values(self) -> Pairs:
        """The columns of a group's row, and how they are computed."""
        return self.columns or self.reduce

    @property
    def aggregated_columns(self) -> tuple[str, ...]:
        """The columns of its input that its values are computed of, in lower case, sorted."""
        used = {parts[0].lower() for _, text in self.values for parts in read_expression(text).columns}
        used |= {name.lower() for name in self.reduced}
        return tuple(sorted(used - {FOLDED} if self.reduce else used))

    @property
    def reduced(self) -> tuple[str, ...]:
        """The columns of `reduce`."""
        return names_of(self.reduce)

    @property
    def gives_later(self) -> str | None:
        return "windows that are still open" if self.emit == "final" else None

    def stored_table(self, store: str, inputs: Sequence[Columns] = ()) -> StoredTable:
        return StoredTable(names_of(self.by), names_of(self.values), self.window is not None)

    @property
    def subtopology(self) -> str | None:
        """The store's name: it lasts as long as the state does, and the node may be renamed."""
        return None if self.folds else self.store

    @property
    def output_mode(self) -> str:
        """Spark's output mode; our operator decides by `emit` which results a window gives."""
        return "update"

    def expressions(self) -> tuple[NodeExpression, ...]:
        if self.top is not None:
            return (*placed(Role.GROUP, "groupBy", self.by), NodeExpression(Role.COLUMN, "top.by", self.top.by))
        structs = dict(self.within)
        places = {name: place_of(structs[name]) if name in structs else "aggregate" for name, _ in self.columns}
        return (
            *placed(Role.GROUP, "groupBy", self.by),
            *(NodeExpression(Role.AGGREGATE, f"{places[name]}.{name}", text) for name, text in self.columns),
            *placed(Role.FOLDED, "reduce", self.reduce),
        )

    def takes_changes(self, kinds: Sequence[str]) -> bool:
        return kinds[0] == TABLE and (self.keeps_rows or not self.folds)

    def output_kind(self, inputs: Sequence[str]) -> str:
        return TABLE

    def output_columns(self, inputs: Sequence[Columns]) -> Columns:
        return group_columns(self.by, self.window, self.values)

    def hop_name(self, upstream: str) -> str:
        return self.store

    def description(self, inputs: Sequence[Columns]) -> str:
        by = ", ".join(name if name == text.strip("`") else f"{name} = {text}" for name, text in self.by)
        values = described(self.values) if self.top is None else f"the {self.top.rows} rows of most {self.top.by}"
        text = f"by {by}: {values}"
        if self.window is not None:
            text += f", {self.window.description}, grace {format_duration(self.grace_ms)}"
            text += f", kept for {format_duration(self.retention_ms)}" if self.retention_ms else ""
        text += ", of rows that it keeps" if self.keeps_rows else ""
        return text + (", emit final" if self.emit == "final" else "") + ttl_in_words(self.ttl_ms)

    def check(self, topology: Topology) -> Iterator[Problem]:
        if self.ttl_ms and topology.kind(self.input) == TABLE:
            message = f"a group of the table '{self.input}' has no records whose age counts, but rows"
            yield Problem(self.name, "ttl", None, message, "give the table that reads them a `ttl`, or remove it here")
        yield from check_groups(self, topology)
        if self.top is not None:
            yield from self.top.check(self.name, self.input, self.by, topology)

    def origins(self, inputs: Sequence[Columns], before: Sequence[Origins]) -> Origins:
        (source,) = before
        kind = "aggregate" if self.columns else "reduce"
        found = {name.lower(): digest([kind, expression(text, source)]) for name, text in self.values}
        windows = {"timestamp": "latest", "window_start": "window", "window_end": "window"}
        return {**windows, **found, **all_computed(self.by, source)}

    def state_shape(self, inputs: Sequence[Columns], before: Sequence[Origins]) -> Any:
        (columns,), (source,) = inputs, before
        if self.keeps_rows:
            return {
                "operation": "kept rows",
                "key": [[name.lower(), expression(text, source)] for name, text in self.by],
                "own": [source.get(name.lower()) for name in columns.key],
                "values": {name: declared(source.get(name)) for name in self.aggregated_columns},
            }
        return {
            "operation": "aggregate" if self.columns else "reduce",
            **({"layout": _LAYOUT} if self.window or self.reduce else {}),
            "window": self.window.shape if self.window else None,
            "key": [[name.lower(), expression(text, source)] for name, text in self.by],
            "values": {name.lower(): aggregated(text, source) for name, text in self.values},
            **expiring(self.ttl_ms),
        }


def with_what_it_reads(node: Aggregate, topology: Topology) -> Aggregate:
    """The node, knowing the columns of the rows that it reads, and whether it keeps those of a table."""
    if node.top is not None:
        node = replace(node, columns=node.top.aggregates(topology.columns(node.input), node.by))
    retractable = not node.reduce and all(is_retractable(text) for _, text in node.columns)
    if retractable or node.window is not None or topology.kind(node.input) != TABLE:
        return node
    return replace(node, keeps_rows=True)


class GroupByStep(Steps):
    """The builder's method."""

    def group_by(self, name: str, *columns: str, **expressions: str) -> Groups[Self]:
        """Groups by columns and then by named expressions; `aggregate` makes the table.

        >>> from streamapp.builder import StreamBuilder
        >>> lines = StreamBuilder("app").stream("lines", topic="text")
        >>> counts = lines.group_by("counts", "value").window(tumbling="1 hour").aggregate(n="count(*)")
        >>> counts.builder.build().spec.topology[1].aggregate
        {'n': 'count(*)'}
        """
        by: list[str | dict[str, str]] = [*columns, *({key: text} for key, text in expressions.items())]
        return Groups(self, name, tuple(by))
