# SPDX-License-Identifier: Apache-2.0
"""The operator as a process of its own, with no more rights than it is installed with."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster.install import NAME, RULES
from cluster.pods import account
from lib.apiserver import ApiServer
from lib.operator import Apps
from lib.wait import until
from streamapp_operator.__main__ import LEASE

pytestmark = pytest.mark.cluster

Start = Callable[[], subprocess.Popen[bytes]]


@pytest.fixture
def operator(api: ApiServer, namespace: str, tmp_path: Path) -> Iterator[Start]:
    """Starts operators that look after the test's namespace."""
    rights: list[Any] = account(NAME, *RULES)
    api.kubectl("apply", f"--namespace={namespace}", "-f", "-", text=yaml.safe_dump_all(rights))
    config = yaml.safe_load(api.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": api.token_of(namespace, NAME)}
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(config))
    environment = {"KUBECONFIG": str(kubeconfig), "STREAMAPP_NAMESPACE": namespace}
    started: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        with (tmp_path / f"operator-{len(started)}.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "streamapp_operator"], stdout=log, stderr=log, env={**os.environ, **environment}
            )
        started.append(process)
        return process

    yield start
    for number, process in enumerate(started):
        process.kill()
        process.wait(10)
        print(f"--- operator {number}\n{(tmp_path / f'operator-{number}.log').read_text()[-4000:]}")


def holder(apps: Apps) -> str:
    found = apps.kube.get("Lease", apps.namespace, LEASE)
    return str(found["spec"].get("holderIdentity") or "") if found is not None else ""


def await_budget(apps: Apps, least: int, seconds: float = 30) -> None:
    def there() -> bool:
        found = apps.kube.get("PodDisruptionBudget", apps.namespace, "word-count-executors")
        return found is not None and found["spec"]["minAvailable"] == least

    until(there, seconds, f"a budget of {least}", every=0.2)


def test_it_makes_and_heals_what_somebody_applies(apps: Apps, operator: Start) -> None:
    process = operator()
    apps.create(replicas=2)
    await_budget(apps, 1)
    until(lambda: apps.get("StreamApp", "word-count").get("status", {}).get("observedGeneration") == 1, 10, "a status")
    apps.change(replicas=5)
    await_budget(apps, 4)
    before = apps.get("PodDisruptionBudget", "word-count-executors")["metadata"]["uid"]
    apps.kube.delete("PodDisruptionBudget", apps.namespace, "word-count-executors", before)
    await_budget(apps, 4)
    assert "Applying" in apps.events()
    process.terminate()
    assert process.wait(30) == 0
    assert holder(apps) == ""


def test_of_two_one_acts_and_the_other_takes_over_from_somebody_killed(apps: Apps, operator: Start) -> None:
    """R16."""
    first = operator()
    identity = until(lambda: holder(apps), 30, "the first operator has the Lease", every=0.2)
    operator()
    apps.create(replicas=2)
    await_budget(apps, 1)
    assert holder(apps) == identity
    first.send_signal(signal.SIGSTOP)
    apps.change(replicas=3)
    await_budget(apps, 2, seconds=40)
    assert holder(apps) != identity
    first.send_signal(signal.SIGCONT)
    apps.change(replicas=4)
    await_budget(apps, 3)
    assert holder(apps) != identity
