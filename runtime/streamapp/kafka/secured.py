# SPDX-License-Identifier: Apache-2.0
"""The manifest's `kafka` on a laptop: TLS and SASL, and the files that they refer to, as client properties."""

from __future__ import annotations

from pathlib import Path

from streamapp.errors import InputError
from streamapp.kafka.config import KafkaConfig
from streamapp.plan import KafkaSettings

_USER, _PASSWORD = "username", "password"
_PROTOCOLS = {
    (False, False): None,
    (True, False): "SSL",
    (False, True): "SASL_PLAINTEXT",
    (True, True): "SASL_SSL",
}
"""By whether there is TLS, and SASL."""


def config_of(settings: KafkaSettings, folder: Path, bootstrap_servers: str | None = None) -> KafkaConfig:
    """Where Kafka is and how to be let in.

    Args:
        settings: the manifest's.
        folder: what relative file names start from: the manifest's folder.
        bootstrap_servers: in place of the manifest's.

    Raises:
        InputError: naming the field, when a file is missing or is not what the field is for.
    """
    servers = bootstrap_servers or settings.bootstrap_servers
    if not servers:
        raise InputError("spec.kafka.bootstrapServers is missing")
    protocol = _PROTOCOLS[settings.tls, settings.sasl_mechanism is not None]
    if protocol is None:
        return KafkaConfig(servers)
    return KafkaConfig(
        servers, {"security.protocol": protocol, **_tls(settings, folder), **_sasl(settings, folder)}
    )


def _tls(settings: KafkaSettings, folder: Path) -> dict[str, str]:
    _refuse_secret("tls", settings.tls_secret, "caFile: FILE")
    properties: dict[str, str] = {}
    if settings.ca_file is not None:
        ca = _text("tls.caFile", settings.ca_file, folder)
        _require_pem("tls.caFile", settings.ca_file, ca, "CERTIFICATE")
        properties["ssl.truststore.type"] = "PEM"
        properties["ssl.truststore.location"] = str((folder / settings.ca_file).absolute())
    if (settings.certificate_file is None) != (settings.key_file is None):
        raise InputError("spec.kafka.tls: certificateFile and keyFile go together; give both or none")
    if settings.certificate_file is not None and settings.key_file is not None:
        chain = _text("tls.certificateFile", settings.certificate_file, folder)
        _require_pem("tls.certificateFile", settings.certificate_file, chain, "CERTIFICATE")
        key = _text("tls.keyFile", settings.key_file, folder)
        _require_pem("tls.keyFile", settings.key_file, key, "PRIVATE KEY")
        properties["ssl.keystore.type"] = "PEM"
        properties["ssl.keystore.certificate.chain"] = chain
        properties["ssl.keystore.key"] = key
    return properties


def _sasl(settings: KafkaSettings, folder: Path) -> dict[str, str]:
    if settings.sasl_mechanism is None:
        return {}
    _refuse_secret("sasl", settings.sasl_secret, "credentialsFile: FILE")
    if settings.credentials_file is None:
        raise InputError(
            "spec.kafka.sasl: who are we? add credentialsFile: FILE, with the lines username=… and password=…"
        )
    # What is wrong with the file is said without a word of what is in it.
    lines = _text("sasl.credentialsFile", settings.credentials_file, folder).splitlines()
    parts = [line.partition("=") for line in lines if line.strip() and not line.startswith("#")]
    given = {name.strip(): value.strip() for name, _, value in parts}
    if given.keys() != {_USER, _PASSWORD}:
        raise InputError(
            f"spec.kafka.sasl.credentialsFile: {settings.credentials_file} must have exactly the lines "
            f"{_USER}=… and {_PASSWORD}=…"
        )
    return {
        "sasl.mechanism": settings.sasl_mechanism,
        "sasl.username": given[_USER],
        "sasl.password": given[_PASSWORD],
    }


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


def _require_pem(field: str, name: str, text: str, what: str) -> None:
    if f"-----BEGIN {what}-----" in text:
        return
    # Java reads no other form of a key, and nobody is there to be asked for the password of an encrypted one.
    fix = f"; convert it: openssl pkcs8 -topk8 -nocrypt -in {name} -out NEW" if f" {what}-----" in text else ""
    raise InputError(f"spec.kafka.{field}: {name} has no PEM block '-----BEGIN {what}-----'{fix}")
