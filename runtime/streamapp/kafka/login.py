# SPDX-License-Identifier: Apache-2.0
"""The manifest's `kafka.tls` and `kafka.sasl` as a client's properties. The parts have their names in a Secret, whether
they come from one or from files on a laptop; each is a content or a reference to one."""

from __future__ import annotations

from collections.abc import Mapping

from streamapp.kafka.config import OAUTHBEARER
from streamapp.plan import KafkaSettings

CA, CERTIFICATE, KEY = "ca.crt", "tls.crt", "tls.key"
USER, PASSWORD = "username", "password"
CLIENT_ID, CLIENT_SECRET = "clientId", "clientSecret"
JAAS = "sasl.jaas.config"
"""The part of Strimzi's Secrets that takes the place of user and password."""

_PROTOCOLS = {
    (False, False): None,
    (True, False): "SSL",
    (False, True): "SASL_PLAINTEXT",
    (True, True): "SASL_SSL",
}
"""Kafka's protocols by (TLS, SASL)."""
_PROPERTIES = {
    CA: "ssl.truststore.certificates",
    CERTIFICATE: "ssl.keystore.certificate.chain",
    KEY: "ssl.keystore.key",
    USER: "sasl.username",
    PASSWORD: "sasl.password",
    JAAS: "sasl.jaas.config",
    CLIENT_ID: "sasl.oauthbearer.client.credentials.client.id",
    CLIENT_SECRET: "sasl.oauthbearer.client.credentials.client.secret",
}
_PEM_BLOCKS = {CA: "CERTIFICATE", CERTIFICATE: "CERTIFICATE", KEY: "PRIVATE KEY"}


def is_secured(settings: KafkaSettings) -> bool:
    """Whether Kafka uses TLS or SASL."""
    return settings.tls or settings.sasl_mechanism is not None


def sasl_parts(mechanism: str) -> tuple[str, str]:
    """The parts that a mechanism needs: the name and the secret."""
    return (CLIENT_ID, CLIENT_SECRET) if mechanism == OAUTHBEARER else (USER, PASSWORD)


def properties_of(settings: KafkaSettings, parts: Mapping[str, str]) -> dict[str, str]:
    """Client properties, by Kafka's own names.

    >>> properties_of(KafkaSettings(sasl_mechanism="PLAIN"), {USER: "ada", PASSWORD: "?"})["security.protocol"]
    'SASL_PLAINTEXT'
    """
    protocol = _PROTOCOLS[settings.tls, settings.sasl_mechanism is not None]
    properties = {} if protocol is None else {"security.protocol": protocol}
    if CA in parts:
        properties["ssl.truststore.type"] = "PEM"
    if KEY in parts:
        properties["ssl.keystore.type"] = "PEM"
    if settings.sasl_mechanism is not None:
        properties["sasl.mechanism"] = settings.sasl_mechanism
    if settings.token_endpoint is not None:
        properties["sasl.oauthbearer.token.endpoint.url"] = settings.token_endpoint
    if settings.scope is not None:
        properties["sasl.oauthbearer.scope"] = settings.scope
    return properties | {_PROPERTIES[part]: value for part, value in parts.items()}


def pem_problem(part: str, text: str, file: str) -> str | None:
    """The problem with a certificate or key, in words that show nothing of it; None for a good one and other parts."""
    what = _PEM_BLOCKS.get(part)
    if what is None or f"-----BEGIN {what}-----" in text:
        return None
    # Java reads no other form of a key, and nobody can give the password of an encrypted one.
    fix = f"; convert it: openssl pkcs8 -topk8 -nocrypt -in {file} -out NEW" if f" {what}-----" in text else ""
    return f"has no PEM block '-----BEGIN {what}-----'{fix}"
