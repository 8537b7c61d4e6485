# SPDX-License-Identifier: Apache-2.0
"""A Kafka that asks who we are: it lets in every client of an app with the credentials that the manifest refers to, and
the password stays where it is."""

from __future__ import annotations

import base64
import contextlib
import json
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from lib.app import AppProcess, Load
from lib.broker import group_offsets, unique_name
from lib.faults import family
from lib.secured import USER, SecuredBroker, bindings_of, secured_broker
from lib.tokens import CLIENT, token_endpoint
from lib.verify import committed, verify_late
from lib.wait import until
from streamapp.cli.main import main
from streamapp.kafka.admin import Admin, TopicSpec
from streamapp_operator.observe.lag import Lags
from streamapp_operator.settings import Settings

pytestmark = pytest.mark.kafka

CANARY = "c4n4ry-s\\w#rd=7"
ANYWHERE = Settings(allowed_token_endpoints=("*",))


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    folder = tmp_path_factory.mktemp("secured")
    with (
        token_endpoint(folder, CANARY, USER) as tokens,
        secured_broker(folder, CANARY, guarded=True, keys_url=tokens.keys) as running,
    ):
        yield replace(running, tokens=tokens)


def write(
    secured: SecuredBroker,
    folder: Path,
    prefix: str,
    mechanism: str = "SCRAM-SHA-512",
    *,
    address: str | None = None,
    authority: str = "ca",
    user: str = USER,
    password: str = CANARY,
    own: str | None = "client",
    tokens_at: str = "localhost",
) -> Path:
    """Writes a manifest with state and without, and its files beside it."""
    for name in (
        "ca.pem",
        "other-ca.pem",
        *(f"{prefix}client.{kind}" for prefix in ("", "expired-", "next-") for kind in ("pem", "key")),
    ):
        (folder / name).write_text((secured.folder / name).read_text())
    (folder / "credentials").write_text(f"username={user}\npassword={password}\n")
    certificate = f", certificateFile: {own}.pem, keyFile: {own}.key" if own else ""
    tokens = ""
    if mechanism == "OAUTHBEARER":
        assert secured.tokens is not None
        (folder / "credentials").write_text(f"clientId={CLIENT}\nclientSecret={password}\n")
        endpoint = secured.tokens.endpoint.replace("localhost", tokens_at)
        tokens = f", tokenEndpoint: '{endpoint}', scope: kafka"
    manifest = folder / "app.yaml"
    manifest.write_text(f"""
apiVersion: streamapp.dev/v1alpha1
kind: StreamApp
metadata: {{name: {prefix}}}
spec:
  maxParallelism: 2
  kafka:
    bootstrapServers: {address or secured.address}
    tls: {{caFile: {authority}.pem{certificate}}}
    sasl: {{mechanism: {mechanism}, credentialsFile: credentials{tokens}}}
  topology:
  - {{name: numbers, stream: {{topic: {prefix}-numbers, value: {{format: json, schema: "n BIGINT, seq BIGINT"}}}}}}
  - {{name: totals, groupBy: [key], aggregate: {{count: count(*), total: sum(n), low: min(n), high: max(n)}}}}
  - {{name: totals-out, to: {{topic: {prefix}-totals}}}}
  - {{name: raw, stream: {{topic: {prefix}-numbers, value: text}}}}
  - {{name: echo-out, from: raw, to: {{topic: {prefix}-echo, value: text}}}}
""")
    return manifest


def allow_what_is_printed(secured: SecuredBroker, manifest: Path, capfd: pytest.CaptureFixture[str]) -> None:
    capfd.readouterr()
    assert main(["topics", str(manifest), "--acls", "--principal", f"User:{USER}"]) == 0
    secured.allow(bindings_of(capfd.readouterr().out))


