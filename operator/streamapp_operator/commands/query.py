# SPDX-License-Identifier: Apache-2.0
"""`kubectl streamapp query`: rows of the state of an app on a cluster."""

from __future__ import annotations

import argparse
import sys

from streamapp.errors import InputError, RunError
from streamapp_operator.commands.target import add_cluster, add_name, names_of_apps, target_of

HELP = "print rows of the state of an app on a cluster"
DESCRIPTION = """Prints rows of STORE, one JSON object per line: those of KEY (a value for each column of the key), or
any, 100 at most. Without STORE it lists the stores. An answer has all of the epochs that had ended when the question
came, and nothing that is not committed. The command asks inside the driver's pod, by `pods/exec`: the token of its
interface stays there."""
EXAMPLE = """  kubectl streamapp query word-count word-counts to
  kubectl streamapp query shop clicks-per-page /index.html --window-from 2024-01-31T12:00:00Z"""
_PASSED_ON = ("limit", "window_from", "window_to")
suggest = names_of_apps


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_name(parser)
    parser.add_argument("store", metavar="STORE", nargs="?", help="name of the store; none: list them")
    parser.add_argument("key", metavar="KEY", nargs="*", help="a value for each column of the key")
    parser.add_argument("--limit", metavar="N", help="rows at most (default: 100)")
    parser.add_argument("--window-from", metavar="TIME", help="windows that begin then or later")
    parser.add_argument("--window-to", metavar="TIME", help="windows that begin before")
    add_cluster(parser)


def run(options: argparse.Namespace) -> int:
    from streamapp_operator.cluster.containers import run_in
    from streamapp_operator.render.driver import DRIVER

    with target_of(options) as target:
        pod = target.driver_pod(options.name)["metadata"]["name"]
        out, err, code = run_in(target.kube, target.namespace, pod, DRIVER, _command(options))
    print(out, end="")
    if code == 0:
        print(err, end="", file=sys.stderr)
        return 0
    words = err.strip().removeprefix("error: ") or f"the question ended with exit code {code} in pod {pod}"
    raise (InputError if code in (1, 2) else RunError)(words)


def _command(options: argparse.Namespace) -> list[str]:
    """The same command as on a laptop, with the driver's own address and token."""
    from streamapp_operator.render.pods import LIVE_PORT, SECRETS_DIR

    command = ["streamapp", "query", f"--url=http://localhost:{LIVE_PORT}", f"--token-file={SECRETS_DIR}/token"]
    for field in _PASSED_ON:
        if (value := getattr(options, field)) is not None:
            command.append(f"--{field.replace('_', '-')}={value}")
    return [*command, "--", *([options.store] if options.store else []), *options.key]
