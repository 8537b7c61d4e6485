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

from dataclasses import dataclass
from typing import Any

from pydantic.alias_generators import to_camel

from streamapp.manifest import API_VERSION, KIND, Manifest, parse_object
from streamapp.operations.branch import BranchStep
from streamapp.operations.deduplicate import DeduplicateStep
from streamapp.operations.duality import DualitySteps
from streamapp.operations.filter import FilterStep
from streamapp.operations.flat_map import FlatMapStep
from streamapp.operations.group_by import GroupByStep
from streamapp.operations.join import JoinStep
from streamapp.operations.key_by import KeyByStep
from streamapp.operations.merge import MergeStart
from streamapp.operations.python import PythonStep
from streamapp.operations.select import SelectStep
from streamapp.operations.steps import given
from streamapp.operations.stream import StreamStart
from streamapp.operations.table import TableStart
from streamapp.operations.to import SinkStep
from streamapp.operations.with_columns import WithStep


class StreamBuilder(StreamStart["Flow"], TableStart["Flow"], MergeStart["Flow"]):
    """Collects nodes. Settings of `spec` are given by name: `StreamBuilder("app", max_parallelism=16)`.

    A setting that is a map is written as in the manifest: `on_bad_record={"deadLetter": "bad-records"}`.
    """

    def __init__(self, name: str, **settings: Any) -> None:
        self._name = name
        self._settings = {to_camel(key): value for key, value in settings.items()}
        self._nodes: list[dict[str, Any]] = []

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
class Flow(
    FilterStep,
    SelectStep,
    WithStep,
    FlatMapStep,
    KeyByStep,
    BranchStep,
    GroupByStep,
    DeduplicateStep,
    JoinStep,
    DualitySteps,
    PythonStep,
    SinkStep,
):
    """A node's output: a stream, or after `aggregate` a table. Each method adds a node that reads it."""

    builder: StreamBuilder
    name: str

    def _then(self, name: str, **fields: Any) -> Flow:
        return self.builder._add(name, self.name, **fields)

    def _at(self, name: str) -> Flow:
        return Flow(self.builder, name)
