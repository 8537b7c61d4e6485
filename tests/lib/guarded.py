# SPDX-License-Identifier: Apache-2.0
"""An app that uses every kind of right on Kafka: sources by name and by pattern, sinks, dead letters, a hop, stores, a
position."""

from __future__ import annotations

import re
from pathlib import Path

from confluent_kafka.admin import AclBinding, AclOperation

from lib.secured import SecuredBroker
from streamapp.compile import compile_manifest
from streamapp.kafka.acls import acls_of
from streamapp.kafka.admin import Admin, TopicSpec
from streamapp.kafka.topics import ensure_topics, topics_of
from streamapp.manifest import parse_manifest
from streamapp.plan import Plan

MANIFEST = """
apiVersion: streamapp.dev/v1alpha1
kind: StreamApp
metadata: {name: $T}
spec:
  maxParallelism: 2
  onBadRecord: {deadLetter: $T-bad}
  kafka:
    bootstrapServers: $A
    tls: {caFile: ca.pem, certificateFile: client.pem, keyFile: client.key}
  topology:
  - {name: numbers, stream: {topic: $T-numbers, value: {format: json, schema: "n BIGINT"}}}
  - {name: marked, with: {mark: uuid()}}  # cannot be repeated, so a hop follows
  - {name: totals, groupBy: [key], aggregate: {total: sum(n), marks: count(mark)}}
  - {name: totals-out, to: {topic: $T-totals}}
  - {name: echo, from: numbers, filter: n > 0}
  - {name: echo-out, to: {topic: $T-echo}}
  - {name: others, stream: {pattern: "$T-other-[a-z]+", value: text}}
  - {name: others-out, to: {topic: $T-rest, value: text}}
"""


def plan_of(prefix: str) -> Plan:
    return compile_manifest(parse_manifest(MANIFEST.replace("$T", prefix).replace("$A", "k:9")))


AN_APP = "the-app"
PREFIX = f"{AN_APP}-other-"
"""The prefix of the pattern's topics."""
NEEDED = [(acl.resource, acl.name, operation) for acl in acls_of(plan_of(AN_APP)) for operation in acl.operations]
"""Kind of resource, name (where the app is AN_APP), operation: all rights that an app needs."""


def write(guarded: SecuredBroker, folder: Path, prefix: str) -> Path:
    for name in ("ca.pem", "client.pem", "client.key"):
        (folder / name).write_text((guarded.folder / name).read_text())
    manifest = folder / "app.yaml"
    manifest.write_text(MANIFEST.replace("$T", prefix).replace("$A", guarded.certified))
    return manifest


def make_users_topics(guarded: SecuredBroker, prefix: str) -> None:
    make_topics(guarded, prefix, internal=False)


def make_topics(guarded: SecuredBroker, prefix: str, internal: bool = True) -> None:
    specs = [spec for spec in topics_of(plan_of(prefix)) if internal or not spec.internal]
    specs.append(TopicSpec(PREFIX.replace(AN_APP, prefix) + "one", "others"))
    ensure_topics(Admin(guarded.open), specs, create_all=True)


def without(bindings: list[AclBinding], name: str, operation: str) -> tuple[AclBinding, list[AclBinding]]:
    wanted = re.sub(r"(?<!^)(?=[A-Z])", "_", operation).upper()
    (found,) = [b for b in bindings if b.name == name and b.operation == AclOperation[wanted]]
    return found, [binding for binding in bindings if binding is not found]
