# SPDX-License-Identifier: Apache-2.0
"""`streamapp resume`: the end of `streamapp suspend`."""

from __future__ import annotations

import argparse

from streamapp_operator.commands.target import add_cluster, add_name, names_of_apps, target_of

HELP = "go on with an app that was suspended"
DESCRIPTION = "Takes spec.suspend away: the app goes on where it was."
EXAMPLE = "  streamapp resume word-count"
suggest = names_of_apps


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_name(parser)
    add_cluster(parser)


def run(options: argparse.Namespace) -> int:
    with target_of(options) as target:
        target.app(options.name)
        target.kube.merge("StreamApp", target.namespace, options.name, {"spec": {"suspend": None}})
    print(f"{options.name} goes on")
    return 0
