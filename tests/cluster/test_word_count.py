# SPDX-License-Identifier: Apache-2.0
"""An app from `kubectl apply` to `kubectl delete`: pods of its own, exact results, and nothing left of it."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
import yaml

from cluster.app import App
from cluster.namespace import Namespace
from lib.broker import unique_name, write
from lib.verify import committed
from lib.wait import until
from streamapp.kafka.admin import Admin, TopicSpec
from streamapp.kafka.config import KafkaConfig

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

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

    def say(self, *lines: str) -> None:
        write(self.kafka, self.lines, *((None, line) for line in lines))

    def await_counts(self, lines: list[str]) -> None:
        """Until the results are those of all these lines; each result on the way was a larger one."""
        wanted = Counter(word for line in lines for word in line.lower().split(" "))

        def results() -> Counter[str]:
            found: Counter[str] = Counter()
            for message in committed(self.kafka, self.counts):
                key, value = (message.key() or b"").decode(), json.loads(message.value() or b"")
                assert found[key] < value["count"] <= wanted[key], f"{key} was {found[key]}, then {value}"
                found[key] = value["count"]
            return found

        self._until(lambda: results() == wanted, 60, f"the counts of {len(lines)} lines")


@pytest.fixture
def words(operated: Namespace, pods_kafka: KafkaConfig, root: Path) -> WordCount:
    return WordCount(operated, pods_kafka, root)


def test_apply_count_and_delete(words: WordCount) -> None:
    words.apply(yaml.safe_dump(words.manifest))
    words.say(*LINES)
    words.await_ready()
    words.await_counts(LINES)
    words.say(*LINES)
    words.await_counts(2 * LINES)
    until(lambda: words.status().get("lag", {}).get("total") == 0, 60, "the status says that nothing is behind")
    head, line = words.namespace.kubectl("get", "sapp").splitlines()
    assert head.split() == ["NAME", "PHASE", "READY", "REPLICAS", "DESIRED", "LAG", "RESTORE", "AGE"]
    assert line.split()[:6] == [words.name, "Running", "True", "1", "1", "0"]
    assert {f"statefulset.apps/{words.name}-driver", f"pod/{words.name}-driver-0"} <= set(words.objects())
    words.namespace.kubectl("delete", f"sapp/{words.name}", "--timeout=60s")
    words.await_gone()


def test_a_wrong_manifest_stops_nothing_and_suspended_apps_go_on_where_they_were(words: WordCount) -> None:
    words.apply(yaml.safe_dump(words.manifest))
    words.say(*LINES)
    words.await_ready()
    driver = words.driver()["metadata"]["uid"]

    good = words.manifest["spec"]["topology"]
    bad = [good[0], {**good[1], "flatMap": {"word": "splitt(value, ' ')"}}, {**good[2], "groupBy": ["wort"]}, good[3]]
    words.patch(topology=bad)
    words._until(lambda: words.condition("TopologyValid").get("status") == "False", 30, "TopologyValid is False")
    said = words.condition("TopologyValid")["message"]
    assert "node 'words'" in said and "did you mean `split`?" in said, said  # noqa: PT018
    assert "node 'counts'" in said and "wort" in said, said  # noqa: PT018
    assert words.condition("Ready")["status"] == "True"
    words.say("still here")
    words.await_counts([*LINES, "still here"])
    words.patch(topology=good)
    words._until(lambda: words.condition("TopologyValid").get("status") == "True", 30, "TopologyValid is True")
    assert words.driver()["metadata"]["uid"] == driver

    words.patch(suspend=True)
    words.await_phase("Suspended")
    assert not [name for name in words.objects() if name.startswith("pod/")]
    words.say("not yet")
    words.patch(suspend=False)
    words.await_ready(other_than=driver)
    words.await_counts([*LINES, "still here", "not yet"])
