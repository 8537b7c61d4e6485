# SPDX-License-Identifier: Apache-2.0
"""Secrets that an app's `kafka` names: the settings from them, their mistakes, and that no message has their
content."""

from __future__ import annotations

import base64
import json
import ssl
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from streamapp.errors import ManifestError
from streamapp.kafka import config
from streamapp.kafka.config import KafkaConfig, parse_properties
from streamapp.plan import KafkaSettings
from streamapp_operator.manifest.app import read_app
from streamapp_operator.manifest.kafka_login import (
    DIRECTORY,
    Keys,
    UnusableSecret,
    assumed_login,
    config_of,
    login_of,
    named_secrets,
    open_secrets,
)
from streamapp_operator.render import Credentials, render
from streamapp_operator.render.meta import TEMPLATE_ANNOTATION
from streamapp_operator.settings import Settings

CERTIFICATE = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
KEY = CERTIFICATE.replace("CERTIFICATE", "PRIVATE KEY")
CANARY = "c4n4ry"
SCRAM = KafkaSettings("k:9093", tls=True, tls_secret="ca", sasl_mechanism="SCRAM-SHA-512", sasl_secret="user")


def secret(**data: str) -> dict[str, Any]:
    return {"data": {key.replace("_", "."): base64.b64encode(value.encode()).decode() for key, value in data.items()}}


def all_of_it() -> dict[str, Any]:
    return {"ca": secret(ca_crt=CERTIFICATE), "user": secret(username="ada", password=f"{CANARY}\n", other="x")}


def test_a_laptop_and_a_pod_get_the_same_settings(tmp_path: Path) -> None:
    keys = open_secrets(SCRAM, all_of_it(), "shop")
    login = login_of(SCRAM, keys, "seal")
    (tmp_path / "secrets").mkdir()
    for file in login.files:
        (tmp_path / file.path).write_bytes(base64.b64decode(all_of_it()[file.secret]["data"][file.key]))
    (tmp_path / "client.properties").write_text(login.properties.replace(DIRECTORY, str(tmp_path)))
    in_the_pod = KafkaConfig.load("k:9093", tmp_path / "client.properties")
    here = config_of(SCRAM, keys, Settings())
    assert {**in_the_pod.properties, "ssl.truststore.certificates": CERTIFICATE} == here.properties
    assert here.properties == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "ada",
        "sasl.password": CANARY,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": CERTIFICATE,
    }
    assert [(file.secret, file.key) for file in login.files] == [
        ("ca", "ca.crt"),
        ("user", "username"),
        ("user", "password"),
    ]


def test_nothing_of_a_secret_is_told() -> None:
    keys = open_secrets(SCRAM, all_of_it(), "shop")
    assert CANARY not in f"{login_of(SCRAM, keys, 'seal')} {keys!r} {config_of(SCRAM, keys, Settings())!r}"


def test_the_mark_changes_with_the_content_and_is_no_use_to_those_who_guess() -> None:
    keys = open_secrets(SCRAM, all_of_it(), "shop")
    mark = login_of(SCRAM, keys, "seal").mark
    assert login_of(SCRAM, keys, "seal").mark == mark
    assert login_of(SCRAM, keys, "another").mark != mark
    assert login_of(SCRAM, Keys(keys.tls, {**keys.sasl, "password": "new"}), "seal").mark != mark


def test_what_strimzi_makes_is_taken_as_it_is() -> None:
    jaas = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="u" password="p";'
    found = {**all_of_it(), "user": secret(password="p", sasl_jaas_config=jaas)}
    keys = open_secrets(SCRAM, found, "shop")
    assert dict(keys.sasl) == {"sasl.jaas.config": jaas}
    assert config_of(SCRAM, keys, Settings()).for_librdkafka()["sasl.username"] == "u"


def test_a_client_of_oauth() -> None:
    settings = KafkaSettings("k:9", sasl_mechanism="OAUTHBEARER", sasl_secret="c", token_endpoint="https://x/t")
    keys = open_secrets(settings, {"c": secret(clientId="app", clientSecret=CANARY)}, "shop")
    found = config_of(settings, keys, Settings(allowed_token_endpoints=("*",))).for_librdkafka()
    found.pop("https.ca.pem", None)  # the system's
    assert found == {
        "bootstrap.servers": "k:9",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "app",
        "sasl.oauthbearer.client.secret": CANARY,
        "sasl.oauthbearer.token.endpoint.url": "https://x/t",
    }


