# SPDX-License-Identifier: Apache-2.0
"""The word count on the cluster, with topics of its own; its results are compared with its input."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import yaml

from cluster.app import App
from cluster.namespace import Namespace
from lib.broker import unique_name, write
from lib.verify import committed
from streamapp.kafka.admin import Admin, TopicSpec
from streamapp.kafka.config import KafkaConfig

LINES = ["To be or not to be", "that is the question", "or is it to be"]


class WordCount(App):
    """The example of the README, with names of its own."""

    def __init__(self, namespace: Namespace, kafka: KafkaConfig, root: Path) -> None:
        super().__init__(namespace, unique_name("words"))
        self.kafka = kafka
        self.lines, self.counts = f"{self.name}-lines", f"{self.name}-counts"
        Admin(kafka).create([TopicSpec(topic, "test", 4) for topic in (self.lines, self.counts)])
        body = yaml.safe_load((root / "examples" / "word-count.yaml").read_text())
        body["metadata"]["name"] = self.name
        body["spec"]["kafka"] = {"bootstrapServers": kafka.bootstrap_servers}
        body["spec"]["topology"][0]["stream"]["topic"] = self.lines
        body["spec"]["topology"][-1]["to"]["topic"] = self.counts
        self.manifest = body

    def begin(self, **spec: object) -> None:
        """Applies it, with these further fields of the spec."""
        self.manifest["spec"] |= spec
        self.apply(yaml.safe_dump(self.manifest))

    def say(self, *lines: str) -> None:
        write(self.kafka, self.lines, *((None, line) for line in lines))

    def await_counts(self, lines: list[str], seconds: float = 60) -> None:
        """Waits until the results are those of all these lines; each result on the way was a larger one."""
        wanted = Counter(word for line in lines for word in line.lower().split(" "))

        def results() -> Counter[str]:
            found: Counter[str] = Counter()
            for message in committed(self.kafka, self.counts):
                key, value = (message.key() or b"").decode(), json.loads(message.value() or b"")
                assert found[key] < value["count"] <= wanted[key], f"{key} was {found[key]}, then {value}"
                found[key] = value["count"]
            return found

        self._until(lambda: results() == wanted, seconds, f"the counts of {len(lines)} lines")
