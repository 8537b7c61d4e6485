# SPDX-License-Identifier: Apache-2.0
"""A running cluster, as tests use it, wherever it comes from."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from cluster.objects import Objects


class CommandFailed(AssertionError):
    """kubectl or helm failed; the message has the command and all of its output. `said` is its stderr."""

    def __init__(self, command: str, code: int, said: str) -> None:
        super().__init__(f"`{command}` ended with {code}: {said.strip()}")
        self.said = said


@dataclass(frozen=True)
class Cluster:
    """Administrator's access to a cluster.

    Args:
        what: where it comes from, in words.
        kubeconfig: the file to be exported as KUBECONFIG.
        kubectl_program, helm_program: commands that fit it.
        load_image: makes an image of cluster/images.py known to the nodes, and builds it first if needed.
        host_address: the address of this machine for pods; raises Unavailable if they cannot reach it.
        restore_iptables: gives rules to the node's `iptables-restore --noflush`; None if the nodes are not ours.
        audit_log: the requests of programs in pods to the API server; None if there is no such log.
    """

    what: str
    kubeconfig: Path
    kubectl_program: str
    helm_program: str
    load_image: Callable[[str], None]
    host_address: Callable[[], str]
    restore_iptables: Callable[[str], None] | None = None
    audit_log: Path | None = None

    def kubectl(self, *arguments: str, stdin: str | None = None, seconds: float = 120) -> str:
        """Returns kubectl's output. Raises CommandFailed, or subprocess.TimeoutExpired after `seconds`."""
        return self._run(self.kubectl_program, arguments, stdin, seconds)

    def helm(self, *arguments: str, seconds: float = 300) -> str:
        """Returns helm's output. Raises CommandFailed, or subprocess.TimeoutExpired after `seconds`."""
        return self._run(self.helm_program, arguments, None, seconds)

    def apply(self, manifest: str | Path, namespace: str = "default") -> str:
        """Runs `kubectl apply` on a file, or on a manifest's text."""
        text = manifest.read_text() if isinstance(manifest, Path) else manifest
        return self.kubectl("apply", "-n", namespace, "-f", "-", stdin=text)

    @cached_property
    def objects(self) -> Objects:
        return Objects(self.kubeconfig)

    def get(
        self, what: str, namespace: str = "default", *, labels: str | None = None, fields: str | None = None
    ) -> dict[str, Any]:
        """Returns an object (`pod/driver`) or, if `what` is a kind, the list of all that have these labels and fields.

        Raises ApiException if there is no such object.
        """
        return self.objects.get(what, namespace, labels=labels, fields=fields)

    def has(self, what: str, namespace: str = "default") -> bool:
        """Whether there is such an object (`pod/driver`)."""
        return self.objects.has(what, namespace)

    @contextmanager
    def output_of(self, *arguments: str) -> Iterator[Callable[[], str]]:
        """Runs a kubectl that goes on until the end of the block. Yields a function that returns its output so far."""
        command = [self.kubectl_program, *arguments]
        with tempfile.NamedTemporaryFile() as out:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, env=self.environment)
            try:
                yield Path(out.name).read_text
            finally:
                process.kill()
                process.wait()

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment for processes of tests that are to find this cluster."""
        return {**os.environ, "KUBECONFIG": str(self.kubeconfig)}

    def _run(self, program: str, arguments: tuple[str, ...], stdin: str | None, seconds: float) -> str:
        done = subprocess.run(
            [program, *arguments],
            input=stdin,
            stdin=None if stdin is not None else subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
            env=self.environment,
        )
        if done.returncode != 0:
            words = " ".join([Path(program).name, *arguments])
            raise CommandFailed(words, done.returncode, done.stderr or done.stdout)
        return done.stdout
