# SPDX-License-Identifier: Apache-2.0
"""The operator in the namespace of a test, for that namespace alone: installed as users install it."""

from __future__ import annotations

from cluster.access import CommandFailed
from cluster.images import OPERATOR, RUNTIME
from cluster.namespace import Namespace
from lib.chart import CHART

NAME = "streamapp-operator"
SECONDS = 120


def install(namespace: Namespace, *options: str) -> None:
    """Installs the chart, without the definition, and waits until the operator is ready.

    Args:
        namespace: its own namespace, and the only one that it watches.
        options: further options of `helm install`.
    """
    place = ("-n", namespace.name, "--wait", f"--timeout={SECONDS}s")
    values = {
        "fullnameOverride": NAME,
        "crds.install": "false",
        "watch.ownNamespace": "true",
        "resources.requests.cpu": "20m",
    }
    chosen = [word for key, value in values.items() for word in ("--set", f"{key}={value}")]
    try:
        namespace.cluster.helm("install", NAME, str(CHART), *place, *image_options(), *chosen, *options)
    except CommandFailed as error:
        pods = namespace.get("pods", labels="app.kubernetes.io/component=operator")["items"]
        words = [namespace.describe(pod["metadata"]["name"]) for pod in pods]
        raise AssertionError("\n".join([str(error), *words])) from None


def image_options() -> list[str]:
    """Options of Helm: the images of the present sources."""
    return [
        option
        for value, image in (("image", OPERATOR), ("apps.image", RUNTIME))
        for part, text in zip(("repository", "tag"), image.split(":"), strict=True)
        for option in ("--set", f"{value}.{part}={text}")
    ]
