# SPDX-License-Identifier: Apache-2.0
"""`streamapp logs` of pods that speak: the driver's or an executor's, all of it, its end, or on and on."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cluster.namespace import Manifest, Namespace
from cluster.pods import pod, script
from lib.operator import WORD_COUNT
from lib.wait import until
from streamapp_operator.render.driver import DRIVER
from streamapp_operator.render.executors import EXECUTOR
from streamapp_operator.render.meta import labels

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

AT_ONCE = 20


def numbers(log: str, name: str) -> list[int]:
    """The numbers of the lines, which must all be whole and of that name."""
    words = [line.split(" ") for line in log.splitlines()]
    assert all(len(each) == 2 and each[0] == name for each in words), log
    return [int(number) for _, number in words]


def speaker(name: str, component: str, image: str) -> Manifest:
    """A pod that prints its name and a number, again and again."""
    return pod(
        name,
        command=script("speak", name, str(AT_ONCE)),
        image=image,
        labels=labels("word-count", component),
        container={"name": component},
    )


def driver_of(speaking: Manifest) -> Manifest:
    """The StatefulSet that makes such a pod."""
    found = speaking["metadata"]["labels"]
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "word-count-driver"},
        "spec": {
            "serviceName": "word-count-driver",
            "selector": {"matchLabels": found},
            "template": {"metadata": {"labels": found}, "spec": {**speaking["spec"], "restartPolicy": "Always"}},
        },
    }


def test_logs(definition: bool, operator_image: str, namespace: Namespace) -> None:
    namespace.apply(WORD_COUNT)
    driver, second = "word-count-driver-0", "word-count-1a2b3c-exec-2"
    namespace.apply(driver_of(speaker(driver, DRIVER, operator_image)))
    until(lambda: namespace.cluster.has(f"pod/{driver}", namespace.name), 30, "the driver's pod")
    made_by = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": driver,
        "uid": namespace.get(f"pod/{driver}")["metadata"]["uid"],
    }
    for name in ("word-count-1a2b3c-exec-1", second):
        executor = speaker(name, EXECUTOR, operator_image)
        executor["metadata"]["ownerReferences"] = [{**made_by, "controller": True}]
        namespace.apply(executor)
    namespace.apply(speaker("word-count-1a2b3c-exec-3", EXECUTOR, operator_image))
    namespace.await_ready("pod", "-l", "app.kubernetes.io/instance=word-count")
    command = [
        str(Path(sys.executable).parent / "streamapp"),
        "logs",
        "word-count",
        "--kubeconfig",
        str(namespace.cluster.kubeconfig),
        "-n",
        namespace.name,
    ]

    def logs(*options: str) -> str:
        return subprocess.run([*command, *options], capture_output=True, text=True, check=True, timeout=60).stdout

    whole = numbers(logs(), driver)
    assert whole == list(range(1, len(whole) + 1))
    assert len(whole) >= AT_ONCE
    first, *_, last = numbers(logs("--tail", "3"), driver)
    assert last - first == 2
    assert last >= len(whole)
    assert numbers(logs("--executor", "2", "--tail", "5"), second)[0] > AT_ONCE - 5

    foreign = subprocess.run([*command, "--executor", "3"], capture_output=True, text=True, check=False, timeout=60)
    assert foreign.returncode == 1, "its labels are right, but no driver has made it"
    assert "has no executor '3'; there are: 1, 2" in foreign.stderr

    with subprocess.Popen([*command, "--follow", "--tail", "1"], stdout=subprocess.PIPE, text=True) as following:
        assert following.stdout is not None
        heard = numbers("".join(following.stdout.readline() for _ in range(6)), driver)
        assert heard == list(range(heard[0], heard[0] + 6)), "each line once, as it comes"
        assert heard[0] >= last
        following.send_signal(signal.SIGINT)
        assert following.wait(60) == 130, "until Ctrl-C"
