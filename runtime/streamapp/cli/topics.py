# SPDX-License-Identifier: Apache-2.0
"""`streamapp topics`: the topics that an app needs."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from streamapp.cli.options import add_running_kafka, is_kafka_named
from streamapp.errors import InputError

if TYPE_CHECKING:
    from streamapp.plan import Plan

HELP = "list or create the topics an app needs"
DESCRIPTION = """Lists the topics that the app of FILE reads, writes, and keeps for itself, with what Kafka
has, where one is named or running here and can be reached. --create makes the missing ones, with the broker's
default replication; a topic that is there is never changed. --acls prints what the app must be allowed to do there, and
nothing beyond that, as commands for kafka-acls, or with --strimzi as objects for Strimzi's operators."""
EXAMPLE = """  streamapp topics word-count.yaml --create --bootstrap-servers localhost:9092
  streamapp topics word-count.yaml --acls --principal User:word-count
  streamapp topics word-count.yaml --acls --strimzi my-cluster | kubectl apply -n kafka -f -"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", type=Path, help="a manifest; - for stdin")
    parser.add_argument("--create", action="store_true", help="make the missing topics")
    parser.add_argument("--acls", action="store_true", help="print the access rights that the app needs")
    parser.add_argument(
        "--principal", metavar="TYPE:NAME", help="the user of these rights (default: User:APPLICATION_ID)"
    )
    parser.add_argument(
        "--strimzi", metavar="CLUSTER", help="with --acls, as KafkaUser and KafkaTopics of that Kafka of Strimzi's"
    )
    add_running_kafka(parser, "the manifest's, else ")


def run(options: argparse.Namespace) -> int:
    from streamapp.cli.main import say_note
    from streamapp.cli.options import kafka_of
    from streamapp.compile import compile_manifest
    from streamapp.errors import RunError
    from streamapp.here.manifests import kafka_of_manifest
    from streamapp.kafka.admin import Admin
    from streamapp.kafka.config import KafkaConfig
    from streamapp.kafka.topics import TopicError, compare_with, ensure_topics, topics_of
    from streamapp.local import load_manifest
    from streamapp.state_folder import running_here

    manifest = load_manifest(options.file)
    plan = compile_manifest(manifest)
    if options.acls:
        _print_acls(options, plan, deletes_topics=manifest.spec.deletion_policy == "Delete")
        return 0
    if options.strimzi or options.principal:
        raise InputError("--strimzi and --principal say how --acls are printed; add --acls")
    specs = topics_of(plan)
    if options.kafka_config is None and manifest.spec.kafka is not None:
        kafka: KafkaConfig | None = kafka_of_manifest(manifest, options.file, options.bootstrap_servers)
    elif options.create or is_kafka_named(options) or running_here(options.state_dir):
        kafka = kafka_of(options)
    else:
        kafka = None

    try:
        admin = None if kafka is None else Admin(kafka)
        if admin is not None and not options.create:
            admin.topics()
    except RunError as error:
        say_note(str(error))
        admin = None
    if admin is None:
        states = dict.fromkeys((spec.name for spec in specs), "unknown")
        if kafka is None:
            say_note("no Kafka is named and none runs here; --bootstrap-servers HOST:PORT names one to compare with")
    else:
        made = {spec.name for spec in ensure_topics(admin, specs, create_all=True)} if options.create else set()
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
        settings = ",".join(f"{name}={value}" for name, value in sorted({**spec.config, **spec.wishes}.items())) or "-"
        partitions = "default" if spec.partitions < 0 else str(spec.partitions)
        kind = "internal" if spec.internal else "user's"
        rows.append((spec.name, spec.node, kind, partitions, settings, states[spec.name]))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    return 0


def _print_acls(options: argparse.Namespace, plan: Plan, *, deletes_topics: bool) -> None:
    from streamapp.kafka.acls import acls_of
    from streamapp.kafka.allowing import to_commands, to_strimzi
    from streamapp.kafka.topics import topics_of
    from streamapp.manifest.dumping import to_yaml_documents

    acls = acls_of(plan, deletes_topics=deletes_topics)
    principal: str = options.principal or f"User:{plan.application_id}"
    if options.strimzi:
        user = principal.partition(":")[2]
        objects = to_strimzi(acls, topics_of(plan), plan.kafka, user, options.strimzi)
        print(to_yaml_documents(objects), end="")
        return
    servers = options.bootstrap_servers or plan.kafka.bootstrap_servers or "localhost:9092"
    for command in to_commands(acls, principal, servers):
        print(command)
