# SPDX-License-Identifier: Apache-2.0
"""A real Kubernetes API server with its controllers and no node: objects, validation, access, owner references and
StatefulSets are real, and pods are made but never run. It is there in seconds and needs no root.
"""

from __future__ import annotations

import os
import secrets
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

import yaml

from lib.parent import end_with_parent
from lib.wait import until
from streamapp.kafka.ports import free_ports

START_SECONDS = 60.0
_NAMES = ("etcd", "kube-apiserver", "kube-controller-manager", "kubectl")


class ApiServer:
    """etcd, API server and controller manager on free ports; `with` ends them.

    Args:
        folder: a folder of its own for data, certificates and logs.
        binary: the multi-call executable of the test cluster.
        audited: whether `audit_log` gets every request.
    """

    def __init__(self, folder: Path, binary: Path, audited: bool = False) -> None:
        self.folder = folder
        self.audit_log = folder / "audit.log"
        self._audited = audited
        self.folder.mkdir(parents=True, exist_ok=True)
        self._links = {name: folder / "bin" / name for name in _NAMES}
        self._binary = binary
        self._etcd, self._peer, self._port, self._controllers = free_ports(4)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.url = f"https://127.0.0.1:{self._port}"
        self.kubeconfig = folder / "kubeconfig"
        self.token = secrets.token_hex(16)
        """The administrator's kubeconfig."""

    def start(self) -> ApiServer:
        (self.folder / "bin").mkdir(exist_ok=True)
        for link in self._links.values():
            if not link.is_symlink():
                link.symlink_to(self._binary)
        self._write_credentials()
        self._start_etcd()
        self.start_api()
        self._start_controllers()
        until(
            lambda: "default" in self.kubectl("get", "serviceaccounts", "--namespace=default", "--output=name"),
            START_SECONDS,
            "the controllers have made the default service account",
            every=0.2,
        )
        return self

    def start_api(self) -> None:
        """Starts the API server alone, after `stop_api`."""
        folder = self.folder
        self._launch(
            "kube-apiserver",
            f"--etcd-servers=http://127.0.0.1:{self._etcd}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self._port}",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--authorization-mode=RBAC",
            f"--cert-dir={folder}/certs",
            f"--token-auth-file={folder}/tokens.csv",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={folder}/sa.key",
            f"--service-account-signing-key-file={folder}/sa.key",
            "--disable-admission-plugins=DefaultIngressClass",
            # Policies that rewrite objects are a beta of this version.
            "--feature-gates=MutatingAdmissionPolicy=true",
            "--runtime-config=admissionregistration.k8s.io/v1beta1=true",
            *(self._audit_options() if self._audited else ()),
        )
        until(self._is_ready, START_SECONDS, f"the API server answers; see {folder}/kube-apiserver.log", every=0.1)

    def _audit_options(self) -> tuple[str, ...]:
        policy = {
            "apiVersion": "audit.k8s.io/v1",
            "kind": "Policy",
            "omitStages": ["RequestReceived"],
            "rules": [{"level": "Metadata"}],
        }
        (self.folder / "audit.yaml").write_text(yaml.safe_dump(policy))
        # Blocking: every request that was answered is in the log.
        return (
            f"--audit-policy-file={self.folder}/audit.yaml",
            f"--audit-log-path={self.audit_log}",
            "--audit-log-mode=blocking",
        )

    def stop_api(self) -> None:
        self._end("kube-apiserver")

    def kubectl(self, *arguments: str, text: str | None = None, check: bool = True) -> str:
        """Returns kubectl's output. With `check`, raises AssertionError with its complaint if it fails.

        Args:
            arguments: those of the command line.
            text: its standard input.
            check: else both its output and its complaint are returned.
        """
        done = subprocess.run(
            [str(self._links["kubectl"]), f"--kubeconfig={self.kubeconfig}", *arguments],
            input=text,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        if check:
            assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stderr}"
            return done.stdout
        return done.stdout + done.stderr

    def kubeconfig_of(self, folder: Path, token: str) -> Path:
        """Writes a kubeconfig for a client with that token."""
        return write_kubeconfig(folder / "kubeconfig", self.url, token, f"{self.folder}/certs/apiserver.crt")

    def token_of(self, namespace: str, service_account: str) -> str:
        """A token of that service account."""
        return self.kubectl("create", "token", service_account, f"--namespace={namespace}").strip()

    def stop(self) -> None:
        for name in reversed(list(self._processes)):
            self._end(name)

    def _write_credentials(self) -> None:
        folder = self.folder
        (folder / "tokens.csv").write_text(f'{self.token},admin,admin,"system:masters"\n')
        subprocess.run(["openssl", "genrsa", "-out", str(folder / "sa.key"), "2048"], check=True, capture_output=True)
        self.kubeconfig = self.kubeconfig_of(folder, self.token)

    def _start_etcd(self) -> None:
        client, peer = f"http://127.0.0.1:{self._etcd}", f"http://127.0.0.1:{self._peer}"
        self._launch(
            "etcd",
            f"--data-dir={self.folder}/etcd",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",
            "--log-level=warn",
        )

    def _start_controllers(self) -> None:
        self._launch(
            "kube-controller-manager",
            f"--kubeconfig={self.kubeconfig}",
            # Pods that tests report to run have no node. An endpoint without one is invalid, and is tried for ever.
            "--controllers=*,-endpoints-controller,-endpointslice-controller,-endpointslice-mirroring-controller",
            f"--service-account-private-key-file={self.folder}/sa.key",
            "--use-service-account-credentials=false",
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
            f"--secure-port={self._controllers}",
            f"--cert-dir={self.folder}/controller-certs",
        )

    def _is_ready(self) -> bool:
        assert self._processes["kube-apiserver"].poll() is None, self._log("kube-apiserver")
        return "ok" in self.kubectl("get", "--raw=/readyz", check=False)

    def _launch(self, name: str, *arguments: str) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                [str(self._links[name]), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # A test run that is killed must not leave these behind.
                preexec_fn=end_with_parent if os.uname().sysname == "Linux" else None,
            )

    def _end(self, name: str) -> None:
        process = self._processes.pop(name)
        process.kill()
        process.wait(10)

    def _log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")[-3000:]

    def __enter__(self) -> ApiServer:
        try:
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def write_kubeconfig(file: Path, url: str, token: str, authority: str | None = None) -> Path:
    """Writes a kubeconfig for a client of the API server at that address, whose certificate an authority has signed;
    returns the file."""
    cluster = {"server": url} | ({"certificate-authority": authority} if authority else {})
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "clusters": [{"name": "test", "cluster": cluster}],
        "users": [{"name": "test", "user": {"token": token}}],
    }
    file.write_text(yaml.safe_dump(config))
    return file


def apply_all(api: ApiServer, objects: Sequence[object]) -> str:
    """Applies objects as a user would."""
    return api.kubectl("apply", "-f", "-", text=yaml.safe_dump_all(objects))
