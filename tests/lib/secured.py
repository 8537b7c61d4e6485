# SPDX-License-Identifier: Apache-2.0
"""A broker that lets in only whom it knows, over TLS, with an authority of its own."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from streamapp.kafka.broker import EmbeddedBroker, Node, new_cluster_id
from streamapp.kafka.config import KafkaConfig
from streamapp.kafka.ports import free_ports

USER = "ada"
LISTENER = "listener.name.secure"


@dataclass(frozen=True)
class SecuredBroker:
    """Its address for those with credentials, and one that asks for none, by which a test looks."""

    port: int
    open: KafkaConfig
    folder: Path
    """With `ca.pem`, and `other-ca.pem`, of an authority that has signed nothing."""

    @property
    def address(self) -> str:
        return f"localhost:{self.port}"

    @property
    def wrong_name(self) -> str:
        """The same, by a name that its certificate has not."""
        return f"127.0.0.1:{self.port}"


def openssl(folder: Path, *words: str) -> None:
    subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True, timeout=60)


def make_authority(folder: Path, name: str) -> None:
    """NAME.pem and NAME.key."""
    openssl(folder, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}",
            "-keyout", f"{name}.key", "-out", f"{name}.pem")  # fmt: skip


def make_certificate(folder: Path, name: str, host: str) -> None:
    """NAME.pem and NAME.key, signed by the authority `ca`."""
    (folder / f"{name}.ext").write_text(f"subjectAltName=DNS:{host}\n")
    openssl(folder, "req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={host}", "-keyout", f"{name}.key",
            "-out", f"{name}.csr")  # fmt: skip
    openssl(folder, "x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
            "-days", "2", "-extfile", f"{name}.ext", "-out", f"{name}.pem")  # fmt: skip


@contextmanager
def secured_broker(folder: Path, password: str) -> Iterator[SecuredBroker]:
    """Lets in USER with that password, by PLAIN and SCRAM-SHA-512, on showing a certificate of the authority."""
    make_authority(folder, "ca")
    make_authority(folder, "other-ca")
    make_certificate(folder, "broker", "localhost")
    make_certificate(folder, "client", "ada")
    (folder / "broker-both.pem").write_text((folder / "broker.key").read_text() + (folder / "broker.pem").read_text())
    plain, controller, secure = free_ports(3)
    escaped = password.replace("\\", "\\" * 4)  # once for JAAS, once for the properties file
    properties = {
        "listeners": f"BROKER://127.0.0.1:{plain},CONTROLLER://127.0.0.1:{controller},SECURE://127.0.0.1:{secure}",
        "advertised.listeners": f"BROKER://127.0.0.1:{plain},SECURE://localhost:{secure}",
        "listener.security.protocol.map": "BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURE:SASL_SSL",
        f"{LISTENER}.ssl.keystore.type": "PEM",
        f"{LISTENER}.ssl.keystore.location": str(folder / "broker-both.pem"),
        f"{LISTENER}.ssl.truststore.type": "PEM",
        f"{LISTENER}.ssl.truststore.location": str(folder / "ca.pem"),
        f"{LISTENER}.ssl.client.auth": "required",
        f"{LISTENER}.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        f"{LISTENER}.plain.sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'user_{USER}="{escaped}";',
        f"{LISTENER}.scram-sha-512.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule "
        "required;",
    }
    node = Node(new_cluster_id(), 1, plain, controller)
    with EmbeddedBroker(folder / "broker", node=node, properties=properties) as broker:
        open_to_all = KafkaConfig(broker.bootstrap_servers)
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        change = UserScramCredentialUpsertion(USER, info, password.encode())
        admin = AdminClient({**open_to_all.for_librdkafka()})
        admin.alter_user_scram_credentials([change])[USER].result(30)
        yield SecuredBroker(secure, open_to_all, folder)
