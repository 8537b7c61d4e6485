# SPDX-License-Identifier: Apache-2.0
"""`streamapp scale`: another number of executors for an app of a cluster."""

from __future__ import annotations

import argparse

from streamapp.errors import InputError
from streamapp_operator.commands.target import add_cluster, add_name, names_of_apps, target_of

HELP = "set the number of executors of an app on a cluster"
DESCRIPTION = "Sets spec.replicas through the subresource `scale`, as `kubectl scale` does. The app goes on meanwhile."
EXAMPLE = "  streamapp scale word-count 3"
suggest = names_of_apps


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_name(parser)
    parser.add_argument("replicas", metavar="N", type=_count, help="executors")
    add_cluster(parser)


def run(options: argparse.Namespace) -> int:
    if options.replicas == 0:
        raise InputError(
            f"with 0 executors {options.name} would run and process nothing; "
            f"`streamapp suspend {options.name}` stops it"
        )
    with target_of(options) as target:
        body = target.app(options.name)
        if "autoscaling" in body["spec"]:
            raise InputError(f"spec.autoscaling of {options.name} sets the number; change its bounds")
        change = {"spec": {"replicas": options.replicas}}
        target.kube.merge("StreamApp", target.namespace, options.name, change, "scale")
    print(f"{options.name} is to have {options.replicas} executors")
    return 0


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 0 or more")
    return int(text)
