# SPDX-License-Identifier: Apache-2.0
"""`streamapp logs`: the log of the driver of an app on a cluster, or of one of its executors."""

from __future__ import annotations

import argparse

from streamapp.errors import InputError
from streamapp_operator.commands.target import Target, add_cluster, add_name, names_of_apps, target_of

HELP = "print the log of an app on a cluster"
DESCRIPTION = "Prints the driver's log, or with --executor that of an executor."
EXAMPLE = """  streamapp logs word-count --follow
  streamapp logs word-count --executor 2 --tail 100"""
suggest = names_of_apps


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_name(parser)
    parser.add_argument("-f", "--follow", action="store_true", help="print new lines until Ctrl-C")
    parser.add_argument("--previous", action="store_true", help="print the log of the container before this one")
    parser.add_argument("--tail", type=int, metavar="N", help="print only the last N lines")
    parser.add_argument("--executor", metavar="ID", help="print the log of this executor; ID is Spark's number for it")
    add_cluster(parser)


def run(options: argparse.Namespace) -> int:
    from streamapp_operator.cluster.containers import log_of

    with target_of(options) as target:
        pod, container = _pod(target, options.name, options.executor)
        lines = log_of(
            target.kube,
            target.namespace,
            pod,
            container=container,
            follow=options.follow,
            previous=options.previous,
            tailLines=options.tail,
        )
        for line in lines:
            print(line, end="", flush=options.follow)
    return 0


def _pod(target: Target, app: str, executor: str | None) -> tuple[str, str]:
    """Names of the pod and of its container."""
    from streamapp_operator.names import base_name
    from streamapp_operator.render.driver import DRIVER
    from streamapp_operator.render.executors import EXECUTOR
    from streamapp_operator.render.meta import selector_text, was_made_by

    if executor is None:
        return target.driver_pod(app)["metadata"]["name"], DRIVER
    target.app(app)
    pods = target.kube.list("Pod", target.namespace, selector_text(base_name(app), EXECUTOR))
    names = {
        pod["metadata"]["name"].rpartition("-")[2]: pod["metadata"]["name"] for pod in pods if was_made_by(pod, "Pod")
    }
    if executor not in names:
        there = f"there are: {', '.join(sorted(names))}" if names else "no executor of it runs"
        raise InputError(f"{app} has no executor {executor!r}; {there}")
    return names[executor], EXECUTOR
