# SPDX-License-Identifier: Apache-2.0
"""The login of an app to Kafka, from the Secrets that its `kafka` names: the keys that its pods mount, and the settings
that the operator itself connects with to read lag. Pure; the content of a Secret goes into no object, and no
message."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from streamapp.errors import Problem, StreamAppError
from streamapp.kafka import login as kafka_login
from streamapp.kafka.config import KafkaConfig, reference, to_text
from streamapp.kafka.login import CA, CERTIFICATE, JAAS, KEY
from streamapp.manifest.model import is_object_name
from streamapp.plan import KafkaSettings
from streamapp_operator.manifest.addresses import require_addresses
from streamapp_operator.settings import Settings

Object = dict[str, Any]
Secrets = Mapping[str, Object | None]
"""Secrets by name; None for one that is not there."""

DIRECTORY = "/etc/streamapp/kafka"
PROPERTIES = "client.properties"
LAPTOP_FILES = "files are for a laptop; on a cluster, add secretRef: {name: SECRET}"
NO_SECRET = "`secretRef` is missing; on a cluster, add secretRef: {name: SECRET}"
_SECRETS = "secrets"
"""Folder below DIRECTORY."""
_TLS_PARTS = (CA, CERTIFICATE, KEY)


class UnusableSecret(StreamAppError):
    """A Secret that Kafka's credentials are to come from is not there, or is not what it should be."""


@dataclass(frozen=True)
class Mounted:
    """A key of a Secret, as a file below DIRECTORY."""

    secret: str
    key: str

    @property
    def path(self) -> str:
        return f"{_SECRETS}/{self.key}"


@dataclass(frozen=True)
class Login:
    """The login for an app's pods."""

    properties: str
    """The text of the settings file. It names the mounted files."""
    files: tuple[Mounted, ...]
    mark: str = ""
    """A fingerprint of the Secrets: another one means that their content has changed. It does not reveal the
    content."""


@dataclass(frozen=True, repr=False)
class Keys:
    """The keys that are used, with what is in them."""

    tls: Mapping[str, str]
    sasl: Mapping[str, str]

    @property
    def all(self) -> dict[str, str]:
        return {**self.tls, **self.sasl}


def named_secrets(body: Mapping[str, Any]) -> set[str]:
    """The Secrets that a resource's `kafka` names; the resource may be wrong in any way."""
    kafka = body.get("spec", {}).get("kafka") or {}
    names = [((kafka.get(part) or {}).get("secretRef") or {}).get("name") for part in ("tls", "sasl")]
    return {str(name) for name in names if is_object_name(name)}


def open_secrets(kafka: KafkaSettings, secrets: Secrets, namespace: str) -> Keys:
    """
    Raises:
        UnusableSecret: naming the Secret, the key, and what to type.
    """
    return Keys(_tls(kafka, secrets, namespace), _sasl(kafka, secrets, namespace))


def login_of(kafka: KafkaSettings, keys: Keys, seal: str) -> Login:
    """
    Args:
        seal: a secret of the app that nobody who sees pods knows, so that the mark cannot be used to try passwords out.
    """
    content = "\0".join(f"{key}\0{value}" for key, value in sorted(keys.all.items()))
    mark = hmac.new(seal.encode(), content.encode(), hashlib.sha256).hexdigest()[:16]
    return _login(kafka, tuple(keys.tls), tuple(keys.sasl), mark)


def assumed_login(kafka: KafkaSettings) -> Login:
    """The login where nobody can look into Secrets: as if each had all keys that it may have."""
    sasl = kafka_login.sasl_parts(kafka.sasl_mechanism) if kafka.sasl_mechanism else ()
    return _login(kafka, _TLS_PARTS if kafka.tls_secret else (), sasl, "")


def config_of(kafka: KafkaSettings, keys: Keys, settings: Settings) -> KafkaConfig:
    """The settings of the operator's own connection. Every connection gets its address here.

    Raises:
        RefusedAddress: when it is not to connect there.
    """
    require_addresses(kafka, settings)
    return KafkaConfig(kafka.bootstrap_servers or "", kafka_login.properties_of(kafka, keys.all))


