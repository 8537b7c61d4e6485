# SPDX-License-Identifier: Apache-2.0
"""`streamapp explain`: a picture of the plan."""

from __future__ import annotations

import argparse
from pathlib import Path

HELP = "show what will run: parts, stores, topics, keys"
DESCRIPTION = """Shows how the app of FILE is cut into sub-topologies, what state it keeps under which keys,
its internal topics and their partitions, and how many hops a record takes. Needs no Kafka."""
EXAMPLE = "  streamapp explain word-count.yaml --format mermaid"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", type=Path, help="a manifest; - for stdin")
    parser.add_argument("--format", choices=("text", "mermaid", "json"), default="text", help="(default: %(default)s)")


def run(options: argparse.Namespace) -> int:
    from streamapp.describe import explain_json, explain_mermaid, explain_text
    from streamapp.here.manifests import load_plan

    show = {"text": explain_text, "mermaid": explain_mermaid, "json": explain_json}[options.format]
    print(show(load_plan(options.file)).rstrip("\n"))
    return 0