def on_a_cluster(manifest: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The same app as a resource that scales, and the Secrets with the content of the files."""
    body = yaml.safe_load(manifest.read_text())
    body["metadata"] |= {"namespace": "default", "uid": "1", "generation": 1}
    body["spec"]["autoscaling"] = {"maxReplicas": 2}
    kafka = body["spec"]["kafka"]
    tls = kafka["tls"]
    kafka["tls"] = {"secretRef": {"name": "tls"}}
    del kafka["sasl"]["credentialsFile"]
    kafka["sasl"]["secretRef"] = {"name": "sasl"}
    files = {"ca.crt": "caFile", "tls.crt": "certificateFile", "tls.key": "keyFile"}
    given = {key: tls[name] for key, name in files.items() if name in tls}
    content = {key: (manifest.parent / name).read_text() for key, name in given.items()}
    sasl = dict(line.split("=", 1) for line in (manifest.parent / "credentials").read_text().splitlines())

    def secret(content: dict[str, str]) -> dict[str, Any]:
        return {"data": {key: base64.b64encode(text.encode()).decode() for key, text in content.items()}}

    return body, {"tls": secret(content), "sasl": secret(sasl)}


def command_lines(app: AppProcess) -> list[str]:
    """The command lines of the app's processes; a process that has ended but was not waited for has none."""
    lines = []
    for process in family(app):
        with contextlib.suppress(psutil.NoSuchProcess):
            lines.append(" ".join(process.cmdline()))
    return lines


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "mechanism", [pytest.param("SCRAM-SHA-256", marks=pytest.mark.chaos), "SCRAM-SHA-512", "PLAIN", "OAUTHBEARER"]
)
def test_every_client_is_let_in_and_nobody_tells_the_password(
    secured: SecuredBroker, tmp_path: Path, capfd: pytest.CaptureFixture[str], mechanism: str
) -> None:
    """The user that is let in is the one of the printed ACLs, so these are enough."""
    prefix = unique_name("secured")
    topics = {name: f"{prefix}-{name}" for name in ("numbers", "totals", "echo")}
    Admin(secured.open).create([TopicSpec(topic, "test", 2) for topic in topics.values()])
    load = Load(secured.open, prefix, 901, rate=100, keys=20, ticks=False)
    load.send(500)
    manifest = write(secured, tmp_path, prefix, mechanism)
    allow_what_is_printed(secured, manifest, capfd)
    app = AppProcess(manifest, tmp_path / "state", None, tmp_path / "log")
    told: list[str] = []
    try:
        app.await_work()
        until(lambda: app.status().get("totalLag") == 0, 60, "no lag")
        group = group_offsets(secured.open, prefix, topics["numbers"])
        position, why = Lags(settings=ANYWHERE).of(*on_a_cluster(tmp_path / "app.yaml"))
        assert position is not None, why
        assert position.produced == position.consumed == 500
        told += (commands := command_lines(app))
        assert {"python", "java"} <= {Path(command.split()[0]).name.rstrip("0123456789.") for command in commands}
        url = json.loads((app.state_dir / "app.json").read_text())["url"]
        for page in ("status", "metrics"):
            with urllib.request.urlopen(f"{url}/{page}", timeout=10) as answer:
                told.append(answer.read().decode())
        app.stop()
    finally:
        app.end()
    outputs = {name: topics[name] for name in ("totals", "echo")}
    verify_late(secured.open, outputs, load.history)
    assert sum(group.values()) == 500
    told.append(app.said)
    own = (path for path in (tmp_path / "state").rglob("*") if path.is_file())
    told += [path.read_text(errors="replace") for path in own if path.name != "kafka-client.properties"]
    told += [str((m.key(), m.value())) for m in committed(secured.open, f"{prefix}-metadata")]
    assert len(told) > 20
    assert CANARY.split("\\")[0] in (tmp_path / "state" / "kafka-client.properties").read_text()
    assert not [text for text in told if CANARY.split("\\")[0] in text]


