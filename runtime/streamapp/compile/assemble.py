# SPDX-License-Identifier: Apache-2.0
"""Sub-topologies and the manifest's settings to a plan."""

from __future__ import annotations

from streamapp.compile.context import Context
from streamapp.compile.fingerprint import fingerprint
from streamapp.durations import parse_duration
from streamapp.internal_topics import (
    CHANGELOG,
    METADATA,
    POSITION,
    REPARTITION,
    changelog_topic,
    metadata_topic,
    position_topic,
)
from streamapp.manifest import Manifest, start_from_ms
from streamapp.manifest.model import KafkaSpec
from streamapp.nodes import RepartitionSource, Topology
from streamapp.operations import ForeignRows
from streamapp.plan import PLAN_VERSION, InternalTopic, KafkaSettings, Plan, Store, SubTopology

_SMALL = (
    ("cleanup.policy", "compact"),
    # The marker of each commit stays as long as a deletion. Readers of these topics read them to the end at once.
    ("delete.retention.ms", "3600000"),
    # The least that Kafka takes: a few thousand commits. The segment that is written to is never compacted.
    ("segment.bytes", "1048576"),
    ("min.cleanable.dirty.ratio", "0.1"),
)
"""Settings of topics that hold a few keys, written again with each epoch: position and metadata."""
_CHANGELOG = (
    ("cleanup.policy", "compact"),
    # A local base is used for up to six hours (LocalBase.scala), and must not have missed a deletion.
    ("delete.retention.ms", "43200000"),
    ("segment.bytes", "52428800"),
)
_HOP = (
    ("cleanup.policy", "delete"),
    # No record is deleted by age or size: records are deleted behind the position of their readers.
    ("retention.ms", "-1"),
    ("retention.bytes", "-1"),
    ("message.timestamp.type", "CreateTime"),
    # Deleted records free the disk segment by segment, and never the last segment.
    ("segment.bytes", "52428800"),
    # Kafka refuses a record whose time is an hour ahead of the broker's clock, and hops carry event times.
    ("message.timestamp.after.max.ms", "9223372036854775807"),
)


def assemble_plan(manifest: Manifest, context: Context, logical: Topology, parts: tuple[SubTopology, ...]) -> Plan:
    """The plan of an app.

    Args:
        logical: the topology as the user wrote it; fingerprints are of this one.
        parts: the sub-topologies, in order.
    """
    spec = manifest.spec
    outer = [node for part in parts for node in part.nodes if not node.internal]
    stores = tuple(_store(logical, part, store, context) for part in parts for store in part.stores)
    return Plan(
        version=PLAN_VERSION,
        name=manifest.name,
        application_id=context.application_id,
        guarantee=spec.guarantee,
        max_parallelism=context.max_parallelism,
        epoch_interval_ms=parse_duration(spec.epoch_interval),
        transaction_timeout_ms=parse_duration(spec.transaction_timeout),
        idle_timeout_ms=parse_duration(spec.idle_timeout),
        run=spec.run,
        close_windows=spec.close_windows,
        start_from=spec.start_from
        if spec.start_from in ("earliest", "latest")
        else str(start_from_ms(spec.start_from)),
        on_bad_record=context.on_bad_record,
        on_source_loss=spec.on_source_loss,
        replicas=_replicas(manifest),
        subtopologies=parts,
        stores=stores,
        topics=_internal_topics(parts, stores, context),
        source_topics=tuple(sorted({topic for node in outer for topic in node.topics_read})),
        source_patterns=tuple(sorted({node.pattern_read for node in outer if node.pattern_read is not None})),
        sink_topics=tuple(sorted({topic for node in outer for topic in node.topics_written})),
        kafka=kafka_settings(spec.kafka),
        code=tuple(sorted((manifest.modules or {}).items())),
    )


def _store(logical: Topology, part: SubTopology, store: str, context: Context) -> Store:
    node = next(node for node in part.nodes if store in node.stores)
    if isinstance(node, ForeignRows):
        fingerprinted = logical.node(node.of)
    elif node.name in logical:
        fingerprinted = logical.node(node.name)
    else:
        # It keeps rows that come by an internal topic, from a node of the user's.
        (source,) = (one for one in part.nodes if one.name in node.inputs)
        assert isinstance(source, RepartitionSource)
        node = node.with_inputs({source.name: source.upstream})
        logical = Topology((*logical.nodes, node))
        fingerprinted = node
    return Store(
        name=store,
        node=node.name,
        subtopology=part.name,
        changelog_topic=changelog_topic(context.application_id, store),
        partitions=context.max_parallelism,
        fingerprint=fingerprint(logical, fingerprinted),
    )


def _internal_topics(
    parts: tuple[SubTopology, ...], stores: tuple[Store, ...], context: Context
) -> tuple[InternalTopic, ...]:
    app = context.application_id
    topics = [InternalTopic(metadata_topic(app), METADATA, 1, _SMALL)]
    if any(not part.stateful for part in parts):
        # The positions of stateless sub-topologies; a stateful one's position is in its changelog.
        topics.append(InternalTopic(position_topic(app), POSITION, context.max_parallelism, _SMALL))
    topics += [InternalTopic(store.changelog_topic, CHANGELOG, store.partitions, _CHANGELOG) for store in stores]
    hops = [topic for part in parts for node in part.nodes if node.internal for topic in node.topics_written]
    topics += [InternalTopic(topic, REPARTITION, context.max_parallelism, _HOP) for topic in hops]
    return tuple(topics)


def _replicas(manifest: Manifest) -> int:
    spec = manifest.spec
    if spec.autoscaling is not None:
        return spec.autoscaling.min_replicas
    return 1 if spec.replicas is None else spec.replicas


def kafka_settings(spec: KafkaSpec | None) -> KafkaSettings:
    """The manifest's `kafka` as part of a plan."""
    if spec is None:
        return KafkaSettings()
    tls, sasl = spec.tls, spec.sasl
    return KafkaSettings(
        bootstrap_servers=spec.bootstrap_servers,
        tls=tls is not None,
        ca_file=tls.ca_file if tls else None,
        certificate_file=tls.certificate_file if tls else None,
        key_file=tls.key_file if tls else None,
        tls_secret=tls.secret_ref.name if tls and tls.secret_ref else None,
        sasl_mechanism=sasl.mechanism if sasl else None,
        credentials_file=sasl.credentials_file if sasl else None,
        sasl_secret=sasl.secret_ref.name if sasl and sasl.secret_ref else None,
        token_endpoint=sasl.token_endpoint if sasl else None,
        scope=sasl.scope if sasl else None,
    )
