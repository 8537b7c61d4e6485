# SPDX-License-Identifier: Apache-2.0
"""`streamapp produce`: stdin to a topic."""

from __future__ import annotations

import argparse
import sys

from streamapp.cli.options import add_running_kafka, positive
from streamapp.cli.stopping import lines_until_stopped, stop_on_signals

HELP = "write lines from stdin to a topic"
DESCRIPTION = """Writes each line of stdin to TOPIC as a record: the line is the value. With --json a line is
an object with key, value, timestamp, headers, partition (all optional): text stands for itself, an object or
array for its JSON text, null for no key or a tombstone; keyBase64 and valueBase64 carry bytes. What
`streamapp consume --json` prints can be read back."""
EXAMPLE = """  echo 'the quick brown fox' | streamapp produce text-lines
  echo '{"key": "ada", "value": {"amount": 3}}' | streamapp produce orders --json"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument(
        "--json", action="store_true", help="a line is a JSON object with key, value, timestamp, headers"
    )
    parser.add_argument("--create", action="store_true", help="make the topic first when it does not exist")
    parser.add_argument(
        "--partitions", type=positive, metavar="N", help="with --create: how many (default: the broker's)"
    )
    add_running_kafka(parser)


def run(options: argparse.Namespace) -> int:
    from streamapp.cli.options import kafka_of
    from streamapp.kafka.admin import BROKER_DEFAULT, Admin, TopicSpec
    from streamapp.kafka.console import produce

    kafka = kafka_of(options)
    if options.create:
        admin = Admin(kafka)
        if options.topic not in admin.topics():
            admin.create([TopicSpec(options.topic, node="produce", partitions=options.partitions or BROKER_DEFAULT)])
    with stop_on_signals() as stop:
        produce(kafka, options.topic, lines_until_stopped(sys.stdin.fileno(), stop), options.json)
    return 0