CAUSES = {
    "password": "it does not accept the credentials (",
    "client": 'the endpoint of tokens has none for us ({"error": "invalid_client"}); check kafka.sasl: tokenEndpoint,',
    "token-authority": "the endpoint of tokens has none for us (SSL certificate OpenSSL verify result: unable to get",
    "token-name": "the endpoint of tokens has none for us (SSL: no alternative certificate subject name matches",
    "authority": "the TLS handshake failed: the broker's certificate is signed by an authority that we do not know; "
    "give the certificate of that authority (kafka.tls: `ca.crt` of the Secret, or `caFile`)",
    "name": "the TLS handshake failed: the broker's certificate is not for the name 127.0.0.1; connect by a name that",
    "expired": "the TLS handshake failed: the broker's certificate has expired; have it renewed",
    "none": "the TLS handshake failed: the broker wants a certificate of ours, and there is none; give one and its key",
    "ours-expired": "the TLS handshake failed: our certificate has expired, on ",
    "ours-unknown": "the TLS handshake failed: the broker does not accept our certificate, mostly because it does not "
    "know the authority that has signed it; have the brokers trust that authority, or give another certificate",
    "no-tls": "the TLS handshake failed: the server at 127.0.0.1:",
    "host": "the host name is unknown",
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("wrong", "causes"),
    [
        ({"password": "wr0ng-s3cret"}, {"password"}),
        ({"user": "eve"}, {"password"}),
        ({"password": "wr0ng-s3cret", "mechanism": "OAUTHBEARER"}, {"client"}),
        ({"authority": "other-ca", "mechanism": "OAUTHBEARER"}, {"token-authority"}),
        ({"tokens_at": "127.0.0.1", "mechanism": "OAUTHBEARER"}, {"token-name"}),
        ({"address": "expired"}, {"expired"}),
        ({"own": None}, {"none"}),
        ({"own": "expired-client"}, {"ours-expired"}),
        ({"own": "next-client"}, {"ours-unknown"}),
        ({"authority": "other-ca"}, {"authority"}),
        ({"address": "wrong_name"}, {"name"}),
        ({"address": "open_address"}, {"no-tls"}),
        ({"address": "no-such-host.invalid:9093"}, {"host"}),
    ],
    ids=[
        "password",
        "user",
        "token",
        "token-authority",
        "token-name",
        "expired",
        "no-certificate",
        "own-expired",
        "own-unknown",
        "authority",
        "name-in-certificate",
        "no-tls",
        "host",
    ],
)
def test_what_is_wrong_is_told(
    secured: SecuredBroker, tmp_path: Path, capfd: pytest.CaptureFixture[str], wrong: dict[str, Any], causes: set[str]
) -> None:
    """The app and the operator report it, each cause in words of its own."""
    if "address" in wrong:
        wrong = {"address": getattr(secured, wrong["address"], wrong["address"])}
    manifest = write(secured, tmp_path, unique_name("wrong"), **wrong)
    assert main(["run", str(manifest), "--state-dir", str(tmp_path / "state")]) == 3
    error = capfd.readouterr().err
    assert len(error.splitlines()) == 1
    position, why = Lags(settings=ANYWHERE).of(*on_a_cluster(manifest))
    assert position is None
    for told in (error, why):
        assert "wr0ng" not in told
        assert {cause for cause, words in CAUSES.items() if words in told} == causes, told
        assert ("check mechanism, user and password" in told) == (causes == {"password"})


@pytest.mark.timeout(120)
def test_commands_beside_a_run_are_let_in_with_it(
    secured: SecuredBroker, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    prefix = unique_name("beside")
    manifest = write(secured, tmp_path, prefix)
    allow_what_is_printed(secured, manifest, capfd)
    for topic in ("numbers", "totals", "echo"):  # no other process makes them here
        words = f"--allow-principal User:{USER} --operation Create --topic {prefix}-{topic}"
        secured.allow(bindings_of(f"kafka-acls --add {words}"))
    assert main(["topics", str(manifest), "--create"]) == 0
    app = AppProcess(manifest, tmp_path / "state", None, tmp_path / "log")
    try:
        until(app.status, 60, "the app runs")
        capfd.readouterr()
        secured.allow(
            bindings_of(  # each reading is a group of its own
                f"kafka-acls --add --allow-principal User:{USER} --operation Read --group streamapp-console- "
                "--resource-pattern-type prefixed"
            )
        )
        options = ["--state-dir", str(tmp_path / "state"), "--max", "1", "--timeout", "10", "--from-beginning"]
        assert main(["consume", f"{prefix}-metadata", *options]) == 0
        assert capfd.readouterr().out
    finally:
        app.end()
