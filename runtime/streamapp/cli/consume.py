# SPDX-License-Identifier: Apache-2.0
"""`streamapp consume`: a topic to stdout."""

from __future__ import annotations

import argparse
import contextlib
import sys

from streamapp.cli.options import add_running_kafka, positive, seconds
from streamapp.cli.stopping import stop_on_signals

HELP = "print a topic's committed records"
DESCRIPTION = """Prints the value of each committed record of TOPIC, one per line (a tombstone as null), until
Ctrl-C, --max or --timeout. Starts with what comes from now on, or --from-beginning. With --json a line is an
object with key, value, timestamp, partition, offset and headers: text as it is, or as an object where it is
JSON; keyBase64 and valueBase64 where it is no text. Records of one partition keep their order;
records of several partitions do not. No consumer group is joined."""
EXAMPLE = """  streamapp consume word-counts --from-beginning --json --max 10
  streamapp consume word-counts --from-beginning --timeout 5 | sort | uniq -c"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument("--json", action="store_true", help="print key, value, timestamp, partition, offset as JSON")
    parser.add_argument("--from-beginning", action="store_true", help="start with the oldest record")
    parser.add_argument("--max", type=positive, metavar="N", help="stop after N records")
    parser.add_argument("--timeout", type=seconds, metavar="S", help="stop when no record came for S seconds")
    add_running_kafka(parser)


def run(options: argparse.Namespace) -> int:
    from streamapp.cli.main import say_note
    from streamapp.cli.options import kafka_of
    from streamapp.kafka.console import consume, line_of

    out = sys.stdout.buffer
    for_people = sys.stdout.isatty()
    seen = 0
    batches = consume(kafka_of(options), options.topic, options.from_beginning, options.max, options.timeout)
    with stop_on_signals() as stop, contextlib.closing(batches):
        for batch in batches:
            seen += len(batch)
            for message in batch:
                line = line_of(message, options.json)
                out.write((_for_people(line) if for_people else line) + b"\n")
            if batch:
                out.flush()
            if stop.requested:
                break
        else:
            if seen == 0 and options.timeout is not None:
                say_note(f"no record came in {options.timeout:g} s")
    return 0


def _for_people(line: bytes) -> bytes:
    """A line for a terminal, which control characters of a record must not steer. A pipe gets the line as it is."""
    from streamapp.plain import plain

    return plain(line.decode("utf-8", "backslashreplace")).encode()
