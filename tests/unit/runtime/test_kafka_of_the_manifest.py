# SPDX-License-Identifier: Apache-2.0
"""The manifest's `kafka.tls` and `kafka.sasl` as settings of clients, and what is wrong with their files."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamapp.errors import InputError
from streamapp.kafka.secured import config_of
from streamapp.plan import KafkaSettings

CERTIFICATE = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
KEY = CERTIFICATE.replace("CERTIFICATE", "PRIVATE KEY")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    files = {
        "ca.pem": CERTIFICATE,
        "me.pem": CERTIFICATE,
        "key.pem": KEY,
        "old-key.pem": CERTIFICATE.replace("CERTIFICATE", "RSA PRIVATE KEY"),
        "user": "# who\nusername=ada\npassword = c\\n=a  \n",
        "half": "username=ada\nCANARY\n",
        "empty.pem": "",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    return tmp_path


def test_everything(folder: Path) -> None:
    settings = KafkaSettings("k:9", True, "ca.pem", "me.pem", "key.pem", None, "SCRAM-SHA-512", "user")
    config = config_of(settings, folder)
    assert config.bootstrap_servers == "k:9"
    assert config.properties == {
        "security.protocol": "SASL_SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": CERTIFICATE,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": CERTIFICATE,
        "ssl.keystore.key": KEY,
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "ada",
        "sasl.password": "c\\n=a",  # as it stands there
    }


def test_each_by_itself(folder: Path) -> None:
    assert config_of(KafkaSettings("k:9"), folder).properties == {}
    assert config_of(KafkaSettings("k:9", tls=True), folder).properties == {"security.protocol": "SSL"}
    plain = KafkaSettings("k:9", sasl_mechanism="PLAIN", credentials_file="user")
    assert config_of(plain, folder).properties["security.protocol"] == "SASL_PLAINTEXT"
    assert config_of(plain, folder, "other:1").bootstrap_servers == "other:1"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (KafkaSettings("k:9", True, "none.pem"), r"spec\.kafka\.tls\.caFile: .*none\.pem cannot be read: No such file"),
        (KafkaSettings("k:9", True, "empty.pem"), r"tls\.caFile: empty\.pem has no PEM block .*BEGIN CERTIFICATE"),
        (KafkaSettings("k:9", True, "binary"), r"tls\.caFile: binary is not UTF-8 text"),
        (KafkaSettings("k:9", True, certificate_file="me.pem"), "certificateFile and keyFile go together"),
        (
            KafkaSettings("k:9", True, certificate_file="me.pem", key_file="old-key.pem"),
            r"tls\.keyFile: old-key\.pem .*openssl pkcs8 -topk8",
        ),
        (
            KafkaSettings("k:9", sasl_mechanism="OAUTHBEARER", credentials_file="user", token_endpoint="https://t"),
            "must have exactly the lines clientId=… and clientSecret=…",
        ),
        (KafkaSettings("k:9", True, tls_secret="s"), r"tls\.secretRef: Secret 's' is in a cluster; here, write caFile"),
        (KafkaSettings("k:9", sasl_mechanism="PLAIN"), "credentialsFile"),
        (KafkaSettings("k:9", sasl_mechanism="PLAIN", sasl_secret="s"), r"sasl\.secretRef: Secret 's' is in a cluster"),
        (KafkaSettings("k:9", sasl_mechanism="PLAIN", credentials_file="half"), "must have exactly the lines username"),
        (KafkaSettings(), r"bootstrapServers is missing"),
    ],
)
def test_what_is_wrong_is_told_by_its_field(folder: Path, settings: KafkaSettings, said: str) -> None:
    with pytest.raises(InputError, match=said) as caught:
        config_of(settings, folder)
    assert "CANARY" not in str(caught.value)
