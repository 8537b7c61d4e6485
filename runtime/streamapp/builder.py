# SPDX-License-Identifier: Apache-2.0
"""The manifest in Python. Building only writes the manifest down; everything is checked by `build`.

>>> b = StreamBuilder("word-count")
>>> lines = b.stream("lines", topic="text-lines", value="text")
>>> words = lines.flat_map("words", word="split(lower(value), ' ')")
>>> counts = words.group_by("counts", "word").aggregate(count="count(*)", store="word-counts")
>>> _ = counts.to("out", topic="word-counts")
>>> [node.name for node in b.build().spec.topology]
['lines', 'words', 'counts', 'out']
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pydantic.alias_generators import to_camel

from streamapp.manifest import API_VERSION, KIND, Manifest, parse_object
from streamapp.operations.filter import FilterStep
from streamapp.operations.flat_map import FlatMapStep
from streamapp.operations.key_by import KeyByStep
from streamapp.operations.python import PythonStep
from streamapp.operations.select import SelectStep
from streamapp.operations.steps import ColumnMap, FormatLike, given, written_format
from streamapp.operations.to import SinkStep
from streamapp.operations.with_columns import WithStep


class StreamBuilder:
    """Collects nodes. Settings of `spec` are given by name: `StreamBuilder("app", max_parallelism=16)`.

    A setting that is a map is written as in the manifest: `on_bad_record={"deadLetter": "bad-records"}`.
    """

    def __init__(self, name: str, **settings: Any) -> None:
        self._name = name
        self._settings = {to_camel(key): value for key, value in settings.items()}
        self._nodes: list[dict[str, Any]] = []

    def stream(
        self,
        name: str,
        *,
        topic: str | None = None,
        topics: list[str] | None = None,
        pattern: str | None = None,
        key: FormatLike | None = None,
        value: FormatLike | None = None,
        timestamp: str | None = None,
    ) -> Flow:
        """A topic, several, or all that match a pattern, as a stream."""
        return self._add(
            name,
            None,
            stream=given(topic=topic, topics=topics, pattern=pattern, key=written_format(key),
                         value=written_format(value), timestamp=timestamp),
        )  # fmt: skip

    def merge(self, name: str, *flows: Flow) -> Flow:
        """All records of several streams with the same columns."""
        return self._add(name, None, merge=[flow.name for flow in flows])

    def build(self) -> Manifest:
        """The manifest.

        Raises:
            ManifestError: with every problem at once.
        """
        return parse_object(
            {
                "apiVersion": API_VERSION,
                "kind": KIND,
                "metadata": {"name": self._name},
                "spec": {**self._settings, "topology": self._nodes},
            }
        )

    def _add(self, name: str, source: str | None, **fields: Any) -> Flow:
        self._nodes.append({"name": name, **given(**{"from": source}), **given(**fields)})
        return Flow(self, name)


@dataclass(frozen=True)
class Flow(FilterStep, SelectStep, WithStep, FlatMapStep, KeyByStep, PythonStep, SinkStep):
    """A node's output: a stream, or after `aggregate` a table. Each method adds a node that reads it."""

    builder: StreamBuilder
    name: str

    def branch(self, name: str, *arms: tuple[str, str | None]) -> tuple[Flow, ...]:
        """Splits by the first match: (name, condition) each; the last condition may be None: the rest."""
        self._then(name, branch=[given(name=arm, when=when) for arm, when in arms])
        return tuple(Flow(self.builder, arm) for arm, _ in arms)

    def group_by(self, name: str, *columns: str, **expressions: str) -> Groups:
        """Groups by columns and then by named expressions; `aggregate` makes the table."""
        by: list[str | dict[str, str]] = [*columns, *({key: text} for key, text in expressions.items())]
        return Groups(self, name, tuple(by))

    def join(
        self,
        name: str,
        other: Flow,
        *,
        within: str | None = None,
        by: list[str] | None = None,
        type: str | None = None,
        grace: str | None = None,
        select: ColumnMap | None = None,
        store: str | None = None,
    ) -> Flow:
        """Joins another stream whose key equals the columns `by` (default: the key) of this one."""
        fields = given(by=by, type=type, within=within, grace=grace, select=dict(select) if select else None)
        return self._then(name, join={"with": other.name, **fields}, store=store)

    def _then(self, name: str, **fields: Any) -> Flow:
        return self.builder._add(name, self.name, **fields)


@dataclass(frozen=True)
class Groups:
    """Records in groups, waiting for `aggregate`."""

    flow: Flow
    name: str
    by: tuple[str | dict[str, str], ...]
    windows: Mapping[str, str] | None = None
    grace: str | None = None

    def window(
        self,
        *,
        tumbling: str | None = None,
        hopping: str | None = None,
        every: str | None = None,
        grace: str | None = None,
    ) -> Groups:
        """Groups in windows of event time."""
        return replace(self, windows=given(tumbling=tumbling, hopping=hopping, every=every), grace=grace)

    def aggregate(
        self,
        columns: ColumnMap | None = None,
        /,
        *,
        store: str | None = None,
        emit: str | None = None,
        **more: str,
    ) -> Flow:
        """A table with these aggregates. A column called `store` or `emit` goes into the map."""
        return self.flow._then(
            self.name,
            groupBy=list(self.by),
            window=dict(self.windows) if self.windows is not None else None,
            grace=self.grace,
            aggregate={**(columns or {}), **more},
            emit=emit,
            store=store,
        )
