# SPDX-License-Identifier: Apache-2.0
"""Inputs that are wrong, empty, too large, or change under a running app."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

from lib.faults import alter
from lib.inprocess import App
from lib.wait import until
from streamapp.cli.main import main
from streamapp.errors import InputError, ManifestError
from streamapp.kafka.admin import Admin
from streamapp.kafka.config import KafkaConfig
from streamapp.kafka.ports import free_ports
from streamapp.kafka.topics import TopicError

pytestmark = pytest.mark.kafka

ECHO = """
  - {name: in, stream: {topic: $T-in, value: text}}
  - {name: out, to: {topic: $T-out, value: text}}
"""
Make = Callable[[str], App]


@pytest.fixture
def app(kafka: KafkaConfig, tmp_path: Path) -> Make:
    def make(topology: str) -> App:
        made = App(kafka, tmp_path, topology)
        made.create("in")
        return made

    return make


def test_an_empty_topic_gives_an_empty_result(app: Make) -> None:
    a = app(ECHO)
    a.run()
    assert a.received("out") == []


# Random enough not to be made small by compression: 128 bytes each of many hashes.
HUGE = """
  - {name: in, stream: {topic: $T-in, value: text}}
  - name: huge
    select: {v: "array_join(transform(sequence(1, %d), i -> sha2(concat(value, cast(i as string)), 512)), '')"}
"""
OUTPUT = "{name: out, to: {topic: $T-out, value: text}}"
SMALL_OUTPUT = """{name: most, groupBy: [key], aggregate: {v: max(v)}}
  - {name: size, select: {'n': length(v)}}
  - {name: out, to: {topic: $T-out}}"""


@pytest.mark.parametrize(
    ("hashes", "rest", "topic", "told"),
    [
        (20_000, OUTPUT, "out", "2560001 bytes, and the topic takes 1048588, compr"),
        (80_000, OUTPUT, "out", "10240001 bytes, and 8388608 are the most"),
        (20_000, SMALL_OUTPUT, "most-changelog", "bytes, and the topic takes 1048588"),
    ],
    ids=["topic", "producer", "changelog"],
)
def test_a_record_that_is_too_large_is_told_at_once(app: Make, hashes: int, rest: str, topic: str, told: str) -> None:
    a = app(HUGE % hashes + f"  - {rest}")
    a.send("in", ("a", "x"))
    with pytest.raises(InputError, match=f"a record for topic '{a.topic(topic)}' .*{told}"):
        a.run()
    assert "Restarting" not in [status["phase"] for status in a.statuses]


def test_a_transaction_timeout_that_the_broker_does_not_allow_is_told(kafka: KafkaConfig, tmp_path: Path) -> None:
    a = App(kafka, tmp_path, ECHO, "  transactionTimeout: 1 hour")
    a.create("in")
    with pytest.raises(InputError, match=r"transaction\.max\.timeout\.ms"):
        a.run()


def test_a_type_error_is_found_before_anything_runs(app: Make) -> None:
    a = app("""
  - {name: in, stream: {topic: $T-in, value: long}}
  - {name: wrong, select: {v: value + array(1)}}
  - {name: out, to: {topic: $T-out}}
""")
    with pytest.raises(ManifestError, match=r"node 'wrong': `select.v`: .*data type mismatch"):
        a.run()


def test_all_type_errors_are_told_at_once(app: Make, capfd: pytest.CaptureFixture[str]) -> None:
    a = app("""
  - {name: in, stream: {topic: $T-in, value: long}}
  - {name: two, select: {v: value + array(1), right: value, w: upper(array(value))}}
  - {name: behind, filter: v = 1}
  - {name: out, to: {topic: $T-out}}
  - {name: number, from: in, filter: value + 1}
  - {name: out-2, to: {topic: $T-out}}
  - {name: scalar, from: in, flatMap: {x: value}}
  - {name: out-3, to: {topic: $T-out}}
  - {name: either, from: in, branch: [{name: a, when: value}, {name: b}]}
  - {name: out-4, from: a, to: {topic: $T-out}}
  - {name: out-5, from: b, to: {topic: $T-out}}
  - {name: totals, from: in, groupBy: [{k: value % 10}], aggregate: {'n': sum(array(1)), m: max(value)}, store: s}
  - {name: another-part, from: in, keyBy: [value]}
  - {name: counts, groupBy: [value], aggregate: {'n': count(*)}, store: t}
  - {name: last, with: {x: 'n + map(1, 2)'}}
  - {name: out-6, to: {topic: $T-out}}
""")
    with pytest.raises(ManifestError) as raised:
        a.run()
    assert [(problem.node, problem.field) for problem in raised.value.problems] == [
        ("two", "select.v"),
        ("two", "select.w"),
        ("number", "filter"),
        ("scalar", "flatMap.x"),
        ("a", "when"),
        ("totals", "aggregate.n"),
        ("last", "with.x"),
    ]
    assert {"behind", "out", "out-2", "out-3", "out-4", "out-6"} <= set(raised.value.unchecked)
    assert "a condition is true or false, and this is bigint" in str(raised.value)
    assert "AnalysisException" not in capfd.readouterr().err


def test_validate_needs_no_kafka_to_tell_of_types(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    def manifest(name: str, expression: str, timestamp: str = "to_timestamp(value)") -> str:
        file = tmp_path / f"{name}.yaml"
        file.write_text(f"""
apiVersion: streamapp.dev/v1alpha1
kind: StreamApp
metadata: {{name: {name}}}
spec:
  kafka: {{bootstrapServers: "127.0.0.1:{free_ports(1)[0]}"}}
  topology:
  - {{name: in, stream: {{topic: numbers, value: long, timestamp: {timestamp}}}}}
  - {{name: more, select: {{v: {expression}, w: upper(value)}}}}
  - {{name: out, to: {{topic: results}}}}
  - {{name: counts, from: in, groupBy: [value], aggregate: {{count: count(*)}}}}
