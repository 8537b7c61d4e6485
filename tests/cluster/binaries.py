# SPDX-License-Identifier: Apache-2.0
"""The programs of our own cluster, built from Go modules (folder kube): etcd, Kubernetes, CoreDNS, Helm.

The first build on a machine takes 5 to 8 minutes on two cores; with Go's own caches warm, seconds; and when
nothing has changed, nothing.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

from cluster.cache import fingerprint, made_once
from cluster.errors import Unavailable

KUBERNETES = "1.34.4"
HELM = "3.19.5"
GO = (1, 24)
SOURCES = Path(__file__).parent / "kube"
PACKAGES = (".", "./coredns", "./pause", "helm.sh/helm/v3/cmd/helm")
NO_DEBUGGING = ("-gcflags=all=-dwarf=false",)
"""The compiler makes no debugging information, which the linker leaves out anyway: a quarter less processor time."""
LINKS = (
    "etcd",
    "kubectl",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-proxy",
    "kube-scheduler",
    "kubelet",
)
"""The names under which the one executable `kube` is called."""


def binaries() -> Path:
    """The folder that has all programs, built if need be.

    Raises Unavailable if there is no Go, or one too old, or if the build fails.
    """
    files = [path for path in SOURCES.rglob("*") if path.is_file()]
    return made_once("kube", fingerprint(files, *_linker_settings(), *LINKS), _build)


def _build(folder: Path) -> None:
    go = find_go()
    print(
        f"building Kubernetes {KUBERNETES} and Helm {HELM} (the first time: 5 to 8 minutes on two cores) ...",
        flush=True,
    )
    started = time.monotonic()
    linker = " ".join(_linker_settings())
    command = [go, "build", "-trimpath", *NO_DEBUGGING, "-ldflags", linker, "-o", f"{folder}/", *PACKAGES]
    done = subprocess.run(
        command,
        cwd=SOURCES,
        env={**os.environ, "CGO_ENABLED": "0"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode != 0:
        raise Unavailable("Kubernetes cannot be built: " + "\n".join(done.stdout.strip().splitlines()[-10:]))
    for name in LINKS:
        (folder / name).symlink_to("kube")
    print(f"  built in {time.monotonic() - started:.0f} s", flush=True)


def _linker_settings() -> list[str]:
    """The linker's settings: no debugging information, which halves the size; and the versions, which the programs do
    not know otherwise."""
    major, minor, _ = KUBERNETES.split(".")
    component, client = "k8s.io/component-base/version", "k8s.io/client-go/pkg/version"
    values = {
        f"{component}.gitVersion": f"v{KUBERNETES}",
        f"{component}.gitMajor": major,
        f"{component}.gitMinor": minor,
        f"{component}.gitTreeState": "clean",
        f"{client}.gitVersion": f"v{KUBERNETES}",
        f"{client}.gitMajor": major,
        f"{client}.gitMinor": minor,
        "helm.sh/helm/v3/internal/version.version": f"v{HELM}",
    }
    return ["-s", "-w", *(f"-X {name}={value}" for name, value in values.items())]


def find_go() -> str:
    """The path of Go. Raises Unavailable if there is none, or one too old."""
    wanted = ".".join(map(str, GO))
    go = shutil.which("go") or shutil.which("/usr/local/go/bin/go")
    if go is None:
        raise Unavailable(f"Kubernetes is built with Go {wanted} or later, and there is no `go` on the PATH")
    version = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, check=True).stdout.strip()
    numbers = tuple(int(part) for part in version.removeprefix("go").split(".")[:2] if part.isdigit())
    if numbers < GO:
        raise Unavailable(f"Kubernetes is built with Go {wanted} or later; {go} is {version}")
    return go
