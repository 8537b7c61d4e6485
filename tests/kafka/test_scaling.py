# SPDX-License-Identifier: Apache-2.0
"""More and fewer executor processes of a running app: no restart, and no result lost or doubled."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from lib.app import ECHO, START_SECONDS, TOTALS, WINDOWS, AppProcess, Bench
from lib.faults import executors, kill_executor, require_work
from lib.verify import Proof
from lib.wait import until
from streamapp.kafka.config import KafkaConfig

pytestmark = pytest.mark.kafka

PARALLELISM = 4


def await_executors(app: AppProcess, count: int) -> None:
    """Waits until so many executors run, and each has its share of the state."""

    def shares() -> list[int]:
        app.require_alive()
        replicas = app.status().get("replicas") or {}
        if len(executors(app)) != count or replicas.get("running") != count:
            return []
        return sorted(replicas["statePartitions"].values())

    # The bounds for both stores together.
    least, most = 2 * (PARALLELISM // count), 2 * -(-PARALLELISM // count)

    def fair() -> bool:
        found = shares()
        return sum(found) == 2 * PARALLELISM and least <= found[0] <= found[-1] <= most

    try:
        until(fair, START_SECONDS, f"{count} executors with {least} to {most} partitions", every=0.2)
    except AssertionError as error:
        there = f"{len(executors(app))} processes, {app.status().get('replicas')}"
        raise AssertionError(f"{error}; there are {there}\n{app.tail()}") from None


@pytest.mark.timeout(600)
def test_scaled_under_load_and_an_executor_killed(kafka: KafkaConfig, tmp_path: Path) -> None:
    """R11, and R1 in the middle of it."""
    chooser = random.Random(1101)
    with (
        Bench(kafka, tmp_path, "scaled", TOTALS + ECHO + WINDOWS, parallelism=PARALLELISM) as bench,
        Proof(bench, load := bench.load(seed=1101, rate=200)) as proof,
    ):
        app = bench.start(arguments=["--replicas", "1"])
        load.start()
        app.await_work()
        first = {process.pid for process in executors(app)}
        assert len(first) == 1
        for count in (4, 1, 2):
            require_work(bench, load)
            app.scale(count)
            await_executors(app, count)
            assert first <= {process.pid for process in executors(app)}, "the oldest executor was to stay"
            app.await_epochs_beyond(app.epochs())
            proof.require_sound()
        assert app.status()["replicas"]["lost"] == 0, "those that were too many were asked to leave"
        killed = kill_executor(app, chooser)
        app.scale(3)
        await_executors(app, 3)
        assert killed not in {process.pid for process in executors(app)}
        app.await_epochs_beyond(app.epochs())
        proof.finish(app)
