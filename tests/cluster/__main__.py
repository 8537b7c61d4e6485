# SPDX-License-Identifier: Apache-2.0
"""`python -m cluster`, or `make cluster`: a cluster to work with, until Ctrl-C."""

from __future__ import annotations

import argparse
import sys
import time

from cluster.choice import a_cluster
from cluster.errors import Broken, Unavailable
from cluster.images import TARGETS
from streamapp.cli.stopping import stop_on_signals


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="make cluster ARGS=...", description=__doc__)
    parser.add_argument(
        "--images", action="store_true", help=f"build and load the project's images too: {', '.join(TARGETS)}"
    )
    options = parser.parse_args(arguments)
    started = time.monotonic()
    try:
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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
