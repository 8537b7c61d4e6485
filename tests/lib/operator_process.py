# SPDX-License-Identifier: Apache-2.0
"""The operator as a process of its own, with no more rights than the chart gives it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import yaml

from lib.apiserver import ApiServer
from lib.chart import Render
from lib.proxy import Proxy

NAME = "streamapp-operator"
"""The name of its account, and of its Lease."""
BINDING = f"{NAME}-apps"
"""The name of the binding with which it acts in each namespace that it watches."""
NOT_HERE = (
    *("CustomResourceDefinition", "Deployment", "Pod"),
    # They would be in force for the apps of other tests too, which share the API server.
    *("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"),
)
"""Kinds of the chart's objects that tests on an API server without a node leave out."""
OWN = "watch.ownNamespace=true"
"""The value of the chart that allows apps in the operator's own namespace."""


def grant(api: ApiServer, render: Render, namespace: str, *options: str) -> str:
    """Applies the rights that the chart, with these further options, gives to an operator in that namespace; returns
    the token of its account."""
    objects = render("--set", f"fullnameOverride={NAME}", *options, namespace=namespace)
    ours = [item for item in objects if item["kind"] not in NOT_HERE]
    api.kubectl("apply", "--server-side", "-f", "-", text=yaml.safe_dump_all(ours))
    return api.token_of(namespace, NAME)


class OperatorProcess:
    """
    Args:
        kubeconfig: the file with which it reaches the API server.
        namespace: where its apps and its Lease are.
        log: a file for its output.
        cluster_wide: whether it looks after the apps of all namespaces.
        watched: where its apps are, if not where its Lease is.
        resync: seconds after which it lists all objects anew; None: its default.
    """

    def __init__(
        self,
        kubeconfig: Path,
        namespace: str,
        log: Path,
        cluster_wide: bool = False,
        watched: Sequence[str] = (),
        resync: float | None = None,
    ) -> None:
        self.log = log
        environment = {
            "KUBECONFIG": str(kubeconfig),
            "STREAMAPP_NAMESPACE": namespace,
            "STREAMAPP_CLUSTER_WIDE": str(cluster_wide).lower(),
            "STREAMAPP_NAMESPACES": ",".join(watched),
            "STREAMAPP_ROLE_BINDING": BINDING,
            "STREAMAPP_RESYNC_SECONDS": "" if resync is None else str(resync),
        }
        with log.open("wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "streamapp_operator"], stdout=out, stderr=out, env={**os.environ, **environment}
            )

    @property
    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def stop(self) -> None:
        """Stops it in order: it gives the Lease back."""
        self.process.terminate()
        assert self.process.wait(30) == 0, self.said[-3000:]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(10)


class Operators:
    """Starts operators; `end` ends all of them, whatever state they are in."""

    def __init__(self, api: ApiServer, render: Render, folder: Path) -> None:
        self._api, self._render, self._folder = api, render, folder
        self._tokens: dict[str, str] = {}
        self._started: list[OperatorProcess] = []

    def start(self, namespace: str, proxy: Proxy | None = None, resync: float | None = None) -> OperatorProcess:
        """Starts one for the apps of a namespace, which reaches the API server through the proxy if there is one."""
        if namespace not in self._tokens:
            self._tokens[namespace] = grant(self._api, self._render, namespace, "--set", OWN)
        return self._start(proxy or self._api, namespace, self._tokens[namespace], cluster_wide=False, resync=resync)

    def start_cluster_wide(self, namespace: str) -> OperatorProcess:
        """Starts one in that namespace, for the apps of all namespaces."""
        token = grant(self._api, self._render, namespace, "--set", f"watch.clusterWide=true,{OWN}")
        return self._start(self._api, namespace, token, cluster_wide=True)

    def start_for(self, namespace: str, watched: Sequence[str], granted: Sequence[str]) -> OperatorProcess:
        """Starts one in that namespace, for the apps of the `watched` ones, with rights in the `granted` ones."""
        token = self.grant_in(namespace, granted)
        return self._start(self._api, namespace, token, cluster_wide=False, watched=watched)

    def grant_in(self, namespace: str, granted: Sequence[str]) -> str:
        """Gives the operator in that namespace the chart's rights in those from now on; returns its token."""
        names = f"watch.namespaces={{{','.join(granted)}}}"
        own = ("--set", OWN) if namespace in granted else ()
        return grant(self._api, self._render, namespace, "--set", names, *own)

    def _start(
        self,
        server: Proxy | ApiServer,
        namespace: str,
        token: str,
        cluster_wide: bool,
        watched: Sequence[str] = (),
        resync: float | None = None,
    ) -> OperatorProcess:
        folder = self._folder / f"operator-{len(self._started)}"
        folder.mkdir()
        kubeconfig = server.kubeconfig_of(folder, token)
        self._started.append(OperatorProcess(kubeconfig, namespace, folder / "log", cluster_wide, watched, resync))
        return self._started[-1]

    def end(self) -> None:
        for process in self._started:
            process.kill()
            print(f"--- {process.log.parent.name}\n{process.said[-4000:]}")
