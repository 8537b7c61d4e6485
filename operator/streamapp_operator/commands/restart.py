# SPDX-License-Identifier: Apache-2.0
"""`streamapp restart`: a new driver for an app of a cluster."""

from __future__ import annotations

import argparse

from streamapp.errors import InputError
from streamapp_operator.commands.target import add_cluster, add_name, names_of_apps, target_of

HELP = "start the driver of an app on a cluster anew"
DESCRIPTION = """Deletes the driver's pod: the epoch under way ends, and a new driver goes on behind it, with new
executors. Nothing is lost or doubled; there is no output for some 30 seconds."""
EXAMPLE = "  streamapp restart word-count"
suggest = names_of_apps


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_name(parser)
    add_cluster(parser)


def run(options: argparse.Namespace) -> int:
    from streamapp_operator.names import base_name, driver_pod_name

    with target_of(options) as target:
        target.app(options.name)
        pod = target.kube.get("Pod", target.namespace, driver_pod_name(base_name(options.name)))
        if pod is None:
            raise InputError(f"{options.name} has no driver now; `streamapp status {options.name}` says why")
        target.kube.delete("Pod", target.namespace, pod["metadata"]["name"], pod["metadata"]["uid"])
    print(f"the driver of {options.name} is started anew")
    return 0
