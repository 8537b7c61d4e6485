# SPDX-License-Identifier: Apache-2.0
"""One set of Kafka settings for two clients."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from streamapp.errors import InputError
from streamapp.kafka.config import KafkaConfig, parse_properties

SCRAM = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.username": "ada",
    "sasl.password": 'p"w\\d',
    "ssl.truststore.type": "PEM",
    "ssl.truststore.location": "/ca.pem",
}


def test_plain() -> None:
    config = KafkaConfig("a:9092,[::1]:9093")
    assert config.for_librdkafka() == {"bootstrap.servers": "a:9092,[::1]:9093"}


def test_password_login() -> None:
    config = KafkaConfig("a:1", SCRAM)
    assert config.for_librdkafka() == {
        "bootstrap.servers": "a:1",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "ada",
        "sasl.password": 'p"w\\d',
        "ssl.ca.location": "/ca.pem",
    }


def test_the_java_form_of_a_login_is_understood() -> None:
    java = {name: value for name, value in SCRAM.items() if name not in ("sasl.username", "sasl.password")}
    java["sasl.jaas.config"] = (
        "org.apache.kafka.common.security.scram.ScramLoginModule required "
        r'username="ada" password="p\"w\\d";'
    )
    assert KafkaConfig("a:1", java).for_librdkafka() == KafkaConfig("a:1", SCRAM).for_librdkafka()


def test_own_certificate() -> None:
    pem = {"security.protocol": "SSL", "ssl.keystore.type": "PEM", "ssl.keystore.location": "/me.pem"}
    assert KafkaConfig("a:1", pem).for_librdkafka() == {
        "bootstrap.servers": "a:1",
        "security.protocol": "SSL",
        "ssl.certificate.location": "/me.pem",
        "ssl.key.location": "/me.pem",
    }


def test_secrets_are_not_shown() -> None:
    shown = repr(KafkaConfig("a:1", {**SCRAM, "ssl.keystore.key": "PRIVATE"}))
    assert "ada" in shown
    assert SCRAM["sasl.password"] not in shown
    assert "PRIVATE" not in shown


@pytest.mark.parametrize("password", ['p"w\\d', "a\\nb", "ends in \\", "${x}", "#1", "k=v:w", "zoë"])
def test_what_is_written_is_read_back_and_nobody_else_can(tmp_path: Path, password: str) -> None:
    config = KafkaConfig("a:1", {**SCRAM, "sasl.password": password, "ssl.keystore.key": "line one\nline two"})
    file = tmp_path / "client.properties"
    config.write(file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert KafkaConfig.load("a:1", file) == config


def test_a_value_may_be_in_a_file_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("p\\w\n")
    file = tmp_path / "client.properties"
    file.write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.username=ada\n"
        f"sasl.password=${{directory:{tmp_path}:password}}\n"
    )
    assert KafkaConfig.load("a:1", file).properties["sasl.password"] == "p\\w"
    (tmp_path / "password").unlink()
    with pytest.raises(InputError, match=r"client\.properties: cannot be read: No such file"):
        KafkaConfig.load("a:1", file)


def test_properties_format() -> None:
    text = "# one\n! two\n\na=1\nb: 2\nc 3\n  d  =  four = 4  \ne=long \\\n   line\nf=\n"
    assert parse_properties(text) == {
        "a": "1",
        "b": "2",
        "c": "3",
        "d": "four = 4  ",
        "e": "long line",
        "f": "",
    }


def test_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=b:2\nsecurity.protocol=SSL\n")
    assert KafkaConfig.load(None, file) == KafkaConfig("b:2", {"security.protocol": "SSL"})
    assert KafkaConfig.load("a:1", file).bootstrap_servers == "a:1"


@pytest.mark.parametrize(
    ("servers", "properties", "complaint"),
    [
        ("localhost", {}, "'localhost' is not HOST:PORT; write for example localhost:9092"),
        ("a:1,", {}, "'' is not HOST:PORT"),
        ("a:99999", {}, "'a:99999' is not HOST:PORT"),
        ("a:1", {"sasl.usrname": "x"}, "sasl.usrname is not .* did you mean sasl.username?"),
        ("a:1", {"isolation.level": "read_uncommitted"}, "isolation.level is not a setting about connecting"),
        ("a:1", {"security.protocol": "TLS"}, "security.protocol is 'TLS'; it must be one of PLAINTEXT, SSL"),
        (
            "a:1",
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"},
            "needs sasl.username and sasl.password",
        ),
        (
            "a:1",
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"},
            r"OAUTHBEARER needs sasl\.oauthbearer\.token\.endpoint\.url, .*client\.id, .*client\.secret",
        ),
        ("a:1", {"security.protocol": "SASL_SSL"}, r"sasl.mechanism is GSSAPI .* must be one of PLAIN"),
        ("a:1", {"ssl.truststore.location": "/x.jks"}, r"ssl.truststore.type is JKS .* as PEM"),
        (
            "a:1",
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.jaas.config": "x"},
            "sasl.jaas.config must say username",
        ),
    ],
)
def test_what_cannot_work_is_refused_by_name(servers: str, properties: dict[str, str], complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        KafkaConfig(servers, properties)


def test_no_address_at_all(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("security.protocol=SSL\n")
    with pytest.raises(InputError, match="no Kafka address: name one with --bootstrap-servers"):
        KafkaConfig.load(None, file)
    with pytest.raises(InputError, match=r"missing\.properties: cannot be read: No such file"):
        KafkaConfig.load(None, tmp_path / "missing.properties")
