# SPDX-License-Identifier: Apache-2.0
"""Pods killed under load: the results are as without faults. The long forms repeat it, by CHAOS_KILLS."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cluster.app import App
from cluster.namespace import Namespace
from lib.app import ECHO, TOTALS, WINDOWS, Bench
from lib.broker import write
from lib.faults import require_work
from lib.verify import Proof
from streamapp.kafka.config import KafkaConfig

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

ROUNDS = int(os.environ.get("CHAOS_KILLS", "5"))
FIRST_EPOCH_SECONDS = 90.0

Fault = Callable[[App, Proof], None]


def kill_executor(app: App, proof: Proof) -> None:
    """Kills an executor; another one takes over its work."""
    victim = app.executors()[0]
    app.kill(victim)
    app.await_executors(1, without=victim)
    proof.await_more(app)


def starve_executor(app: App, proof: Proof) -> None:
    """R19: the kernel ends an executor, as its control group has no memory left. The status says so."""
    victim = app.executors()[0]
    app.use_up_memory(victim)
    app.await_executors(1, without=victim)
    app.await_last_error("an executor had too little memory and was ended; raise spec.executor.resources")
    proof.await_more(app)


def kill_driver(app: App, proof: Proof) -> None:
    """Kills the driver; its container is started anew, and has its first results in time."""
    driver = app.driver_container()
    killed = time.monotonic()
    app.kill(f"{app.name}-driver-0")
    app.await_ready(FIRST_EPOCH_SECONDS, other_than=driver)
    proof.await_more(app, 1, FIRST_EPOCH_SECONDS - (time.monotonic() - killed))
    print(f"the first results {time.monotonic() - killed:.1f} s after the driver was killed")
    proof.await_more(app)


def starve_driver(app: App, proof: Proof) -> None:
    """R19 for the driver."""
    driver, restarts = app.driver_container(), app.status()["restarts"]
    app.use_up_memory(f"{app.name}-driver-0")
    app.await_last_error("the driver had too little memory and was ended; raise spec.driver.resources")
    app.await_ready(FIRST_EPOCH_SECONDS, other_than=driver)
    assert app.status()["restarts"] > restarts
    proof.await_more(app)


def lose_driver(app: App, proof: Proof) -> None:
    """Deletes the driver's pod; another pod is made."""
    driver = app.driver()["metadata"]["uid"]
    app.lose(f"{app.name}-driver-0")
    app.await_ready(FIRST_EPOCH_SECONDS, other_than=driver)
    proof.await_more(app)


FEW = (starve_executor, kill_driver)
EACH = (kill_executor, starve_executor, kill_driver, starve_driver, lose_driver)
STARVED = 5
"""How often a driver may fail before its app is given up."""
MANY = EACH * min(ROUNDS, STARVED) + (kill_executor, kill_driver, lose_driver) * (ROUNDS - STARVED)


@pytest.mark.parametrize(
    "faults",
    [
        FEW,
        pytest.param(MANY, marks=[pytest.mark.chaos, pytest.mark.timeout(7200)]),
    ],
    ids=["few", "many"],
)
def test_pods_killed_under_load(
    operated: Namespace, pods_kafka: KafkaConfig, tmp_path: Path, faults: tuple[Fault, ...]
) -> None:
    """R1, R2, R19."""
    spec = f"kafka: {{bootstrapServers: '{pods_kafka.bootstrap_servers}'}}"
    with (
        Bench(pods_kafka, tmp_path, "kills", TOTALS + ECHO + WINDOWS, spec=spec) as bench,
        Proof(bench, load := bench.load(seed=1201, rate=100)) as proof,
    ):
        app = App(operated, bench.prefix)
        app.apply(bench.manifest.read_text())
        load.start()
        app.await_ready()
        for fault in faults:
            require_work(bench, load)
            fault(app, proof)
        proof.finish(app)


@pytest.mark.parametrize(
    "topic",
    [
        pytest.param("numbers", marks=pytest.mark.chaos),  # the word count's topic is deleted in test_word_count.py
        "metadata",
        pytest.param("totals-changelog", marks=pytest.mark.chaos),
    ],
)
def test_a_deleted_topic_makes_the_app_degraded(
    operated: Namespace, pods_kafka: KafkaConfig, tmp_path: Path, topic: str
) -> None:
    """R10, and before it a record that cannot be read."""
    spec = f"kafka: {{bootstrapServers: '{pods_kafka.bootstrap_servers}'}}"
    with Bench(pods_kafka, tmp_path, "gone", TOTALS, spec=spec) as bench:
        load = bench.load(seed=1001, rate=100, keys=20)
        app = App(operated, bench.prefix)
        app.apply(bench.manifest.read_text())
        load.start()
        app.await_ready()
        meet_a_bad_record(app, bench, to_the_end="changelog" in topic)
        require_work(bench, load)
        name = f"{bench.prefix}-{topic}"
        if name == bench.topics["numbers"]:
            load.stop()  # records that are not delivered to a deleted topic are not lost by the app
        bench.admin.delete([name])
        app.await_degraded(name)
        load.stop()


def meet_a_bad_record(app: App, bench: Bench, *, to_the_end: bool) -> None:
    """The driver ends, and reports the place; `to_the_end` of its budget, or before that, the manifest is changed to
    skip the record."""
    driver = app.driver()["metadata"]["uid"]
    write(bench.kafka, bench.topics["numbers"], ("bad", "no number"))
    app.await_condition("Ready", "DriverFailed", f"topic {bench.topics['numbers']}, partition ")
    error = app.status()["lastError"]
    assert error["node"] == "numbers"
    assert re.fullmatch(rf"topic {bench.topics['numbers']}, partition \d, offset \d+", error["record"]), error
    if to_the_end:
        app.await_condition("Degraded", "RestartsUsedUp", "the driver has failed 4 times (DataError)", 300)
    else:
        assert app.status()["failures"]["counts"].keys() == {"DataError"}
    app.patch(onBadRecord="Drop")
    app.await_ready(other_than=driver)
