# SPDX-License-Identifier: Apache-2.0
"""Which app of which cluster a command is about, by the options that kubectl has for it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from streamapp.errors import InputError, RunError
from streamapp.state_folder import running_app

if TYPE_CHECKING:
    from streamapp_operator.cluster.kube import Kube


@dataclass(frozen=True)
class Target:
    """A connection, and the namespace that is meant."""

    kube: Kube
    namespace: str

    def app(self, name: str) -> dict[str, Any]:
        """
        Raises:
            InputError: when there is no such app.
        """
        found = self.kube.get("StreamApp", self.namespace, name)
        if found is None:
            missing = f"there is no StreamApp '{name}' in namespace '{self.namespace}' (-n selects another one)"
            raise InputError(missing + _on_this_machine(name))
        return found

    def set_spec(self, name: str, field: str, value: Any) -> None:
        """Sets a field of an app's spec; None takes it away.

        Raises:
            InputError: when there is no such app.
        """
        self.app(name)
        self.kube.merge("StreamApp", self.namespace, name, {"spec": {field: value}})

    def annotate(self, name: str, annotation: str, value: str) -> None:
        """Sets an annotation of an app.

        Raises:
            InputError: when there is no such app.
        """
        self.app(name)
        self.kube.merge("StreamApp", self.namespace, name, {"metadata": {"annotations": {annotation: value}}})

    def driver_pod(self, name: str) -> dict[str, Any]:
        """
        Raises:
            InputError: when the app has none at the moment, or there is no such app.
        """
        from streamapp_operator.driver.pods import MAKERS, newest
        from streamapp_operator.names import base_name
        from streamapp_operator.render.driver import DRIVER
        from streamapp_operator.render.meta import selector_text, was_made_by

        self.app(name)
        pods = self.kube.list("Pod", self.namespace, selector_text(base_name(name), DRIVER))
        pod = newest([pod for pod in pods if was_made_by(pod, *MAKERS)])
        if pod is None:
            raise InputError(f"{name} has no driver now; `streamapp status {name}` says why")
        return pod


def add_app(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of a command that is about one app and needs nothing more."""
    add_name(parser)
    add_cluster(parser)


def add_name(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="name of the StreamApp")


def add_cluster(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("cluster")
    group.add_argument("-n", "--namespace", help="namespace of the app (default: that of the context)")
    group.add_argument("--context", help="context of the kubeconfig (default: the current one)")
    group.add_argument("--kubeconfig", help="path of the kubeconfig (default: KUBECONFIG, else ~/.kube/config)")


def names_of_apps(words: Sequence[str]) -> list[str]:
    """For completion: the StreamApps of the namespace that the words so far name."""
    parser = argparse.ArgumentParser(add_help=False)
    add_cluster(parser)
    options, _ = parser.parse_known_args(words)
    with target_of(options) as target:
        return [body["metadata"]["name"] for body in target.kube.list("StreamApp", target.namespace)]


@contextmanager
def target_of(options: argparse.Namespace) -> Iterator[Target]:
    """The cluster of the options; its refusals become errors of ours.

    Raises:
        InputError: when there is no such cluster, or it refuses what is asked.
        RunError: when it does not answer.
    """
    try:
        from streamapp_operator.cluster.errors import KubeError
        from streamapp_operator.cluster.kube import connect_by_config as connect
    except ModuleNotFoundError as error:
        missing = f"{error.name} is missing; install streamapp with its extra `operator`"
        raise InputError(missing + _on_this_machine(getattr(options, "name", ""))) from None
    try:
        kube, namespace = connect(options.kubeconfig, options.context)
        yield Target(kube, options.namespace or namespace)
    except KubeError as error:
        kind = InputError if 400 <= error.code < 500 else RunError
        raise kind(str(error) + _on_this_machine(getattr(options, "name", ""))) from None


def _on_this_machine(name: str) -> str:
    """Advice for the case that the app runs on this machine, by `streamapp run`; empty where it does not."""
    found = running_app(name)
    if found is None:
        return ""
    return (
        f". This command is about apps on a cluster, and an app {name} runs on this machine: {found.url}/status shows "
        f"its status, PUT {found.url}/replicas scales it, `streamapp query` reads its state, Ctrl-C stops it, "
        f"and its log is {found.state_dir / 'work' / 'spark.log'}"
    )