""")
        return str(file)

    good, bad = manifest("good", "value + 1"), manifest("bad", "value + array(1)")
    assert main(["validate", good]) == 0
    shared = manifest("shared", "value + 1", timestamp="array(value)")
    assert main(["validate", good, bad, shared]) == 1
    said = capfd.readouterr()
    assert said.out.splitlines() == [f"{good}: ok"] * 2
    # A source that two sub-topologies read is reported once.
    in_bad, in_shared = [line for line in said.err.splitlines() if line.startswith("error: ")]
    assert in_bad.startswith(f"error: {bad}: node 'more': `select.v`: ")
    assert "data type mismatch" in in_bad
    assert in_bad.endswith("(line 9)")
    assert in_shared.startswith(f"error: {shared}: node 'in': ")
    assert in_shared.endswith("(line 8)")


LATE = """
apiVersion: streamapp.dev/v1alpha1
kind: StreamApp
metadata: {name: late}
spec:
  topology:
  - {name: l, stream: {topic: l, value: text}}
  - {name: r, stream: {topic: r, value: text}}
  - {name: fixed, from: l, groupBy: [key], window: {tumbling: 1h}, late: {topic: one}, aggregate: {count: count(*)}}
  - {name: fixed-out, to: {topic: fixed}}
  - {name: visits, from: l, groupBy: [key], window: {session: 1h}, late: {topic: two}, aggregate: {count: count(*)}}
  - name: pairs
    from: l
    join: {with: r, within: 1h, late: {topic: three}, select: {value: r.value}}
  - {name: near, groupBy: [key], window: {sliding: 1h}, late: {topic: four}, aggregate: {count: count(*)}}
  - {name: near-out, to: {topic: near}}
  - {name: wrong, from: l, filter: length(value)}
  - {name: wrong-out, to: {topic: wrong}}
"""


def test_validate_checks_apps_with_late_records(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text(LATE.replace("length(value)", "length(value) > 1"))
    bad.write_text(LATE)
    assert main(["validate", str(good), str(bad)]) == 1
    said = capfd.readouterr()
    assert f"{good}: ok" in said.out
    (error,) = [line for line in said.err.splitlines() if line.startswith("error:")]
    assert f"{bad}: node 'wrong': `filter`: a condition is true or false" in error


def test_validate_finds_nothing_wrong_with_the_examples(capfd: pytest.CaptureFixture[str]) -> None:
    """A sub-topology that reads a hop is checked with the columns that the hop's writer has given it."""
    folder = Path(__file__).parents[2] / "examples"
    examples = sorted(map(str, (*folder.glob("*.yaml"), *folder.glob("nexmark/*.yaml"))))
    assert main(["validate", *examples]) == 0
    assert capfd.readouterr().out.splitlines() == [f"{example}: ok" for example in examples]


def test_an_internal_topic_of_other_settings_is_told(app: Make) -> None:
    a = app("""
  - {name: in, stream: {topic: $T-in, value: text}}
  - {name: counts, groupBy: [key], aggregate: {count: count(*)}}
  - {name: out, to: {topic: $T-out}}
""")
    a.send("in", ("a", "1"))
    a.run()
    alter(a.kafka, a.topic("counts-changelog"), cleanup_policy="delete")
    with pytest.raises(TopicError, match=r"has cleanup\.policy=delete and needs cleanup\.policy=compact; set it"):
        a.run()


def test_partitions_raised_under_way_are_picked_up(app: Make) -> None:
    a = app(ECHO)
    a.send("in", ("a", "before"))
    raised = False

    def watch(status: Mapping[str, Any]) -> None:
        nonlocal raised
        values = {record.value for record in a.received("out")}
        if not raised and "before" in values:
            client = AdminClient({**a.kafka.for_librdkafka()})
            client.create_partitions([NewPartitions(a.topic("in"), 2)])[a.topic("in")].result(30)
            until(lambda: Admin(a.kafka).topics()[a.topic("in")].partitions == 2, 30, "the broker knows of them")
            a.send("in", ("b", "after"), partition=1)
            raised = True
        if "after" in values:
            os.kill(os.getpid(), signal.SIGTERM)

    a.run_until_told(watch)
    assert sorted(record.value for record in a.received("out")) == ["after", "before"]


def test_a_topic_deleted_under_way_ends_the_app_with_the_reason(app: Make) -> None:
    a = app(ECHO)
    a.send("in", ("a", "before"))
    deleted = False

    def watch(status: Mapping[str, Any]) -> None:
        nonlocal deleted
        if not deleted and a.received("out"):
            Admin(a.kafka).delete([a.topic("in")])
            deleted = True

    with pytest.raises(InputError, match="a topic that it reads does not exist any more"):
        a.run_until_told(watch)


def test_missing_topics_and_unreachable_brokers_are_told_by_the_command(
    kafka: KafkaConfig, root: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    manifest = tmp_path / "app.yaml"
    text = (root / "examples" / "word-count.yaml").read_text().replace("text-lines", "nowhere-lines")
    manifest.write_text(text.replace("name: word-count", "name: nowhere-count"))
    (free_port,) = free_ports(1)
    state = ["--state-dir", str(tmp_path / "state")]
    assert main(["run", str(manifest), "--bootstrap-servers", kafka.bootstrap_servers, *state]) == 1
    assert "nowhere-lines" in capfd.readouterr().err
    assert main(["run", str(manifest), "--bootstrap-servers", f"127.0.0.1:{free_port}", *state]) == 3
    assert f"127.0.0.1:{free_port}" in capfd.readouterr().err
