# SPDX-License-Identifier: Apache-2.0
"""Where Kafka is, and the credentials for it: one set of settings, spelt for the Java client and for librdkafka.

A settings file holds Kafka's own client properties, the ones `kafka-console-consumer --command-config` takes:

    security.protocol=SASL_SSL
    sasl.mechanism=SCRAM-SHA-512
    sasl.username=ada
    sasl.password=...
    ssl.truststore.type=PEM
    ssl.truststore.location=/etc/kafka/ca.pem

`sasl.jaas.config` may stand in place of username and password. Certificates are PEM (both clients read it), a
key store may also be PKCS12. Only settings about connecting and authentication are taken, so that a stray
consumer or producer setting cannot change what exactly-once means.

A password, certificate or key may be the content of a file, as Kafka's DirectoryConfigProvider writes it:
`${directory:/etc/kafka:password}`. So a settings file without a secret in it can say where the secrets are mounted. In
a file that we write, `streamapp.secrets.folder` names the only folder for such references; if it is empty, there are
none.
"""

from __future__ import annotations

import difflib
import os
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import javaproperties

from streamapp.addresses import EXAMPLE, address_fault
from streamapp.errors import InputError

BOOTSTRAP = "bootstrap.servers"
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
OAUTHBEARER = "OAUTHBEARER"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", OAUTHBEARER)
HIDDEN = "***"

# The settings that a settings file may have. The comment is librdkafka's name where it differs.
KNOWN = (
    BOOTSTRAP,
    "client.dns.lookup",
    "request.timeout.ms",  # librdkafka: socket.timeout.ms
    "security.protocol",
    "sasl.mechanism",
    "sasl.username",  # Java: inside sasl.jaas.config
    "sasl.password",  # Java: inside sasl.jaas.config
    "sasl.jaas.config",  # librdkafka: sasl.username and sasl.password
    "sasl.oauthbearer.token.endpoint.url",
    "sasl.oauthbearer.client.credentials.client.id",  # librdkafka: sasl.oauthbearer.client.id
    "sasl.oauthbearer.client.credentials.client.secret",  # librdkafka: sasl.oauthbearer.client.secret
    "sasl.oauthbearer.scope",
    "ssl.endpoint.identification.algorithm",
    "ssl.truststore.type",
    "ssl.truststore.location",  # librdkafka: ssl.ca.location
    "ssl.truststore.certificates",  # librdkafka: ssl.ca.pem
    "ssl.keystore.type",
    "ssl.keystore.location",  # librdkafka, PEM: ssl.certificate.location and ssl.key.location
    "ssl.keystore.password",
    "ssl.keystore.certificate.chain",  # librdkafka: ssl.certificate.pem
    "ssl.keystore.key",  # librdkafka: ssl.key.pem
    "ssl.key.password",
)
SECRET = re.compile(r"password|jaas|keystore\.key$|secret|token")
SECRETS_FOLDER = "streamapp.secrets.folder"
REFERABLE = (
    "sasl.username",
    "sasl.password",
    "sasl.jaas.config",
    "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.credentials.client.secret",
    "ssl.truststore.certificates",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.password",
    "ssl.key.password",
)
"""Settings that may be the content of a file. ClientProperties.scala has the same list."""
_REFERENCE = re.compile(r"\$\{directory:([^:}]+):([^:}/]+)\}")
_BUNDLES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem")
"""The files of systems' well-known certificate authorities."""
_OAUTH = "sasl.oauthbearer."
_OAUTH_NEEDED = (
    f"{_OAUTH}token.endpoint.url",
    f"{_OAUTH}client.credentials.client.id",
    f"{_OAUTH}client.credentials.client.secret",
)