def _login(kafka: KafkaSettings, tls: tuple[str, ...], sasl: tuple[str, ...], mark: str) -> Login:
    files = [Mounted(kafka.tls_secret, key) for key in tls if kafka.tls_secret]
    files += [Mounted(kafka.sasl_secret, key) for key in sasl if kafka.sasl_secret]
    folder = f"{DIRECTORY}/{_SECRETS}"
    properties = kafka_login.properties_of(kafka, {file.key: reference(folder, file.key) for file in files})
    return Login(to_text(properties, folder), tuple(files), mark)


def _tls(kafka: KafkaSettings, secrets: Secrets, namespace: str) -> dict[str, str]:
    if kafka.tls_secret is None:
        return {}
    secret = _Secret(kafka.tls_secret, secrets, namespace, "tls")
    found = {key: secret.text(key) for key in _TLS_PARTS if secret.has(key)}
    if not found:
        raise secret.lacks(CA)
    if (CERTIFICATE in found) != (KEY in found):
        raise secret.lacks(KEY if CERTIFICATE in found else CERTIFICATE)
    for key, text in found.items():
        if problem := kafka_login.pem_problem(key, text, "FILE"):
            raise UnusableSecret(f"Secret '{secret.name}' of spec.kafka.tls: key '{key}' {problem}")
    return found


def _sasl(kafka: KafkaSettings, secrets: Secrets, namespace: str) -> dict[str, str]:
    if kafka.sasl_secret is None or kafka.sasl_mechanism is None:
        return {}
    parts = kafka_login.sasl_parts(kafka.sasl_mechanism)
    secret = _Secret(kafka.sasl_secret, secrets, namespace, "sasl", *parts)
    if kafka_login.USER in parts and not secret.has(kafka_login.USER) and secret.has(JAAS):
        return {JAAS: secret.text(JAAS)}
    for part in parts:
        if not secret.has(part):
            raise secret.lacks(part)
    return {part: secret.text(part).removesuffix("\n").removesuffix("\r") for part in parts}


class _Secret:
    """A Secret that the manifest names."""

    def __init__(self, name: str, secrets: Secrets, namespace: str, field: str, *needed: str) -> None:
        self.name, self._namespace, self._field = name, namespace, field
        self._needed = needed or (CA,)
        found = secrets.get(name)
        if found is None:
            raise UnusableSecret(
                f"Secret '{name}' of spec.kafka.{field} is not in namespace '{namespace}'; make it: {self._command()}"
            )
        self._data: Mapping[str, str] = found.get("data") or {}

    def has(self, key: str) -> bool:
        return bool(self._data.get(key))

    def text(self, key: str) -> str:
        try:
            return base64.b64decode(self._data[key]).decode()
        except (binascii.Error, UnicodeDecodeError):
            raise UnusableSecret(
                f"Secret '{self.name}' of spec.kafka.{self._field}: key '{key}' is not UTF-8 text"
            ) from None

    def lacks(self, key: str) -> UnusableSecret:
        # The message does not name the other keys: people who read a status may not read Secrets.
        needed = tuple(dict.fromkeys((*self._needed, key)))
        return UnusableSecret(
            f"Secret '{self.name}' of spec.kafka.{self._field} has no key '{key}'; make it anew: "
            f"{self._command(*needed)} --dry-run=client -o yaml | kubectl apply -f -"
        )

    def _command(self, *keys: str) -> str:
        files = " ".join(f"--from-file={key}=FILE" for key in keys or self._needed)
        return f"kubectl -n {self._namespace} create secret generic {self.name} {files}"


def problems_of(kafka: KafkaSettings) -> Iterator[Problem]:
    """The settings of a manifest's `kafka` that no pod could use."""
    if any((kafka.ca_file, kafka.certificate_file, kafka.key_file)) and kafka.tls_secret is None:
        yield _problem("kafka.tls", LAPTOP_FILES)
    if kafka.sasl_mechanism is not None and kafka.sasl_secret is None:
        yield _problem("kafka.sasl", NO_SECRET)


def _problem(field: str, words: str) -> Problem:
    message, _, fix = words.partition("; ")
    return Problem(None, field, None, message, fix)
