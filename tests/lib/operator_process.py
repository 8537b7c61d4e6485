# SPDX-License-Identifier: Apache-2.0
"""The operator as a process of its own, with no more rights than the chart gives it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import yaml

from lib.apiserver import ApiServer
from lib.chart import Render
from lib.proxy import Proxy

NAME = "streamapp-operator"
"""Of its account, and of its Lease."""
_NOT_HERE = ("CustomResourceDefinition", "Deployment", "Pod")


def grant(api: ApiServer, render: Render, namespace: str) -> str:
    """What the chart gives to an operator of that namespace; returns the token to act by."""
    objects = render("--set", f"fullnameOverride={NAME}", namespace=namespace)
    ours = [item for item in objects if item["kind"] not in _NOT_HERE]
    api.kubectl("apply", "--server-side", "-f", "-", text=yaml.safe_dump_all(ours))
    return api.token_of(namespace, NAME)


class OperatorProcess:
    """
    Args:
        kubeconfig: by which it reaches the API server.
        namespace: where its apps and its Lease are.
        log: a file for what it says.
    """

    def __init__(self, kubeconfig: Path, namespace: str, log: Path) -> None:
        self.log = log
        environment = {"KUBECONFIG": str(kubeconfig), "STREAMAPP_NAMESPACE": namespace}
        with log.open("wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "streamapp_operator"], stdout=out, stderr=out, env={**os.environ, **environment}
            )

    @property
    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def stop(self) -> None:
        """In order: it gives the Lease back."""
        self.process.terminate()
        assert self.process.wait(30) == 0, self.said[-3000:]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(10)


class Operators:
    """Starts them; `end` ends all of them, whatever state they are in."""

    def __init__(self, api: ApiServer, render: Render, folder: Path) -> None:
        self._api, self._render, self._folder = api, render, folder
        self._tokens: dict[str, str] = {}
        self._started: list[OperatorProcess] = []

    def start(self, namespace: str, proxy: Proxy | None = None) -> OperatorProcess:
        """One for the apps of a namespace, which reaches the API server through the proxy if there is one."""
        if namespace not in self._tokens:
            self._tokens[namespace] = grant(self._api, self._render, namespace)
        folder = self._folder / f"operator-{len(self._started)}"
        folder.mkdir()
        kubeconfig = (proxy or self._api).kubeconfig_of(folder, self._tokens[namespace])
        self._started.append(OperatorProcess(kubeconfig, namespace, folder / "log"))
        return self._started[-1]

    def end(self) -> None:
        for process in self._started:
            process.kill()
            print(f"--- {process.log.parent.name}\n{process.said[-4000:]}")
