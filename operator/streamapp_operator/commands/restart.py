# SPDX-License-Identifier: Apache-2.0
"""`streamapp restart`: a new driver for an app of a cluster."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime

from streamapp_operator.commands.target import add_app, names_of_apps, target_of

HELP = "start the driver of an app on a cluster anew"
DESCRIPTION = """Sets the annotation streamapp.dev/restart-at to the time of now. The epoch under way ends, and a new
driver goes on behind it, with new executors; nothing is lost or doubled, and there is no output for some 30 seconds. An
app that has failed too often is started again, and a version that was taken back is tried once more."""
EXAMPLE = "  streamapp restart word-count"
add_arguments = add_app
suggest = names_of_apps


def run(options: argparse.Namespace) -> int:
    from streamapp_operator.manifest.app import RESTART_ANNOTATION

    with target_of(options) as target:
        # To the microsecond, so that two restarts are never the same one.
        target.annotate(options.name, RESTART_ANNOTATION, datetime.now(UTC).isoformat())
    print(f"the driver of {options.name} is started anew")
    return 0
