# SPDX-License-Identifier: Apache-2.0
"""`python -m cluster`, or `make cluster`: a cluster to work with, until Ctrl-C."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from cluster.binaries import binaries
from cluster.choice import a_cluster, prepare
from cluster.errors import Broken, Unavailable, not_run
from cluster.images import ROOT, TARGETS
from cluster.packages import FOR_TESTS, install_packages
from streamapp.cli.stopping import stop_on_signals


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="make cluster ARGS=...", description=__doc__)
    parser.add_argument(
        "--images", action="store_true", help=f"build and load the project's images too: {', '.join(TARGETS)}"
    )
    parser.add_argument(
        "--prepare", action="store_true", help="only do what takes minutes the first time, for the tests to come"
    )
    options = parser.parse_args(arguments)
    started = time.monotonic()
    log = ROOT / ".build" / "apt-cluster.log"
    if options.prepare:
        return _prepare(log)
    try:
        prepare(log)
        with stop_on_signals() as stop, a_cluster() as cluster:
            for name in TARGETS if options.images else ():
                cluster.load_image(name)
            print(f"cluster ready in {time.monotonic() - started:.0f} s: {cluster.what}; Ctrl-C ends it\n", flush=True)
            print(f"export KUBECONFIG={cluster.kubeconfig}")
            print(f"alias kubectl={cluster.kubectl_program} helm={cluster.helm_program}", flush=True)
            while not stop.wait(60):
                pass
        return 0
    except (Broken, Unavailable) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def _prepare(log: Path) -> int:
    """Prepares for `make prepare`. If there can be no cluster here, the tests that need one decide whether that is a
    failure. Tests that need an API server alone have one of their own, whatever the cluster is."""
    for step in (lambda: install_packages(log, FOR_TESTS), lambda: prepare(log), binaries):
        try:
            step()
        except Unavailable as error:
            print(not_run(error), file=sys.stderr)
        except Broken as error:
            print(f"error: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
