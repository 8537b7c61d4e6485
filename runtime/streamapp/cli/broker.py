# SPDX-License-Identifier: Apache-2.0
"""`streamapp broker`: just the embedded broker."""

from __future__ import annotations

import argparse
import time

from streamapp.cli.options import add_state_dir, memory, port_number
from streamapp.cli.stopping import stop_on_signals
from streamapp.state_folder import default_state_dir, occupied, publish

HELP = "run the embedded Kafka broker until Ctrl-C"
DESCRIPTION = """Runs one real Kafka broker on this machine, until Ctrl-C: reachable from this machine only, or with
--host from others. It lets every client in without a password: use --host only in a network of your own, as that of a
test cluster or of containers. Its data stays in the state folder, and the next start there goes on with it, on the same
port where that is free."""
EXAMPLE = """  streamapp broker --port 9092
  streamapp broker --port 9092 --host 0.0.0.0 --advertised-host kafka.default.svc"""

EVERY_ADDRESS = ("0.0.0.0", "::")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--port", type=port_number, default=0, help="port to listen on (default: the last one, or a free one)"
    )
    parser.add_argument(
        "--host",
        metavar="ADDRESS",
        default="127.0.0.1",
        help="address to listen on, 0.0.0.0 for all of this machine's (default: %(default)s)",
    )
    parser.add_argument(
        "--advertised-host",
        metavar="HOST",
        help="name or address by which clients reach it (default: that of --host)",
    )
    parser.add_argument(
        "--heap", metavar="SIZE", type=memory, default="512m", help="memory of the broker's JVM (default: %(default)s)"
    )
    add_state_dir(parser, "where its data is kept (default: .streamapp/broker)")


def run(options: argparse.Namespace) -> int:
    from streamapp.errors import InputError, RunError
    from streamapp.kafka.broker import EmbeddedBroker

    if options.host in EVERY_ADDRESS and options.advertised_host is None:
        raise InputError(
            f"--host {options.host} is no address that a client could dial; "
            "add the one by which they reach this machine: --advertised-host HOST"
        )
    state_dir = options.state_dir or default_state_dir("broker")
    with occupied(state_dir):
        started = time.monotonic()
        embedded = EmbeddedBroker(
            state_dir / "broker",
            port=options.port,
            heap=options.heap,
            host=options.host,
            advertised_host=options.advertised_host,
        )
        with embedded as broker:
            publish(state_dir, broker.bootstrap_servers, url=None)
            took = time.monotonic() - started
            print(
                f"broker ready at {broker.bootstrap_servers} in {took:.1f} s, data in {broker.data_dir}; "
                "Ctrl-C stops it",
                flush=True,
            )
            with stop_on_signals() as stop:
                while broker.running:
                    if stop.wait(0.5):
                        return 0
            raise RunError(f"the broker ended by itself; see {broker.data_dir / 'broker.log'}")
