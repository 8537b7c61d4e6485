# SPDX-License-Identifier: Apache-2.0
"""`streamapp run`: an app on this machine."""

from __future__ import annotations

import argparse
from pathlib import Path

from streamapp.cli.options import add_adopt, add_kafka, add_state_dir, memory, port_number, positive

HELP = "run an app here"
DESCRIPTION = """Runs the app of FILE on this machine until Ctrl-C, or with --until-caught-up to the end of
the input. With no Kafka named, here or in the manifest, it starts an embedded one, makes the topics the app
needs there, and says its address; on a Kafka of yours it makes its internal topics only. All that must
survive is in Kafka: a killed run goes on where its last committed epoch ended."""
EXAMPLE = """  streamapp run word-count.yaml
  streamapp run word-count.yaml --bootstrap-servers localhost:9092 --until-caught-up"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", type=Path, help="a manifest; - for stdin")
    parser.add_argument("--until-caught-up", action="store_true", help="process what is in the topics now, then exit 0")
    parser.add_argument(
        "--close-windows",
        action="store_true",
        help="with --until-caught-up: close the windows that are open at the end",
    )
    parser.add_argument(
        "--replicas", type=positive, metavar="N", help="executor processes (default: threads of one process)"
    )
    parser.add_argument("--port", type=port_number, default=0, help="of the live interface (default: a free one)")
    parser.add_argument(
        "--heap",
        metavar="SIZE",
        type=memory,
        default="512m",
        help="memory of the embedded broker (default: %(default)s)",
    )
    add_adopt(parser.add_argument)
    add_kafka(parser, "the manifest's, else an embedded broker")
    add_state_dir(parser, "where state and the embedded broker's data are kept (default: .streamapp/NAME)")


def run(options: argparse.Namespace) -> int:
    from streamapp.here.run import run_here
    from streamapp.here.settings import Settings
    from streamapp.local import load_manifest

    settings = Settings(
        until_caught_up=options.until_caught_up,
        close_windows=options.close_windows,
        bootstrap_servers=options.bootstrap_servers,
        kafka_config=options.kafka_config,
        state_dir=options.state_dir,
        replicas=options.replicas,
        port=options.port,
        heap=options.heap,
        adopted=options.adopt,
    )
    run_here(load_manifest(options.file), options.file, settings)
    return 0