@pytest.mark.parametrize("ours", [True, False])
@pytest.mark.parametrize("public", [True, False])
def test_who_vouches_for_the_endpoint_of_tokens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ours: bool, public: bool
) -> None:
    """Kafka's authority, and the system's: the place of these must not depend on where librdkafka was built."""
    bundle = tmp_path / "bundle.crt"
    bundle.write_text("public")
    monkeypatch.setattr(ssl, "get_default_verify_paths", lambda: SimpleNamespace(cafile=None))
    monkeypatch.setattr(config, "_BUNDLES", (str(tmp_path / "none"), str(bundle)) if public else ())
    properties = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": "https://x/t",
        "sasl.oauthbearer.client.credentials.client.id": "app",
        "sasl.oauthbearer.client.credentials.client.secret": CANARY,
    } | ({"ssl.truststore.type": "PEM", "ssl.truststore.certificates": "ours"} if ours else {})
    told = KafkaConfig("k:9", properties).for_librdkafka().get("https.ca.pem", "")
    assert told.split() == [*["ours"] * ours, *["public"] * public]
    properties["sasl.oauthbearer.token.endpoint.url"] = "http://x/t"
    assert "https.ca.pem" not in KafkaConfig("k:9", properties).for_librdkafka()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (
            {"user": None},
            "Secret 'user' of spec.kafka.sasl is not in namespace 'shop'; make it: kubectl -n shop create secret "
            "generic user --from-file=username=FILE --from-file=password=FILE",
        ),
        ({"ca": None}, "create secret generic ca --from-file=ca.crt=FILE"),
        (
            {"user": secret(username="ada")},
            "Secret 'user' of spec.kafka.sasl has no key 'password'; make it anew: kubectl -n shop create secret "
            "generic user --from-file=username=FILE --from-file=password=FILE --dry-run=client -o yaml | "
            "kubectl apply -f -",
        ),
        ({"user": secret(password=CANARY)}, "has no key 'username'"),
        ({"user": secret(username="ada", password="")}, "has no key 'password'"),
        ({"ca": secret(note="x")}, "Secret 'ca' of spec.kafka.tls has no key 'ca.crt'"),
        ({"ca": secret(tls_crt=CERTIFICATE)}, "has no key 'tls.key'"),
        ({"ca": secret(tls_key=KEY)}, "has no key 'tls.crt'"),
        ({"ca": secret(ca_crt=CANARY)}, "Secret 'ca' of spec.kafka.tls: key 'ca.crt' has no PEM block"),
        ({"ca": secret(tls_crt=CERTIFICATE, tls_key=KEY.replace("PRIV", "RSA PRIV"))}, "openssl pkcs8 -topk8 -nocrypt"),
        ({"user": {"data": {"username": "YQ==", "password": "//4="}}}, "key 'password' is not UTF-8 text"),
    ],
)
def test_what_is_wrong_is_told_with_what_to_type(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(UnusableSecret) as caught:
        open_secrets(SCRAM, {**all_of_it(), **changed}, "shop")
    assert said in str(caught.value)
    assert CANARY not in str(caught.value)


def test_which_secrets_are_read_at_all() -> None:
    kafka = {"tls": {"secretRef": {"name": "ca"}}, "sasl": {"secretRef": {"name": "user"}}}
    assert named_secrets({"spec": {"kafka": kafka}}) == {"ca", "user"}
    number = {"tls": {"secretRef": {"name": 1}}}
    wrong: list[dict[str, Any]] = [{}, {"spec": {}}, {"spec": {"kafka": None}}, {"spec": {"kafka": number}}]
    assert [named_secrets(body) for body in wrong] == [set()] * 4


def resource(**kafka: Any) -> dict[str, Any]:
    topology = [{"name": "in", "stream": {"topic": "a"}}, {"name": "out", "to": {"topic": "b"}}]
    return {
        "apiVersion": "streamapp.dev/v1alpha1",
        "kind": "StreamApp",
        "metadata": {"name": "copy", "namespace": "shop", "uid": "u"},
        "spec": {"kafka": {"bootstrapServers": "k:9093", **kafka}, "topology": topology},
    }


SECURED: dict[str, Any] = {
    "tls": {"secretRef": {"name": "ca"}},
    "sasl": {"mechanism": "SCRAM-SHA-512", "secretRef": {"name": "user"}},
}


def test_another_password_is_another_driver_and_nothing_else_changes() -> None:
    app = read_app(resource(**SECURED))
    keys = open_secrets(app.plan.kafka, all_of_it(), "shop")
    changed = Keys(keys.tls, {**keys.sasl, "password": "new"})
    before, after = (
        render(replace(app, login=login_of(app.plan.kafka, each, "r")), Settings(), Credentials("t", "r"))
        for each in (keys, changed)
    )
    differ = [old["kind"] for old, new in zip(before, after, strict=True) if old != new]
    assert differ == ["StatefulSet"]
    marks = [
        item["spec"]["template"]["metadata"]["annotations"][TEMPLATE_ANNOTATION]
        for item in (*before, *after)
        if item["kind"] == "StatefulSet"
    ]
    assert marks[0] != marks[1]
    assert CANARY not in json.dumps(before)


def test_without_a_look_into_secrets_all_keys_are_assumed() -> None:
    app = read_app(resource(**SECURED))
    (config,) = [item for item in render(app, Settings(), Credentials("t", "r")) if item["kind"] == "ConfigMap"]
    assert config["data"]["kafka-client.properties"] == assumed_login(app.plan.kafka).properties
    written = parse_properties(config["data"]["kafka-client.properties"])
    assert written["ssl.keystore.key"] == "${directory:/etc/streamapp/kafka/secrets:tls.key}"
    assert written["streamapp.secrets.folder"] == "/etc/streamapp/kafka/secrets"


OAUTH = {"mechanism": "OAUTHBEARER", "secretRef": {"name": "s"}, "tokenEndpoint": "https://h/t"}


@pytest.mark.parametrize(
    ("kafka", "said"),
    [
        ({"tls": {"caFile": "ca.pem"}}, "`kafka.tls`: files are for a laptop; on a cluster, add secretRef"),
        ({"sasl": {"mechanism": "PLAIN", "credentialsFile": "f"}}, "`kafka.sasl`: `secretRef` is missing; on a"),
        ({"sasl": {"mechanism": "OAUTHBEARER", "secretRef": {"name": "s"}}}, "`tokenEndpoint` is missing"),
        (
            {"sasl": {"mechanism": "PLAIN", "secretRef": {"name": "s"}, "scope": "x"}},
            "`tokenEndpoint` and `scope` are for OAUTHBEARER",
        ),
        (
            {"sasl": {"mechanism": "OAUTHBEARER", "secretRef": {"name": "s"}, "tokenEndpoint": "login"}},
            "'login' is not the address of a page",
        ),
        *(
            ({"sasl": {**OAUTH, "scope": scope}}, "is no scope; write words of letters")
            for scope in ("${directory:/var/run/secrets:token}", "a\rb=c", "a\u2028b", "a" * 1001)
        ),
        ({"sasl": {**OAUTH, "tokenEndpoint": "https://h/${env:HOME}"}}, "is not the address of a page"),
        ({"sasl": {**OAUTH, "tokenEndpoint": "https://h/\u0085x=y"}}, "is not the address of a page"),
        ({"bootstrapServers": "$(id):9092"}, "is not HOST:PORT"),
        ({"bootstrapServers": "a:1,\nb:2"}, "is not HOST:PORT"),
        ({"tls": {"caFile": "ca\npem", "secretRef": {"name": "s"}}}, "is no path of a file"),
    ],
)
def test_a_manifest_that_no_pod_could_use(kafka: dict[str, Any], said: str) -> None:
    with pytest.raises(ManifestError) as caught:
        read_app(resource(**kafka))
    assert said in str(caught.value)


def test_a_manifest_may_say_both_for_a_laptop_and_a_cluster() -> None:
    both = {**SECURED, "tls": {"caFile": "ca.pem", **SECURED["tls"]}}
    assert read_app(resource(**both)).plan.kafka.tls_secret == "ca"
