# SPDX-License-Identifier: Apache-2.0
"""`streamapp validate`: the errors of a manifest, as many as can be found at once."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from streamapp.manifest import Manifest
    from streamapp.plan import Plan

HELP = "check manifests and name all errors that can be seen at once"
DESCRIPTION = """Checks each FILE as `run` would before it starts, with no Kafka needed, and prints each
error with its node, the field, the value and what to write instead. Types are checked by Spark's own
analyzer, which takes some seconds."""
EXAMPLE = "  streamapp validate word-count.yaml"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", metavar="FILE", nargs="+", type=Path, help="a manifest; - for stdin")
    parser.add_argument(
        "--no-types", action="store_true", help="leave out the check of types, for which Spark has to start"
    )


def run(options: argparse.Namespace) -> int:
    from streamapp.cli.main import lines_of, say_error, say_note
    from streamapp.errors import ManifestError, StreamAppError
    from streamapp.here.manifests import plan_of
    from streamapp.local import load_manifest

    manifests: dict[Path, Manifest] = {}
    plans: dict[Path, Plan] = {}
    problems: dict[Path, tuple[str, ...]] = {}
    notes: dict[Path, str | None] = {}
    worst = 0
    for file in options.files:
        try:
            manifests[file] = load_manifest(file)
            plans[file] = plan_of(manifests[file], file)
        except StreamAppError as error:
            if options.debug:
                raise
            problems[file] = tuple(lines_of(error))
            if isinstance(error, ManifestError):
                notes[file] = error.left_open(besides="" if options.no_types else "types")
            worst = max(worst, error.exit_code)
    if plans and not options.no_types:
        from streamapp.spark.analyze import mistakes_in

        for file, found in zip(plans, mistakes_in(list(plans.values())), strict=True):
            if found is not None:
                problems[file] = tuple(lines_of(manifests[file].located(found)))
                notes[file] = found.left_open()
                worst = max(worst, ManifestError.exit_code)
    for file in options.files:
        for line in problems.get(file, ()):
            sys.stdout.flush()
            say_error(line if line.startswith(str(file)) else f"{file}: {line}")
        if notes.get(file):
            say_note(f"{file}: {notes[file]}")
        if file not in problems:
            print(f"{file}: ok")
    return worst
