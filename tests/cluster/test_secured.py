# SPDX-License-Identifier: Apache-2.0
"""An app on a Kafka that asks who we are and forbids everything without an ACL: from a missing Secret to one that
changes under load. The Secret's content is nowhere else."""

from __future__ import annotations

import base64
import json
from contextlib import suppress
from pathlib import Path

import pytest

from cluster.access import CommandFailed
from cluster.app import App
from cluster.install import NAME as OPERATOR
from cluster.namespace import Namespace
from lib.app import ECHO, TOTALS, Bench
from lib.faults import require_work
from lib.secured import USER, bindings_of, secured_broker
from lib.verify import Proof, committed
from lib.wait import until
from streamapp.cli.main import main
from streamapp_operator.manifest.kafka_login import DIRECTORY

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

WRONG, FIRST, SECOND = "c4n4ry-wr0ng", "c4n4ry-one\\w#rd=7", "c4n4ry-two"
NEEDLE = "c4n4ry"
OPERATORS = f"deployment/{OPERATOR}"
LOOK = """
import glob, os, sys
needles = sys.stdin.buffer.read().splitlines()
files = glob.glob("/proc/[0-9]*/cmdline") + glob.glob("/proc/[0-9]*/environ") + ["/dev/termination-log"]
for place in ("/tmp", "/var/lib/streamapp", "/etc/streamapp"):
    files += [os.path.join(folder, name) for folder, _, names in os.walk(place) for name in names]
for file in files:
    try:
        content = open(file, "rb").read()
        if any(needle in content for needle in needles):
            print(file)
    except OSError:
        pass
"""
"""A program that prints which files of a pod have one of the lines on stdin; for /proc, the command lines and
environments of processes."""


LET_IN_BY = (("Secret", "kafka-user"), ("Secret", "kafka-tls"))


class Secured(App):
    """The app, and the Secrets with its credentials."""

    def put_password(self, password: str) -> None:
        data = {"username": USER, "password": password}
        self._put("kafka-user", {key: value.encode() for key, value in data.items()})

    def put_certificate(self, folder: Path, name: str) -> None:
        """Puts a certificate, and the authority that has signed the broker's, into the Secret."""
        names = {"ca.crt": "ca.pem", "tls.crt": f"{name}.pem", "tls.key": f"{name}.key"}
        self._put("kafka-tls", {key: (folder / name).read_bytes() for key, name in names.items()})

    def _put(self, secret: str, data: dict[str, bytes]) -> None:
        encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
        self.namespace.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": secret}, "data": encoded})

    def await_lag_is_read(self) -> None:
        """Waits until the operator reads the lag; it uses the same Secrets."""
        self._until(lambda: self.condition("ScalingActive").get("status") == "True", 60, "lag is read")

    def pods(self) -> list[str]:
        return [f"{self.name}-driver-0", *self.executors()]

    def files_with(self, pod: str, *texts: str) -> list[str]:
        command = ("exec", "-i", pod, "--", "python3", "-c", LOOK)
        return self.namespace.kubectl(*command, stdin="\n".join(texts)).split()


def needles(folder: Path) -> list[str]:
    """Texts that show the password, or the client's private key."""
    return [NEEDLE, (folder / "client.key").read_text().splitlines()[2]]


def encoded(folder: Path) -> list[str]:
    """The same texts as a Secret encodes them, without the last characters, which depend on what follows."""
    passwords = [base64.b64encode(word.encode()).decode().rstrip("=")[:-1] for word in (WRONG, FIRST)]
    return [*passwords, base64.b64encode((folder / "client.key").read_bytes()).decode()[100:200]]


def require_told_nowhere(app: Secured, folder: Path, *pages: str) -> None:
    """Raises if the passwords or the private key are shown anywhere; `pages` of the live interface are checked, too."""
    told = everything_told(app, *pages)
    hidden = needles(folder) + encoded(folder)
    assert [name for name, text in told.items() if any(word in text for word in hidden)] == []


