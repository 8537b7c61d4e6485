# SPDX-License-Identifier: Apache-2.0
"""The manifest in Python. Building only writes the manifest down; everything is checked by `build`, or by `run`.

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
from pathlib import Path
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
from streamapp.operations.suppress import SuppressStep
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
        return parse_object(self._data())

    def run(
        self,
        *,
        until_caught_up: bool = False,
        close_windows: bool = False,
        bootstrap_servers: str | None = None,
        kafka_config: str | Path | None = None,
        state_dir: str | Path | None = None,
        replicas: int | None = None,
        port: int = 0,
        heap: str | None = None,
        adopt: str | None = None,
    ) -> None:
        """Runs the app here, as `streamapp run` does with the options of these names; returns when it has ended.

        It ends by Ctrl-C or SIGTERM, or with `until_caught_up` when the records now in its topics are processed. Where
        no Kafka is named, here or in the settings of the app, an embedded one runs as long. Files that are named are
        found from the current folder.

        Raises:
            ManifestError: with every problem of the manifest at once.
            InputError: an option is wrong, or this is not the main thread of a process without Spark.
            StreamAppError: the app cannot go on.
        """
        from streamapp.here.run import run_here
        from streamapp.here.settings import Settings
        from streamapp.local import manifest_here

        given_settings = Settings(
            until_caught_up=until_caught_up,
            close_windows=close_windows,
            bootstrap_servers=bootstrap_servers,
            kafka_config=_path(kafka_config),
            state_dir=_path(state_dir),
            replicas=replicas,
            port=port,
            adopted=adopt,
            **given(heap=heap),
        )
        run_here(manifest_here(self._data()), Path(self._name), given_settings)

    def _data(self) -> dict[str, Any]:
        return {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {"name": self._name},
            "spec": {**self._settings, "topology": self._nodes},
        }

    def _add(self, name: str, source: str | None, **fields: Any) -> Flow:
        self._nodes.append({"name": name, **given(**{"from": source}), **given(**fields)})
        return Flow(self, name)


def _path(given: str | Path | None) -> Path | None:
    return None if given is None else Path(given)


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
    SuppressStep,
    PythonStep,
    SinkStep,
):
    """A node's output: a stream, or after `aggregate` a table. Each method adds a node that reads it."""

    builder: StreamBuilder
    name: str

    def _then(self, name: str, **fields: Any) -> Flow:
        return self.builder._add(name, self.name, **fields)

    def _beside(self, name: str, **fields: Any) -> Flow:
        return self.builder._add(name, None, **fields)

    def _at(self, name: str) -> Flow:
        return Flow(self.builder, name)
