# SPDX-License-Identifier: Apache-2.0
"""A container's log, and commands that run in a container, for the command line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from kubernetes import client

from streamapp_operator.cluster.errors import KubeError, error_of
from streamapp_operator.cluster.kube import SECONDS, Kube
from streamapp_operator.cluster.paths import path_of

RUN_SECONDS = 60.0
"""Seconds that a command in a container may take."""


def log_of(kube: Kube, namespace: str, pod: str, **options: Any) -> Iterator[str]:
    """Lines of a pod's log; endless with `follow=True`.

    Args:
        options: as the API server has them: `container`, `follow`, `previous`, `tailLines`.

    Raises:
        KubeError: when there is no such log.
    """
    query = [(name, str(value).lower()) for name, value in options.items() if value is not None]
    path = path_of("Pod", namespace, pod, "log")
    request = kube.api.param_serialize("GET", path, query_params=query, auth_settings=["BearerToken"])
    answer = kube.api.call_api(*request, _request_timeout=(SECONDS, None if options.get("follow") else SECONDS))
    if answer.status >= 400:
        raise error_of("GET", path, answer.status, answer.read())
    for line in answer.response:
        yield line.decode(errors="replace")


def run_in(kube: Kube, namespace: str, pod: str, container: str, command: Sequence[str]) -> tuple[str, str, int]:
    """Runs a command in a container. Returns its output on stdout and stderr, and its exit code.

    Raises:
        KubeError: when it cannot run, or does not end within RUN_SECONDS.
    """
    from kubernetes.stream import stream  # it takes long to load, and only this needs it

    ask = client.CoreV1Api(kube.api).connect_get_namespaced_pod_exec
    options = {"stdout": True, "stderr": True, "stdin": False, "tty": False, "binary": True}
    try:
        ran = stream(ask, pod, namespace, container=container, command=list(command), **options, _preload_content=False)
        ran.run_forever(timeout=RUN_SECONDS)
        if ran.is_open():
            raise KubeError(0, f"exec in pod {pod}: no end within {RUN_SECONDS:g} s")
        return ran.read_stdout().decode(), ran.read_stderr().decode(), ran.returncode
    except client.ApiException as error:
        code = re.search(r"status (\d{3})", str(error.reason))
        raise KubeError(int(code[1]) if code else 0, f"exec in pod {pod}: {error.reason}") from None
