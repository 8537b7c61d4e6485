# SPDX-License-Identifier: Apache-2.0
"""More and fewer executors of a running app: no restart, and no result lost or doubled."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from cluster.app import App
from cluster.namespace import Namespace
from lib.app import ECHO, TOTALS, Bench
from lib.faults import require_work
from lib.verify import Proof
from streamapp.kafka.config import KafkaConfig

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

ROUNDS = int(os.environ.get("CHAOS_ROUNDS", "10"))


@pytest.mark.parametrize(
    "rounds", [1, pytest.param(ROUNDS, marks=[pytest.mark.chaos, pytest.mark.timeout(7200)])], ids=["once", "often"]
)
def test_kubectl_scale_changes_a_running_query(
    operated: Namespace, pods_kafka: KafkaConfig, tmp_path: Path, rounds: int
) -> None:
    """R11: 1→4→1 under load, with an executor killed in the middle."""
    chooser = random.Random(1101)
    spec = (
        f"kafka: {{bootstrapServers: '{pods_kafka.bootstrap_servers}'}}\n"
        "  executor: {resources: {requests: {cpu: 100m}, limits: {memory: 1Gi}}}"
    )
    with (
        Bench(pods_kafka, tmp_path, "scaled", TOTALS + ECHO, parallelism=4, spec=spec) as bench,
        Proof(bench, load := bench.load(seed=1101, rate=100)) as proof,
    ):
        app = App(operated, bench.prefix)
        app.apply(bench.manifest.read_text())
        load.start()
        app.await_ready()
        driver = app.driver()["metadata"]["uid"]
        for _ in range(rounds):
            require_work(bench, load)
            operated.kubectl("scale", f"sapp/{app.name}", "--replicas=4")
            app.await_executors(4)
            victim = chooser.choice(app.executors())
            app.kill(victim)
            proof.await_more(app)
            operated.kubectl("scale", f"sapp/{app.name}", "--replicas=1")
            app.await_executors(1, without=victim)
            proof.await_more(app)
        assert app.driver()["metadata"]["uid"] == driver
        assert app.status()["restarts"] == 0
        proof.finish(app)
