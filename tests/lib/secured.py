# SPDX-License-Identifier: Apache-2.0
"""A broker that lets in only users that it knows, over TLS, with an authority of its own; and, as an option, lets them
do only what an ACL allows."""

from __future__ import annotations

import ipaddress
import os
import shlex
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from lib.certificates import openssl, sign
from lib.wait import until
from streamapp.kafka.broker import EmbeddedBroker, Node, new_cluster_id
from streamapp.kafka.config import KafkaConfig
from streamapp.kafka.ports import free_ports

if TYPE_CHECKING:
    from lib.tokens import Tokens

USER = "ada"
CERTIFIED = f"User:CN={USER}"
"""The user of the listener that looks at certificates only."""
_SECURE = "listener.name.secure"
_PACKAGE = "org.apache.kafka.common.security"
_KINDS = {"topic": ResourceType.TOPIC, "group": ResourceType.GROUP, "transactional_id": ResourceType.TRANSACTIONAL_ID}


@dataclass(frozen=True)
class SecuredBroker:
    """A broker's addresses for clients with credentials, and one without any, with which a test looks."""

    host: str
    port: int
    certified_port: int
    open: KafkaConfig
    folder: Path
    """The folder with `ca.pem`, and `other-ca.pem`, of an authority that has signed nothing; `client.pem` and
    `client.key`; and `next-client.pem` and `next-client.key`, which are good after `trust_next_clients`."""
    expired_port: int = 0
    """The port where its certificate has expired."""
    tokens: Tokens | None = None
    """The server that gives tokens for OAUTHBEARER, if there is one."""
    _admin: list[AdminClient] = field(default_factory=list)

    @property
    def address(self) -> str:
        """The address that asks for a certificate, and for a login by SASL."""
        return f"{self.host}:{self.port}"

    @property
    def certified(self) -> str:
        """The address that asks for a certificate alone."""
        return f"{self.host}:{self.certified_port}"

    @property
    def expired(self) -> str:
        return f"{self.host}:{self.expired_port}"

    @property
    def open_address(self) -> str:
        """The address without TLS."""
        return self.open.bootstrap_servers

    @property
    def wrong_name(self) -> str:
        """The first address, by a name that its certificate does not have."""
        return f"127.0.0.1:{self.port}"

    # --- the administrator's part ---------------------------------------------------------------------------

    @property
    def admin(self) -> AdminClient:
        if not self._admin:
            self._admin.append(AdminClient({**self.open.for_librdkafka()}))
        return self._admin[0]

    def set_password(self, password: str) -> None:
        """Sets the password of USER for both kinds of SCRAM; PLAIN keeps the first one."""
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            change = UserScramCredentialUpsertion(USER, ScramCredentialInfo(mechanism, 4096), password.encode())
            self.admin.alter_user_scram_credentials([change])[USER].result(30)

    def trust_next_clients(self) -> None:
        """From now on new clients must show a certificate of the next authority; connected ones may stay."""
        name, authority = f"{_SECURE}.ssl.truststore.location", str(self.folder / "next-ca.pem")
        change = ConfigEntry(name, authority, incremental_operation=AlterConfigOpType.SET)
        broker = ConfigResource(ConfigResource.Type.BROKER, "1", incremental_configs=[change])
        for future in self.admin.incremental_alter_configs([broker]).values():
            future.result(30)

    def lets_in(self, certificate: str, password: str) -> bool:
        """Whether USER gets an answer within some seconds."""
        settings: dict[str, str | int | float | bool] = {
            "bootstrap.servers": self.address,
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.folder / "ca.pem"),
            "ssl.certificate.location": str(self.folder / f"{certificate}.pem"),
            "ssl.key.location": str(self.folder / f"{certificate}.key"),
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": USER,
            "sasl.password": password,
            "log_level": 0,
        }
        try:
            AdminClient(settings).list_topics(timeout=5)
        except KafkaException:
            return False
        return True

    def allow(self, bindings: Iterable[AclBinding]) -> None:
        wanted = list(bindings)
        for future in self.admin.create_acls(wanted).values():
            future.result(30)
        until(lambda: set(map(str, wanted)) <= self._acls(), 10, "the ACLs are known")

    def forbid(self, binding: AclBinding) -> None:
        """Takes back an ACL."""
        (future,) = self.admin.delete_acls([_filter(binding)]).values()
        assert len(future.result(30)) == 1, f"was not allowed: {binding}"
        until(lambda: str(binding) not in self._acls(), 10, "the ACL is gone")

    def _acls(self) -> set[str]:
        return set(map(str, self.admin.describe_acls(_EVERY).result(30)))


def bindings_of(commands: str) -> list[AclBinding]:
    """The ACLs of these kafka-acls commands, one by one."""
    return [binding for line in commands.splitlines() for binding in _bindings(shlex.split(line))]


def _bindings(words: list[str]) -> Iterator[AclBinding]:
    assert words[0] == "kafka-acls"
    options = list(pairwise(words))
    said = dict(options)
    assert "--add" in words
    (kind,) = [name for name in ("--topic", "--group", "--transactional-id") if name in words]
    prefixed = said.get("--resource-pattern-type") == "prefixed"
    pattern = ResourcePatternType.PREFIXED if prefixed else ResourcePatternType.LITERAL
    for operation in (value for name, value in options if name == "--operation"):
        yield AclBinding(
            _KINDS[kind[2:].replace("-", "_")],
            said[kind],
            pattern,
            said["--allow-principal"],
            "*",
            AclOperation[_constant(operation)],
            AclPermissionType.ALLOW,
        )


def _constant(operation: str) -> str:
    """The constant's name, as DESCRIBE_CONFIGS for DescribeConfigs."""
    return "".join(f"_{letter}" if letter.isupper() else letter for letter in operation).strip("_").upper()


