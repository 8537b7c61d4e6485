# SPDX-License-Identifier: Apache-2.0
"""`streamapp validate`: every error of a manifest at once."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

HELP = "check manifests and name every error"
DESCRIPTION = """Checks each FILE as `run` would before it starts, with no Kafka needed, and prints every
error with its node, the field, the value and what to write instead. `-` is stdin."""
EXAMPLE = "  streamapp validate word-count.yaml"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", metavar="FILE", nargs="+", type=Path)


def run(options: argparse.Namespace) -> int:
    from streamapp.cli.main import lines_of, say_error
    from streamapp.cli.manifests import load_plan
    from streamapp.errors import StreamAppError

    worst = 0
    for file in options.files:
        try:
            load_plan(file)
        except StreamAppError as error:
            if options.debug:
                raise
            sys.stdout.flush()
            for line in lines_of(error):
                say_error(line if line.startswith(str(file)) else f"{file}: {line}")
            worst = max(worst, error.exit_code)
        else:
            print(f"{file}: ok")
    return worst