@dataclass(frozen=True, repr=False)
class KafkaConfig:
    """Bootstrap servers, and client properties by Kafka's own (Java) names."""

    bootstrap_servers: str
    properties: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        fault = address_fault(self.bootstrap_servers)
        if fault is not None:
            raise InputError(f"bootstrap servers {self.bootstrap_servers!r}: {fault}; write for example {EXAMPLE}")
        _check(self.properties)

    @staticmethod
    def load(bootstrap_servers: str | None, file: Path | None) -> KafkaConfig:
        """The configuration from the command line's two options. The option wins over the file's bootstrap.servers."""
        properties: dict[str, str] = {}
        if file is not None:
            try:
                properties = resolved(parse_properties(file.read_text(encoding="utf-8")))
            except (OSError, UnicodeDecodeError) as error:
                reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
                raise InputError(f"Kafka settings {file}: cannot be read: {reason}") from None
        named = properties.pop(BOOTSTRAP, None)
        servers = bootstrap_servers or named
        if not servers:
            raise InputError(
                f"no Kafka address: name one with --bootstrap-servers HOST:PORT or as {BOOTSTRAP} in {file}"
            )
        try:
            return KafkaConfig(servers, properties)
        except InputError as error:
            raise InputError(f"Kafka settings {file}: {error}" if file else str(error)) from None

    def write(self, file: Path) -> None:
        """Writes the properties, without the address, to a settings file that only this user can read."""
        unfinished = file.with_suffix(".new")
        unfinished.unlink(missing_ok=True)
        with open(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
            out.write(to_text(self.properties))
        unfinished.replace(file)

    def for_librdkafka(self) -> dict[str, str]:
        """The same for librdkafka, which confluent-kafka wraps."""
        given = dict(self.properties)
        settings = {BOOTSTRAP: self.bootstrap_servers}
        for same in ("client.dns.lookup", "security.protocol", "sasl.mechanism", "ssl.key.password"):
            if same in given:
                settings[same] = given[same]
        if "request.timeout.ms" in given:
            settings["socket.timeout.ms"] = given["request.timeout.ms"]
        if "ssl.endpoint.identification.algorithm" in given:
            settings["ssl.endpoint.identification.algorithm"] = given["ssl.endpoint.identification.algorithm"] or "none"
        if "sasl.jaas.config" in given:
            settings["sasl.username"], settings["sasl.password"] = _from_jaas(given["sasl.jaas.config"])
        for name in ("sasl.username", "sasl.password"):
            if name in given:
                settings[name] = given[name]
        if given.get("sasl.mechanism") == OAUTHBEARER:
            settings[f"{_OAUTH}method"] = "oidc"
            for name in (*_OAUTH_NEEDED, f"{_OAUTH}scope"):
                if name in given:
                    settings[name.replace("client.credentials.", "")] = given[name]
            authorities = _authorities_of_tokens(given)
            if given[f"{_OAUTH}token.endpoint.url"].startswith("https:") and authorities:
                settings["https.ca.pem"] = authorities
        if "ssl.truststore.location" in given:
            settings["ssl.ca.location"] = given["ssl.truststore.location"]
        if "ssl.truststore.certificates" in given:
            settings["ssl.ca.pem"] = given["ssl.truststore.certificates"]
        if "ssl.keystore.certificate.chain" in given:
            settings["ssl.certificate.pem"] = given["ssl.keystore.certificate.chain"]
        if "ssl.keystore.key" in given:
            settings["ssl.key.pem"] = given["ssl.keystore.key"]
        if "ssl.keystore.location" in given:
            if given.get("ssl.keystore.type") == "PEM":
                settings["ssl.certificate.location"] = given["ssl.keystore.location"]
                settings["ssl.key.location"] = given["ssl.keystore.location"]
            else:
                settings["ssl.keystore.location"] = given["ssl.keystore.location"]
                settings["ssl.keystore.password"] = given.get("ssl.keystore.password", "")
        return settings

    def __repr__(self) -> str:
        shown = {name: HIDDEN if SECRET.search(name) else value for name, value in self.properties.items()}
        return f"KafkaConfig({self.bootstrap_servers!r}, {shown})"


def _authorities_of_tokens(given: Mapping[str, str]) -> str:
    """The certificate authorities for the endpoint of tokens: Kafka's, and the system's. librdkafka would look for the
    system's where the system that it was built on has them."""
    ours, file = given.get("ssl.truststore.certificates", ""), given.get("ssl.truststore.location")
    candidates = (ssl.get_default_verify_paths().cafile, *_BUNDLES)
    public = next((Path(bundle).read_text() for bundle in candidates if bundle and Path(bundle).exists()), "")
    return "\n".join(filter(None, (ours if file is None else Path(file).read_text(), public)))


def reference(folder: str, file: str) -> str:
    """A value that is the content of a file.

    >>> reference("/etc/kafka", "password")
    '${directory:/etc/kafka:password}'
    """
    return f"${{directory:{folder}:{file}}}"


def resolved(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties of a settings file, with the content of files in place of references to them. The end of a
    content's last line is left out.

    Raises:
        InputError: when a setting refers to a file and must not.
        OSError, UnicodeDecodeError: when a file cannot be read.
    """
    folder = properties.get(SECRETS_FOLDER)
    return {name: _value(name, value, folder) for name, value in properties.items() if name != SECRETS_FOLDER}


def _value(name: str, value: str, only: str | None) -> str:
    found = _REFERENCE.fullmatch(value)
    if found is None or (only is not None and (only != found[1] or name not in REFERABLE)):
        return value
    if name not in REFERABLE:
        raise InputError(f"{name} cannot be the content of a file; only {', '.join(REFERABLE)} can")
    return (Path(found[1]) / found[2]).read_text(encoding="utf-8").removesuffix("\n").removesuffix("\r")


def to_text(properties: Mapping[str, str], secrets_folder: str = "") -> str:
    """The text of a settings file. Values that refer to files of that folder stand for the content of these files.

    >>> print(to_text({"sasl.password": "back\\\\slash, zoë"}))
    streamapp.secrets.folder=
    sasl.password=back\\\\slash, zo\\u00eb
    <BLANKLINE>
    """
    return javaproperties.dumps({SECRETS_FOLDER: secrets_folder, **properties}, timestamp=None)


def parse_properties(text: str) -> dict[str, str]:
    """Java's properties format, as `java.util.Properties` reads it.

    Raises:
        InputError: when an escape is invalid.
    """
    try:
        return javaproperties.loads(text)
    except javaproperties.InvalidUEscapeError as error:
        raise InputError(f"{error}; write a backslash as \\\\") from None


def _check(properties: Mapping[str, str]) -> None:
    """Refuse settings that one of the two clients does not support, with the name and the setting to use instead."""
    for name in properties:
        if name not in KNOWN:
            near = difflib.get_close_matches(name, KNOWN, n=1)
            hint = f"; did you mean {near[0]}?" if near else f"; known are {', '.join(KNOWN)}"
            raise InputError(f"{name} is not a setting about connecting to Kafka{hint}")
    protocol = properties.get("security.protocol", "PLAINTEXT")
    if protocol not in PROTOCOLS:
        raise InputError(f"security.protocol is {protocol!r}; it must be one of {', '.join(PROTOCOLS)}")
    if protocol.startswith("SASL"):
        _check_sasl(properties)
    for store, others in (("truststore", ()), ("keystore", ("PKCS12",))):
        kind = properties.get(f"ssl.{store}.type", "JKS")
        if f"ssl.{store}.location" in properties and kind not in ("PEM", *others):
            allowed = " or ".join(("PEM", *others))
            raise InputError(
                f"ssl.{store}.type is {kind} (JKS when left out); give the {store} as {allowed} and "
                f"say so in ssl.{store}.type"
            )


def _check_sasl(properties: Mapping[str, str]) -> None:
    mechanism = properties.get("sasl.mechanism", "GSSAPI")
    if mechanism not in MECHANISMS:
        raise InputError(
            f"sasl.mechanism is {mechanism} (GSSAPI when left out), which is not supported yet; "
            f"it must be one of {', '.join(MECHANISMS)}"
        )
    if mechanism == OAUTHBEARER:
        if missing := [name for name in _OAUTH_NEEDED if name not in properties]:
            raise InputError(f"sasl.mechanism {mechanism} needs {', '.join(missing)}")
    elif "sasl.jaas.config" in properties:
        _from_jaas(properties["sasl.jaas.config"])
    elif not {"sasl.username", "sasl.password"} <= properties.keys():
        raise InputError(f"sasl.mechanism {mechanism} needs sasl.username and sasl.password (or sasl.jaas.config)")


def _from_jaas(text: str) -> tuple[str, str]:
    values = dict(re.findall(r'(username|password)="((?:[^"\\]|\\.)*)"', text))
    if len(values) != 2:
        raise InputError('sasl.jaas.config must say username="..." and password="..." (in double quotes)')
    user, password = (re.sub(r"\\(.)", r"\1", values[name]) for name in ("username", "password"))
    return user, password
