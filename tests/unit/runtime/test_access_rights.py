# SPDX-License-Identifier: Apache-2.0
"""The rights that an app needs on Kafka, and how they are printed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from streamapp.cli.main import main
from streamapp.compile import compile_manifest
from streamapp.kafka.acls import Acl, acls_of
from streamapp.manifest import parse_manifest

MANIFEST = """
apiVersion: streamapp.dev/v1alpha1
kind: StreamApp
metadata: {name: shop}
spec:
  kafka:
    bootstrapServers: k:9093
    sasl: {mechanism: SCRAM-SHA-512, secretRef: {name: s}}
  topology:
  - {name: orders, stream: {topic: orders, value: text}}
  - {name: counts, groupBy: [value], aggregate: {'n': count(*)}}
  - {name: out, to: {topic: Order_Counts}}
"""


def test_what_is_read_written_and_kept() -> None:
    acls = acls_of(compile_manifest(parse_manifest(MANIFEST)))
    assert [str(acl) for acl in acls] == [
        "Read on topic 'orders' (node 'orders')",
        "Write on topic 'Order_Counts' (node 'out')",
        "Create, DescribeConfigs, Read, Write on topic 'shop-metadata' (metadata)",
        "Create, DescribeConfigs, Read, Write on topic 'shop-counts-changelog' (changelog)",
        "Read on group 'shop' (position)",
        "Write on transactional-ids that begin with 'shop/' (transactions)",
    ]


def test_who_deletes_topics_must_be_allowed_to() -> None:
    acls = acls_of(compile_manifest(parse_manifest(MANIFEST)), deletes_topics=True)
    deleted = [acl.name for acl in acls if "Delete" in acl.operations]
    assert deleted == ["shop-metadata", "shop-counts-changelog", "shop"]


@pytest.mark.parametrize(
    ("pattern", "acl"),
    [
        ("orders-.*", Acl("topic", "orders-", ("Read",), "node 'in'", prefixed=True)),
        (".*-orders", Acl("topic", "*", ("Read",), "node 'in'")),
    ],
)
def test_a_pattern_is_a_prefix_or_everything(pattern: str, acl: Acl) -> None:
    text = MANIFEST.replace("{topic: orders,", f"{{pattern: '{pattern}',").replace("name: orders", "name: in")
    assert acls_of(compile_manifest(parse_manifest(text)))[0] == acl


@pytest.fixture
def file(tmp_path: Path) -> str:
    (tmp_path / "app.yaml").write_text(MANIFEST)
    return str(tmp_path / "app.yaml")


def test_as_commands(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topics", file, "--acls", "--principal", "User:CN=shop app"]) == 0
    lines = capsys.readouterr().out.splitlines()
    head = "kafka-acls --bootstrap-server k:9093 --add --allow-principal 'User:CN=shop app'"
    assert lines[0] == f"{head} --operation Read --topic orders"
    assert lines[-1] == f"{head} --operation Write --transactional-id shop/ --resource-pattern-type prefixed"
    assert all(line.startswith(head) for line in lines)


def test_for_strimzi(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topics", file, "--acls", "--strimzi", "prod"]) == 0
    user, *topics = yaml.safe_load_all(capsys.readouterr().out)
    assert user["metadata"] == {"name": "shop", "labels": {"strimzi.io/cluster": "prod"}}
    assert user["spec"]["authentication"] == {"type": "scram-sha-512"}
    rules = user["spec"]["authorization"]["acls"]
    assert rules[0] == {
        "resource": {"type": "topic", "name": "orders", "patternType": "literal"},
        "operations": ["Read"],
    }
    assert rules[-1]["resource"] == {"type": "transactionalId", "name": "shop/", "patternType": "prefix"}
    assert [(topic["kind"], topic["spec"]["topicName"], topic["spec"]["partitions"]) for topic in topics] == [
        ("KafkaTopic", "shop-metadata", 1),
        ("KafkaTopic", "shop-counts-changelog", 8),
    ]
    assert topics[0]["spec"]["config"]["cleanup.policy"] == "compact"


def test_two_topics_of_strimzi_are_two_objects(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The objects are two even if the topics' names differ only in characters that an object's name cannot have. Each
    object's name is legal, and always the same."""
    stores = ("word_counts", "word-counts", "Word-Counts", "word..counts", "_word-counts_", "Long" * 56)
    nodes = [
        f"  - {{name: n{number}, from: orders, groupBy: [value], aggregate: {{'n': count(*)}}, store: {store}}}\n"
        f"  - {{name: o{number}, from: n{number}, to: {{topic: out-{number}}}}}\n"
        for number, store in enumerate(stores)
    ]
    head = MANIFEST[: MANIFEST.index("  - {name: counts")]
    (tmp_path / "app.yaml").write_text(head + "".join(nodes))
    said = []
    for _ in range(2):
        assert main(["topics", str(tmp_path / "app.yaml"), "--acls", "--strimzi", "prod"]) == 0
        said.append(capsys.readouterr().out)
    assert said[0] == said[1]
    topics = [item for item in yaml.safe_load_all(said[0]) if item["kind"] == "KafkaTopic"]
    names = {item["spec"]["topicName"]: item["metadata"]["name"] for item in topics}
    assert len(set(names.values())) == len(names) == 1 + len(stores)
    part = "[a-z0-9]([a-z0-9-]*[a-z0-9])?"
    assert [name for name in names.values() if not re.fullmatch(rf"{part}(\.{part})*", name) or len(name) > 253] == []
    assert names["shop-word-counts-changelog"] == "shop-word-counts-changelog", "where it can be, it is the topic's own"


def test_how_they_are_printed_without_them_is_a_mistake(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topics", file, "--strimzi", "prod"]) == 1
    assert "add --acls" in capsys.readouterr().err
