# SPDX-License-Identifier: Apache-2.0
"""`streamapp restart`: a new driver for an app of a cluster."""

from __future__ import annotations

import argparse

from streamapp_operator.commands.target import add_app, names_of_apps, target_of

HELP = "start the driver of an app on a cluster anew"
DESCRIPTION = """Deletes the driver's pod: the epoch under way ends, and a new driver goes on behind it, with new
executors. Nothing is lost or doubled; there is no output for some 30 seconds."""
EXAMPLE = "  streamapp restart word-count"
add_arguments = add_app
suggest = names_of_apps


def run(options: argparse.Namespace) -> int:
    with target_of(options) as target:
        pod = target.driver_pod(options.name)
        target.kube.delete("Pod", target.namespace, pod["metadata"]["name"], pod["metadata"]["uid"])
    print(f"the driver of {options.name} is started anew")
    return 0
