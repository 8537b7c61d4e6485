# SPDX-License-Identifier: Apache-2.0
"""`streamapp schema`: the manifest's JSON Schema."""

from __future__ import annotations

import argparse
import json

HELP = "print the JSON Schema of the manifest, for editors"
DESCRIPTION = "Prints the JSON Schema of the manifest; editors complete and check YAML files with it."
EXAMPLE = """  streamapp schema > streamapp.schema.json
  # then, as the first line of a manifest: # yaml-language-server: $schema=streamapp.schema.json"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    return None


def run(options: argparse.Namespace) -> int:
    from streamapp.schema import json_schema

    print(json.dumps(json_schema(), indent=2))
    return 0
