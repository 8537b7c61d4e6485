# SPDX-License-Identifier: Apache-2.0
"""The manifest's `kafka` on a laptop: TLS and SASL, and the files that they refer to, as client properties."""

from __future__ import annotations

from pathlib import Path

from streamapp.errors import InputError
from streamapp.kafka import login
from streamapp.kafka.config import KafkaConfig
from streamapp.plan import KafkaSettings


def config_of(settings: KafkaSettings, folder: Path, bootstrap_servers: str | None = None) -> KafkaConfig:
    """Where Kafka is, and the credentials for it.

    Args:
        settings: the manifest's settings.
        folder: the manifest's folder, from which relative file names start.
        bootstrap_servers: an address in place of the manifest's.

    Raises:
        InputError: naming the field, when a file is missing or is not of the field's kind.
    """
    servers = bootstrap_servers or settings.bootstrap_servers
    if not servers:
        raise InputError("spec.kafka.bootstrapServers is missing")
    parts = {**_tls(settings, folder), **_sasl(settings, folder)}
    return KafkaConfig(servers, login.properties_of(settings, parts))


def _tls(settings: KafkaSettings, folder: Path) -> dict[str, str]:
    files = {
        login.CA: ("tls.caFile", settings.ca_file),
        login.CERTIFICATE: ("tls.certificateFile", settings.certificate_file),
        login.KEY: ("tls.keyFile", settings.key_file),
    }
    if not any(name for _, name in files.values()):
        _refuse_secret("tls", settings.tls_secret, "caFile: FILE")
    if (settings.certificate_file is None) != (settings.key_file is None):
        raise InputError("spec.kafka.tls: certificateFile and keyFile go together; give both or none")
    parts: dict[str, str] = {}
    for part, (field, name) in files.items():
        if name is None:
            continue
        parts[part] = _text(field, name, folder)
        if problem := login.pem_problem(part, parts[part], name):
            raise InputError(f"spec.kafka.{field}: {name} {problem}")
    return parts


def _sasl(settings: KafkaSettings, folder: Path) -> dict[str, str]:
    if settings.sasl_mechanism is None:
        return {}
    who, proof = login.sasl_parts(settings.sasl_mechanism)
    if settings.credentials_file is None:
        _refuse_secret("sasl", settings.sasl_secret, "credentialsFile: FILE")
        raise InputError(
            "spec.kafka.sasl: the credentials are missing; "
            f"add credentialsFile: FILE, with the lines {who}=… and {proof}=…"
        )
    # The message about the file shows nothing of its content.
    lines = _text("sasl.credentialsFile", settings.credentials_file, folder).splitlines()
    parts = [line.partition("=") for line in lines if line.strip() and not line.startswith("#")]
    given = {name.strip(): value.strip() for name, _, value in parts}
    if given.keys() != {who, proof}:
        raise InputError(
            f"spec.kafka.sasl.credentialsFile: {settings.credentials_file} must have exactly the lines "
            f"{who}=… and {proof}=…"
        )
    return given


def _refuse_secret(field: str, name: str | None, instead: str) -> None:
    if name is not None:
        raise InputError(f"spec.kafka.{field}.secretRef: Secret '{name}' is in a cluster; here, write {instead}")


def _text(field: str, name: str, folder: Path) -> str:
    try:
        return (folder / name).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise InputError(f"spec.kafka.{field}: {name} is not UTF-8 text") from None
    except OSError as error:
        raise InputError(f"spec.kafka.{field}: {folder / name} cannot be read: {error.strerror}") from None
