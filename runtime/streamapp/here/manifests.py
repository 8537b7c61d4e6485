# SPDX-License-Identifier: Apache-2.0
"""From a file named on the command line to a manifest and its plan."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from streamapp.kafka.config import KafkaConfig
    from streamapp.manifest import Manifest
    from streamapp.plan import Plan


def load_plan(file: Path) -> Plan:
    from streamapp.local import load_manifest

    return plan_of(load_manifest(file), file)


def plan_of(manifest: Manifest, file: Path) -> Plan:
    """The plan of the manifest of that file. Prints hints about possible omissions in it to stderr."""
    from streamapp.compile import compile_manifest
    from streamapp.compile.unused import leads_nowhere
    from streamapp.errors import ManifestError

    try:
        plan = compile_manifest(manifest)
    except ManifestError as error:
        raise manifest.located(error) from None
    for end in leads_nowhere(manifest):
        print(f"warning: {file}: {end}", file=sys.stderr)
    return plan


def kafka_of_manifest(manifest: Manifest, file: Path, bootstrap_servers: str | None = None) -> KafkaConfig:
    """The Kafka of the manifest of that file, with the credentials; `bootstrap_servers` may replace its address.

    Raises:
        InputError: when a file that it refers to is missing or wrong.
    """
    from streamapp.compile.assemble import kafka_settings
    from streamapp.kafka.secured import config_of

    return config_of(kafka_settings(manifest.spec.kafka), file.parent, bootstrap_servers)