def everything_told(app: Secured, *pages: str) -> dict[str, str]:
    """All that can be read from the cluster, except the Secrets with the app's credentials."""
    kubectl = app.namespace.kubectl
    kinds = kubectl("api-resources", "--namespaced", "--verbs=list", "-o", "name").split()
    found = json.loads(kubectl("get", ",".join(kinds), "-o", "json", "--show-managed-fields"))["items"]
    own = [item for item in found if (item["kind"], item["metadata"]["name"]) not in LET_IN_BY]
    assert {"Secret", "ConfigMap", "Pod", "StatefulSet", "StreamApp", "Event"} <= {item["kind"] for item in own}
    told = {f"{item['kind']}/{item['metadata']['name']}": json.dumps(item) for item in own}
    told |= {f"log of {place}": kubectl("logs", place) for place in (*app.pods(), OPERATORS)}
    for place in (*app.pods(), OPERATORS):
        with suppress(CommandFailed):  # if there is none
            told[f"log of {place} before"] = kubectl("logs", "--previous", place)
    told |= {page: app.live(page) for page in pages}
    return told


def test_credentials_from_a_secret_that_comes_and_changes(
    host_address: str, operated: Namespace, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with secured_broker(tmp_path, FIRST, host=host_address, guarded=True) as kafka:
        spec = (
            f"kafka: {{bootstrapServers: '{kafka.address}', tls: {{secretRef: {{name: kafka-tls}}}}, "
            "sasl: {mechanism: SCRAM-SHA-512, secretRef: {name: kafka-user}}}\n"
            "  autoscaling: {minReplicas: 1, maxReplicas: 1, lag: {catchUpWithin: 1 minute}}"
        )
        with (
            Bench(kafka.open, tmp_path, "secured", TOTALS + ECHO, spec=spec) as bench,
            Proof(bench, load := bench.load(seed=1301, rate=100)) as proof,
        ):
            capfd.readouterr()
            assert main(["topics", str(bench.manifest), "--acls", "--principal", f"User:{USER}"]) == 0
            kafka.allow(bindings_of(capfd.readouterr().out))
            app = Secured(operated, bench.prefix)
            app.put_certificate(tmp_path, "client")
            app.apply(bench.manifest.read_text())
            app.await_condition("Ready", "SecretUnusable", "create secret generic kafka-user --from-file")
            app.put_password(WRONG)
            app.await_condition("Ready", "DriverFailed", "does not accept the credentials")
            require_told_nowhere(app, tmp_path)
            app.put_password(FIRST)
            load.start()
            app.await_ready()
            proof.await_more(app)
            app.await_lag_is_read()

            for pod in app.pods():
                mounts = app.namespace.kubectl("exec", pod, "--", "cat", "/proc/mounts").splitlines()
                assert [mount.split()[2] for mount in mounts if mount.split()[1] == DIRECTORY] == ["tmpfs"], mounts
                for needle in needles(tmp_path):
                    files = app.files_with(pod, needle)
                    assert files, "the search finds nothing at all"
                    assert all(file.startswith(f"{DIRECTORY}/") for file in files), files
            assert app.files_with(OPERATORS, "KUBERNETES_SERVICE_HOST"), "the search finds nothing at all"
            assert app.files_with(OPERATORS, *needles(tmp_path)) == []
            require_told_nowhere(app, tmp_path, "status", "metrics")
            files = [str((m.key(), m.value())) for m in committed(kafka.open, f"{bench.prefix}-metadata")]
            assert files
            assert not [text for text in files if any(needle in text for needle in needles(tmp_path))]

            driver = app.driver()["metadata"]["uid"]
            require_work(bench, load)
            kafka.set_password(SECOND)
            app.put_password(SECOND)
            app.await_ready(other_than=driver)
            proof.await_more(app)

            driver = app.driver()["metadata"]["uid"]
            require_work(bench, load)
            assert kafka.lets_in("client", SECOND)
            kafka.trust_next_clients()
            until(lambda: not kafka.lets_in("client", SECOND), 30, "the old certificate is of no use any more")
            app.put_certificate(tmp_path, "next-client")
            app.await_ready(other_than=driver)
            proof.await_more(app)
            app.await_lag_is_read()
            proof.finish(app)
