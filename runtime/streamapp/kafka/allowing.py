# SPDX-License-Identifier: Apache-2.0
"""ACLs in the form of the tools that set them: kafka-acls, and Strimzi's operators."""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Iterable, Iterator
from typing import Any

from streamapp.kafka.acls import TRANSACTIONAL_ID, Acl
from streamapp.kafka.admin import TopicSpec
from streamapp.manifest.model import LONGEST_OBJECT_NAME, is_object_name
from streamapp.plan import KafkaSettings

Object = dict[str, Any]
STRIMZI = "kafka.strimzi.io/v1"
_CLUSTER = "strimzi.io/cluster"


def to_commands(acls: Iterable[Acl], principal: str, servers: str) -> Iterator[str]:
    """One command for each resource."""
    command = f"kafka-acls --bootstrap-server {shlex.quote(servers)} --add --allow-principal {shlex.quote(principal)}"
    for acl in acls:
        operations = " ".join(f"--operation {operation}" for operation in acl.operations)
        kind = " --resource-pattern-type prefixed" if acl.prefixed else ""
        yield f"{command} {operations} --{acl.resource} {shlex.quote(acl.name)}{kind}"


def to_strimzi(
    acls: Iterable[Acl], topics: Iterable[TopicSpec], kafka: KafkaSettings, user: str, cluster: str
) -> Iterator[Object]:
    """A KafkaUser, and a KafkaTopic for each internal topic: the others have an owner already."""
    authentication = _authentication(kafka)
    yield _object(
        "KafkaUser",
        _object_name(user),
        cluster,
        {
            **({"authentication": authentication} if authentication else {}),
            "authorization": {"type": "simple", "acls": [_rule(acl) for acl in acls]},
        },
    )
    for topic in topics:
        if topic.internal:
            spec = {"topicName": topic.name, "partitions": topic.partitions, "config": dict(topic.config)}
            yield _object("KafkaTopic", _object_name(topic.name), cluster, spec)


def _authentication(kafka: KafkaSettings) -> Object | None:
    if kafka.sasl_mechanism == "SCRAM-SHA-512":
        return {"type": "scram-sha-512"}
    if kafka.tls and kafka.sasl_mechanism is None:
        return {"type": "tls"}
    return None  # somebody else decides how the app logs in to Kafka


def _rule(acl: Acl) -> Object:
    kind = "transactionalId" if acl.resource == TRANSACTIONAL_ID else acl.resource
    resource = {"type": kind, "name": acl.name, "patternType": "prefix" if acl.prefixed else "literal"}
    return {"resource": resource, "operations": list(acl.operations)}


def _object_name(name: str) -> str:
    """The name of the Kubernetes object for a topic or user: its own if that is valid, else a unique one made from it.

    >>> _object_name("shop-metadata")
    'shop-metadata'
    >>> _object_name("shop-word_counts"), _object_name("shop-Word.counts")
    ('shop-word-counts-8e11f4', 'shop-word-counts-17b2f3')
    """
    if is_object_name(name):
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:6]
    plain = re.sub(r"[^a-z0-9]", "-", name.lower())[: LONGEST_OBJECT_NAME - 7].strip("-")
    return f"{plain}-{digest}" if plain else f"x-{digest}"


def _object(kind: str, name: str, cluster: str, spec: Object) -> Object:
    metadata = {"name": name, "labels": {_CLUSTER: cluster}}
    return {"apiVersion": STRIMZI, "kind": kind, "metadata": metadata, "spec": spec}
