# SPDX-License-Identifier: Apache-2.0
"""From a file named on the command line to a manifest and its plan."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from streamapp.errors import InputError

if TYPE_CHECKING:
    from streamapp.kafka.config import KafkaConfig
    from streamapp.manifest import Manifest
    from streamapp.plan import Plan


def read_text(file: Path) -> str:
    """The text of a file, or of stdin for `-`."""
    try:
        return sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise InputError(f"{file}: is not UTF-8 text") from None
    except OSError as error:
        raise InputError(f"{file}: {error.strerror}") from None


def load_manifest(file: Path) -> Manifest:
    from streamapp.manifest import parse_manifest

    return parse_manifest(read_text(file), str(file))


def load_plan(file: Path) -> Plan:
    from streamapp.compile import compile_manifest

    return compile_manifest(load_manifest(file))


def kafka_of_manifest(manifest: Manifest) -> KafkaConfig:
    """Where the manifest says Kafka is.

    Raises:
        InputError: when it asks for TLS or SASL: those are taken from a settings file so far, and going on without
            them would mean talking in the clear.
    """
    from streamapp.kafka.config import KafkaConfig

    settings = manifest.spec.kafka
    assert settings is not None
    for name, value in (("tls", settings.tls), ("sasl", settings.sasl)):
        if value is not None:
            raise InputError(
                f"spec.kafka.{name} is not read by this command yet; put bootstrap.servers and the settings into "
                "a file of Kafka client properties and name it with --kafka-config FILE"
            )
    return KafkaConfig(settings.bootstrap_servers)
