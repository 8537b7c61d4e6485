# SPDX-License-Identifier: Apache-2.0
"""Settings for Kafka that no client can be made with: the error names them, and says what is wrong with each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lib.secured import make_authority
from streamapp.errors import RunError
from streamapp.kafka.admin import Admin
from streamapp.kafka.config import KafkaConfig
from streamapp.kafka.group import GroupPosition
from streamapp.kafka.ownership import read_ownership

GARBAGE = "-----BEGIN {0}-----\nhello\n-----END {0}-----\n"
CERTIFICATE, KEY, CA = "ssl.keystore.certificate.chain", "ssl.keystore.key", "ssl.truststore.certificates"
CLIENTS: list[Callable[[KafkaConfig], object]] = [
    Admin,
    lambda kafka: GroupPosition(kafka, "group"),
    lambda kafka: read_ownership(kafka, "app-metadata", "app"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("certificates")
    for name in ("ours", "other"):
        make_authority(made, name)
    return made


@pytest.mark.parametrize("make", CLIENTS, ids=["admin", "group", "owner"])
@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({KEY: "other.key"}, "the private key does not belong to the certificate"),
        ({KEY: GARBAGE.format("PRIVATE KEY")}, "the private key cannot be read"),
        ({CERTIFICATE: GARBAGE.format("CERTIFICATE")}, "our certificate cannot be read"),
        ({CA: GARBAGE.format("CERTIFICATE")}, "the certificate of the authority cannot be read"),
    ],
    ids=["mismatch", "key", "certificate", "authority"],
)
def test_it_is_told_what_is_wrong(
    folder: Path, make: Callable[[KafkaConfig], object], changed: dict[str, str], words: str
) -> None:
    given = {CERTIFICATE: "ours.pem", KEY: "ours.key", CA: "ours.pem"} | changed
    contents = {name: (folder / value).read_text() if len(value) < 20 else value for name, value in given.items()}
    types = {"ssl.keystore.type": "PEM", "ssl.truststore.type": "PEM", "security.protocol": "SSL"}
    with pytest.raises(RunError) as raised:
        make(KafkaConfig("127.0.0.1:1", {**types, **contents}))
    assert f"the settings for Kafka at 127.0.0.1:1 cannot be used: {words}" in str(raised.value)
    assert contents[KEY].splitlines()[1] not in str(raised.value)
