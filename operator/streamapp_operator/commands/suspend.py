# SPDX-License-Identifier: Apache-2.0
"""`streamapp suspend`: stops an app of a cluster, in order."""

from __future__ import annotations

import argparse

from streamapp_operator.commands.target import add_app, names_of_apps, target_of

HELP = "stop an app on a cluster, and keep its state"
DESCRIPTION = """Sets spec.suspend: the epoch under way ends, then driver and executors go. State and position stay
in Kafka; `streamapp resume` goes on from there."""
EXAMPLE = "  streamapp suspend word-count"
add_arguments = add_app
suggest = names_of_apps


def run(options: argparse.Namespace) -> int:
    with target_of(options) as target:
        target.set_spec(options.name, "suspend", True)
    print(f"{options.name} stops")
    return 0
