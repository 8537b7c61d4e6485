# SPDX-License-Identifier: Apache-2.0
"""A running cluster, as tests use it, whoever provides it."""

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
    """kubectl or helm said no; the message has the command and all that it said. `said` is what it said on stderr."""

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
        load_image: makes an image of cluster/images.py known to the nodes, building it first where that is needed.
        host_address: this machine as pods see it; raises Unavailable where they cannot reach it.
        restore_iptables: hands rules to the node's `iptables-restore --noflush`; None where nodes are not ours.
        audit_log: what programs in pods have asked the API server for; None where nobody writes it down.
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
        """What kubectl prints. Raises CommandFailed, or subprocess.TimeoutExpired after `seconds`."""
        return self._run(self.kubectl_program, arguments, stdin, seconds)

    def helm(self, *arguments: str, seconds: float = 300) -> str:
        """What helm prints. Raises CommandFailed, or subprocess.TimeoutExpired after `seconds`."""
        return self._run(self.helm_program, arguments, None, seconds)

    def apply(self, manifest: str | Path, namespace: str = "default") -> str:
        """`kubectl apply` of a file, or of a manifest's text."""
        text = manifest.read_text() if isinstance(manifest, Path) else manifest
        return self.kubectl("apply", "-n", namespace, "-f", "-", stdin=text)

    @cached_property
    def objects(self) -> Objects:
        return Objects(self.kubeconfig)

    def get(
        self, what: str, namespace: str = "default", *, labels: str | None = None, fields: str | None = None
    ) -> dict[str, Any]:
        """An object (`pod/driver`), or with `what` a kind the list of all that have these labels and fields.

        Raises ApiException where there is no such object.
        """
        return self.objects.get(what, namespace, labels=labels, fields=fields)

    def has(self, what: str, namespace: str = "default") -> bool:
        """Whether there is such an object (`pod/driver`)."""
        return self.objects.has(what, namespace)

    @contextmanager
    def output_of(self, *arguments: str) -> Iterator[Callable[[], str]]:
        """Within this, a kubectl that goes on until it is told to end, and what it has printed so far."""
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
        """For processes of tests that are to find this cluster."""
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
