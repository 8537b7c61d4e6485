# SPDX-License-Identifier: Apache-2.0
"""The definitions of PodMonitor and PrometheusRule, as the Prometheus operator of one version has them: a Go module."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

from cluster.binaries import find_go
from cluster.cache import made_once
from cluster.errors import Unavailable

MODULE = "github.com/prometheus-operator/prometheus-operator"
VERSION = "v0.85.0"
SUM = "h1:M5xLCLEoaW2IJfnuCwFzzpL+jSVQu3KGT84Pye+fW8s="
NAMES = ("podmonitors", "prometheusrules")


def definitions() -> list[Path]:
    """The files with them, fetched if need be.

    Raises:
        Unavailable: if there is no Go, or the module cannot be downloaded.
    """
    folder = made_once("prometheus-operator", VERSION, _fetch)
    return [folder / f"{name}.yaml" for name in NAMES]


def _fetch(folder: Path) -> None:
    # The module's checksum is known here: no other server need be asked.
    environment = {**os.environ, "GONOSUMDB": MODULE}
    done = subprocess.run(
        [find_go(), "mod", "download", "-json", f"{MODULE}@{VERSION}"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )
    found = json.loads(done.stdout) if done.stdout.startswith("{") else {}
    if done.returncode != 0:
        raise Unavailable(f"{MODULE} cannot be had: {found.get('Error') or done.stderr.strip()}")
    if found["Sum"] != SUM:
        raise Unavailable(f"{MODULE} {VERSION} is not what it was: its sum is {found['Sum']}")
    for name in NAMES:
        file = Path(found["Dir"]) / "example" / "prometheus-operator-crd" / f"monitoring.coreos.com_{name}.yaml"
        shutil.copyfile(file, folder / f"{name}.yaml")
