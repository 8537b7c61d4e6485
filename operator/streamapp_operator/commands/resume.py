# SPDX-License-Identifier: Apache-2.0
"""`streamapp resume`: the end of `streamapp suspend`."""

from __future__ import annotations

import argparse

from streamapp_operator.commands.target import add_app, names_of_apps, target_of

HELP = "let a suspended app on a cluster go on"
DESCRIPTION = "Takes spec.suspend away: the app goes on where it was."
EXAMPLE = "  streamapp resume word-count"
add_arguments = add_app
suggest = names_of_apps


def run(options: argparse.Namespace) -> int:
    with target_of(options) as target:
        target.set_spec(options.name, "suspend", None)
    print(f"{options.name} goes on")
    return 0
