# SPDX-License-Identifier: Apache-2.0
"""Pods killed under load: results as if nothing had happened."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.app import App
from cluster.namespace import Namespace
from lib.app import ECHO, TOTALS, WINDOWS, Bench
from lib.faults import require_work
from lib.verify import Proof
from streamapp.kafka.config import KafkaConfig

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]


def test_driver_and_executor_killed_under_load(operated: Namespace, pods_kafka: KafkaConfig, tmp_path: Path) -> None:
    """R1 and R2."""
    spec = f"kafka: {{bootstrapServers: '{pods_kafka.bootstrap_servers}'}}"
    with (
        Bench(pods_kafka, tmp_path, "kills", TOTALS + ECHO + WINDOWS, spec=spec) as bench,
        Proof(bench, load := bench.load(seed=1201, rate=100)) as proof,
    ):
        app = App(operated, bench.prefix)
        app.apply(bench.manifest.read_text())
        load.start()
        app.await_ready()

        (executor,) = app.executors()
        require_work(bench, load)
        app.kill(executor)
        app.await_executors(1, without=executor)
        proof.await_more(app)

        driver = app.driver()["metadata"]["uid"]
        require_work(bench, load)
        app.kill(f"{app.name}-driver-0")
        app.await_ready(other_than=driver)
        proof.await_more(app)
        proof.finish(app)
