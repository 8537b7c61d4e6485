# SPDX-License-Identifier: Apache-2.0
"""`streamapp topics`: the topics an app needs."""

from __future__ import annotations

import argparse
from pathlib import Path

from streamapp.cli.options import add_running_kafka, is_kafka_named

HELP = "list or create the topics an app needs"
DESCRIPTION = """Lists the topics that the app of FILE reads, writes, and keeps for itself, with what Kafka
has, where one is named or running here. --create makes the missing ones, with the broker's default
replication; a topic that is there is never changed."""
EXAMPLE = "  streamapp topics word-count.yaml --create --bootstrap-servers localhost:9092"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", type=Path)
    parser.add_argument("--create", action="store_true", help="make the missing topics")
    add_running_kafka(parser)


def run(options: argparse.Namespace) -> int:
    from streamapp.cli.manifests import kafka_of_manifest, load_manifest
    from streamapp.cli.options import kafka_of
    from streamapp.cli.state import running_here
    from streamapp.compile import compile_manifest
    from streamapp.kafka.admin import Admin
    from streamapp.kafka.config import KafkaConfig
    from streamapp.kafka.topics import TopicError, compare_with, ensure_topics, topics_of

    manifest = load_manifest(options.file)
    specs = topics_of(compile_manifest(manifest))
    if options.kafka_config is None and manifest.spec.kafka is not None:
        kafka: KafkaConfig | None = kafka_of_manifest(manifest, options.file, options.bootstrap_servers)
    elif options.create or is_kafka_named(options) or running_here(options.state_dir):
        kafka = kafka_of(options)
    else:
        kafka = None

    if kafka is None:
        states = dict.fromkeys((spec.name for spec in specs), "-")
    else:
        admin = Admin(kafka)
        made = (
            {spec.name for spec in ensure_topics(admin, specs, create_all=True)} if options.create else set()
        )
        comparison = compare_with(admin, specs)
        missing = {spec.name for spec in comparison.missing}
        states = {
            spec.name: "created" if spec.name in made else "missing" if spec.name in missing else "there"
            for spec in specs
        }
        if comparison.wrong:
            raise TopicError(comparison.wrong)

    rows = [("TOPIC", "NODE", "KIND", "PARTITIONS", "SETTINGS", "KAFKA")]
    for spec in specs:
        settings = ",".join(f"{name}={value}" for name, value in sorted(spec.config.items())) or "-"
        partitions = "default" if spec.partitions < 0 else str(spec.partitions)
        kind = "internal" if spec.internal else "user's"
        rows.append((spec.name, spec.node, kind, partitions, settings, states[spec.name]))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    return 0