# Its constructor is typed as if each part were set; None stands for any.
_ANY_TEXT: Any = None
_EVERY = AclBindingFilter(
    ResourceType.ANY, _ANY_TEXT, ResourcePatternType.ANY, _ANY_TEXT, _ANY_TEXT, AclOperation.ANY, AclPermissionType.ANY
)


def _filter(binding: AclBinding) -> AclBindingFilter:
    return AclBindingFilter(
        binding.restype,
        binding.name,
        binding.resource_pattern_type,
        binding.principal,
        binding.host,
        binding.operation,
        binding.permission_type,
    )


# --- certificates -------------------------------------------------------------------------------------------


def make_authority(folder: Path, name: str) -> None:
    """Makes NAME.pem and NAME.key."""
    openssl(
        folder,
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-subj",
        f"/CN={name}",
        "-keyout",
        f"{name}.key",
        "-out",
        f"{name}.pem",
    )


def make_certificate(folder: Path, name: str, host: str, days: int = 2, authority: str = "ca") -> None:
    """Makes NAME.pem and NAME.key, signed by the authority; with -1 days, the certificate has expired."""
    request = ("req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={host}")
    openssl(folder, *request, "-keyout", f"{name}.key", "-out", f"{name}.csr")
    sign(folder, name, [f"subjectAltName={_alternative(host)}"], authority, days, ".pem")
    both = (folder / f"{name}.key").read_text() + (folder / f"{name}.pem").read_text()
    (folder / f"{name}-both.pem").write_text(both)


def _alternative(host: str) -> str:
    try:
        return f"IP:{ipaddress.ip_address(host)}"
    except ValueError:
        return f"DNS:{host}"


# --- the broker ---------------------------------------------------------------------------------------------


@contextmanager
def secured_broker(
    folder: Path, password: str, *, host: str = "localhost", guarded: bool = False, keys_url: str | None = None
) -> Iterator[SecuredBroker]:
    """Runs a broker that lets in USER with that password, by PLAIN and SCRAM, with a certificate of the authority; at
    another port by the certificate alone.

    Args:
        folder: the folder for certificates and the broker's data.
        password: the password of USER.
        host: the name in its addresses and certificates.
        guarded: whether everything without an ACL is forbidden, except to clients of the open address.
        keys_url: the address of the keys that tokens of OAUTHBEARER are signed with.
    """
    if not (folder / "ca.pem").exists():
        make_authority(folder, "ca")
    make_authority(folder, "other-ca")
    make_authority(folder, "next-ca")
    make_certificate(folder, "broker", host)
    make_certificate(folder, "expired", host, days=-1)
    make_certificate(folder, "client", USER)
    make_certificate(folder, "next-client", USER, authority="next-ca")
    make_certificate(folder, "expired-client", USER, days=-1)
    plain, controller, secure, certified, expired = free_ports(5)
    bind = "127.0.0.1" if host == "localhost" else host
    escaped = password.replace("\\", "\\" * 4)  # once for JAAS, once for the properties file
    ports = {"SECURE": secure, "CERTIFIED": certified, "EXPIRED": expired}
    mechanisms = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512" + (",OAUTHBEARER" if keys_url else "")
    properties = {
        "listeners": f"BROKER://{bind}:{plain},CONTROLLER://127.0.0.1:{controller},"
        + ",".join(f"{name}://{bind}:{port}" for name, port in ports.items()),
        "advertised.listeners": f"BROKER://{bind}:{plain},"
        + ",".join(f"{name}://{host}:{port}" for name, port in ports.items()),
        "listener.security.protocol.map": "BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURE:SASL_SSL,CERTIFIED:SSL,"
        "EXPIRED:SSL",
        f"{_SECURE}.sasl.enabled.mechanisms": mechanisms,
        f"{_SECURE}.plain.sasl.jaas.config": f'{_PACKAGE}.plain.PlainLoginModule required user_{USER}="{escaped}";',
    }
    for kind in ("256", "512"):
        properties[f"{_SECURE}.scram-sha-{kind}.sasl.jaas.config"] = f"{_PACKAGE}.scram.ScramLoginModule required;"
    for name in ports:
        listener = f"listener.name.{name.lower()}"
        own = folder / ("expired-both.pem" if name == "EXPIRED" else "broker-both.pem")
        properties |= {
            f"{listener}.ssl.keystore.type": "PEM",
            f"{listener}.ssl.keystore.location": str(own),
            f"{listener}.ssl.truststore.type": "PEM",
            f"{listener}.ssl.truststore.location": str(folder / "ca.pem"),
            f"{listener}.ssl.client.auth": "required",
        }
    if guarded:
        properties |= {
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
        }
    if keys_url is not None:
        package, listener = f"{_PACKAGE}.oauthbearer", f"{_SECURE}.oauthbearer"
        properties |= {
            f"{listener}.sasl.jaas.config": f"{package}.OAuthBearerLoginModule required;",
            f"{listener}.sasl.server.callback.handler.class": f"{package}.OAuthBearerValidatorCallbackHandler",
            f"{listener}.sasl.oauthbearer.jwks.endpoint.url": keys_url,
        }
    node = Node(new_cluster_id(), 1, plain, controller)
    # Kafka asks for keys only where it is allowed to.
    java = {"JDK_JAVA_OPTIONS": f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={keys_url}"} if keys_url else {}
    broker = EmbeddedBroker(folder / "broker", node=node, properties=properties, host=bind)
    with patch.dict(os.environ, java):
        broker.start()
    try:
        open_to_all = KafkaConfig(broker.bootstrap_servers)
        secured = SecuredBroker(host, secure, certified, open_to_all, folder, expired)
        secured.set_password(password)
        yield secured
    finally:
        broker.stop()
