# SPDX-License-Identifier: Apache-2.0
"""Killed and started again: exact results for a reader that read all the time, and for one that came later."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from lib.app import (
    DEAD_LETTERS,
    ECHO,
    FUNCTION,
    FUNCTIONS_CODE,
    HOP,
    JOIN,
    START_SECONDS,
    TOTALS,
    WINDOWS,
    AppProcess,
    Bench,
    Load,
    manifest_text,
)
from lib.faults import (
    DRIVER_FAILPOINTS,
    FAILPOINTS,
    FIRST_EPOCH_SECONDS,
    FIRST_FAILPOINTS,
    await_halt,
    await_usual_lag,
    base_files,
    bounce,
    compact,
    delete_some,
    executors,
    failpoints,
    fence,
    flip_bits,
    kill,
    kill_executor,
    kill_jvm_only,
    kill_python_only,
    killed_at,
    lag,
    last_epoch,
    require_work,
)
from lib.verify import LiveReader, Proof, checks_of, folded, rows_of
from lib.wait import until
from streamapp.kafka.broker import EmbeddedBroker
from streamapp.kafka.config import KafkaConfig

pytestmark = pytest.mark.kafka


@pytest.mark.timeout(900)
def test_driver_killed_under_load(kafka: KafkaConfig, tmp_path: Path) -> None:
    """R2."""
    with (
        Bench(kafka, tmp_path, "kills", TOTALS + ECHO + WINDOWS) as bench,
        Proof(bench, load := bench.load(seed=201, rate=200)) as proof,
    ):
        load.start()
        for fault in (kill, kill_python_only):
            app = bench.start()
            app.await_work(seconds=FIRST_EPOCH_SECONDS)
            require_work(bench, load)
            fault(app)
            proof.require_sound()
        app = bench.start(env=failpoints("store.before-restore=pause:5000"))
        phases = []

        def restores() -> bool:
            phases.append(app.status().get("phase"))
            return phases[-1] == "Restoring"

        until(restores, START_SECONDS, "the status says that it restores")
        assert "Running" not in phases, "and not that it runs before"
        app.await_work()
        until(lambda: app.status()["phase"] == "Running", 60, "and then that it runs")

        # A task that found its epoch done is restored once more, for the next one.
        def restored() -> Mapping[str, Any]:
            totals: Mapping[str, Any] = app.status()["restore"]["totals"]
            return totals if totals["restoring"] == 0 else {}

        totals = until(restored, 60, "and that all is restored")
        assert totals["done"] == totals["total"] > 0
        proof.finish(app, twin=True)


@pytest.mark.timeout(600)
def test_executors_killed_under_load(kafka: KafkaConfig, tmp_path: Path) -> None:
    """R1. The driver lives on, and other executors go on with the work of the dead one."""
    chooser = random.Random(101)
    with (
        Bench(kafka, tmp_path, "executors") as bench,
        Proof(bench, load := bench.load(seed=101, rate=300)) as proof,
    ):
        app = bench.start(arguments=["--replicas", "2"])
        app.await_work()
        load.start()
        killed = set()
        for _ in range(2):
            until(lambda: len(executors(app)) == 2, 60, "two executor processes")
            app.await_epochs_beyond(app.epochs())
            require_work(bench, load)
            before = app.epochs()
            killed.add(kill_executor(app, chooser))
            app.await_epochs_beyond(before)
            proof.require_sound()
        assert len(killed) == 2
        await_usual_lag(app, load)
        proof.finish(app)


SOME_STEPS = (
    "metadata.before-commit.offsets",
    "store.after-restore",
    "transaction.before-commit",
    "transaction.after-commit",
    "epoch.tasks-committed",
    "metadata.deferred.commits",
)
"""A step of each part of an epoch. Before the commit the last one stands for all: nothing is committed yet."""
COMMITTED_STEPS = ("transaction.before-commit", "transaction.after-commit", "epoch.tasks-committed")
"""Steps around the commit: an attempt after it finds its work done."""


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("topology", "steps", "spec"),
    [
        (TOTALS, SOME_STEPS, ""),
        pytest.param(TOTALS, FAILPOINTS, "", marks=pytest.mark.chaos),
        pytest.param(ECHO, COMMITTED_STEPS, "", marks=pytest.mark.chaos),
        pytest.param(WINDOWS, COMMITTED_STEPS, "", marks=pytest.mark.chaos),
        pytest.param(HOP, COMMITTED_STEPS, "", marks=pytest.mark.chaos),
        pytest.param(FUNCTION, COMMITTED_STEPS, FUNCTIONS_CODE, marks=pytest.mark.chaos),
    ],
    ids=["state", "state-all", "no-state", "windows", "hop", "function"],
)
def test_driver_halted_at_every_step(
    kafka: KafkaConfig, tmp_path: Path, topology: str, steps: tuple[str, ...], spec: str
) -> None:
    """R3. One application all along: each start goes on from the state that the step before has left, and dies at the
    next step. In the first epoch of a start each partition commits for itself; in later ones both do together."""
    with (
        Bench(kafka, tmp_path, "steps", topology, spec=spec) as bench,
        Proof(bench, load := bench.load(seed=301, keys=50, rate=100)) as proof,
    ):
        for step in steps:
            load.send(200)
            # An epoch that has not begun yet, so that the restored state comes from real work.
            epoch = "" if step.startswith("store.") and "restore" in step else f"@{last_epoch(bench) + 1}"
            app = bench.start(env=failpoints(f"{step}{epoch}=halt"))
            await_halt(app, step)
            require_work(bench, load)
            proof.require_sound()
        load.start()
        app = bench.start(env=failpoints(f"transaction.after-commit@{last_epoch(bench) + 3}=halt"))
        await_halt(app, "transaction.after-commit")
        require_work(bench, load)
        proof.require_sound()
        app = bench.start()
        proof.finish(app)


SOME_FIRST_STEPS = (
    "driver.own-topics-made",
    "metadata.before-commit.state._metadata.metadata",
)


@pytest.mark.timeout(900)
@killed_at(SOME_FIRST_STEPS, FIRST_FAILPOINTS)
def test_driver_halted_at_every_step_of_its_first_start(
    kafka: KafkaConfig, tmp_path: Path, steps: tuple[str, ...]
) -> None:
    """R3. The next start writes what a first start writes once, and only if it is missing."""
    with (
        Bench(kafka, tmp_path, "first", TOTALS) as bench,
        Proof(bench, load := bench.load(seed=303, keys=50)) as proof,
    ):
        for step in steps:
            load.send(100)
            app = bench.start(env=failpoints(f"{step}=halt"))
            await_halt(app, step)
            require_work(bench, load)
            proof.require_sound()
            if step == "driver.own-topics-made":  # as when it was killed between two topics
                bench.admin.delete([f"{bench.prefix}-totals-changelog"])
        app = bench.start()
        proof.finish(app)


@pytest.mark.timeout(900)
def test_pairs_and_bad_records_come_once(kafka: KafkaConfig, tmp_path: Path) -> None:
    """R2 and R3 with a join and dead letters: killed anywhere, and after one partition of the join has committed and
    before the other one has. In the end the state has no records that can have no partner any more."""
    with (
        Bench(kafka, tmp_path, "pairs", JOIN, spec=DEAD_LETTERS) as bench,
        Proof(bench, load := bench.load(seed=202)) as proof,
    ):
        load.start()
        app = bench.start()
        app.await_work()
        require_work(bench, load)
        kill(app)
        step = "transaction.after-commit#1"  # the inputs have no partition 1
        app = bench.start(env=failpoints(f"{step}=halt"))
        await_halt(app, "transaction.after-commit")
        require_work(bench, load)
        proof.require_sound()
        app = bench.start()
        app.await_work()
        load.stop()
        load.close_windows()
        proof.await_caught_up(app)
        assert len(load.history.pairs) > 100 < 10 * len(load.history.bad)
        state = f"{bench.prefix}-pairs-changelog"
        until(lambda: len(rows_of(folded(kafka, state))) == 4, 60, "a row and an index of each side", every=0.5)
        proof.finish(app)


@pytest.mark.chaos
@pytest.mark.timeout(900)
def test_compacted_ahead_of_the_commit_log(own_kafka: KafkaConfig, tmp_path: Path) -> None:
    """R6: every partition is at N+1, the commit log is at N, and the values of N are gone from the changelog. R7: then
    the stores are rebuilt in a running app, whose local bases are wiped, without their tables, or changed."""
    chooser = random.Random(607)
    damages: tuple[Callable[[list[Path]], int], ...] = (
        lambda files: delete_some(files, chooser, share=1),
        lambda files: delete_some([file for file in files if file.suffix == ".sst"], chooser, share=1),
        lambda files: flip_bits(files, chooser),
    )
    with Bench(own_kafka, tmp_path, "compacted", TOTALS) as bench, Proof(bench, load := bench.load(seed=601)) as proof:
        changelog = f"{bench.prefix}-totals-changelog"
        for round_ in range(2):
            load.send(1000)
            app = bench.start(env=failpoints(f"epoch.tasks-committed@{round_}=halt"))
            await_halt(app, "epoch.tasks-committed")
            require_work(bench, load)
            before, now = compact(own_kafka, changelog, partitions=2)
            assert now < before or round_ == 0, "nothing was compacted"
            compact(own_kafka, f"{bench.prefix}-metadata", partitions=1)
        app = bench.start()
        app.await_work()
        load.send(1000)  # behind the epoch without records that a start may run

        def restored() -> int:
            app.require_alive()
            return int(app.status()["restore"]["totals"]["restored"])  # offsets

        for damage in damages:
            proof.await_caught_up(app)
            until(lambda: lag(bench) == 0, 60, "the last epoch has ended, and nobody works on the files")
            whole = sum(bench.admin.end_offsets(changelog).values())
            before = restored()
            damage(base_files(app.state_dir))
            fence(bench, "totals/0", "totals/1")
            load.send(1000)  # the work that is left
            # Each epoch after a failure restores once more, from the new base: soon `total` belongs to that.
            until(lambda: restored() - before >= whole, 60, "both stores are read from the topic's beginning")  # noqa: B023
        proof.finish(app)


@pytest.mark.timeout(900)
def test_broker_bounced_under_load(own_broker: EmbeddedBroker, own_kafka: KafkaConfig, tmp_path: Path) -> None:
    """R8."""
    with (
        Bench(own_kafka, tmp_path, "bounce") as bench,
        Proof(bench, load := bench.load(seed=801, rate=300)) as proof,
    ):
        app = bench.start()
        app.await_work()
        load.start()
        for hard in (True, False):
            epochs = app.epochs()
            app.await_epochs_beyond(epochs)
            require_work(bench, load)
            bounce(own_broker, hard)
            proof.require_sound()
        app.await_epochs_beyond(app.epochs())
        proof.finish(app)


@pytest.mark.timeout(600)
def test_the_drivers_python_process_killed_at_every_step(kafka: KafkaConfig, tmp_path: Path) -> None:
    """R3. Its JVM notices by itself; meanwhile the next driver may be there, and fences it. The epoch is held up, so
    that each step comes in the middle of one."""
    with (
        Bench(kafka, tmp_path, "driver", TOTALS + ECHO) as bench,
        Proof(bench, load := bench.load(seed=302, keys=50)) as proof,
    ):
        for step in DRIVER_FAILPOINTS:
            load.send(200)
            app = bench.start(env=failpoints("epoch.planned=pause:8000", f"{step}=halt"))
            await_halt(app, step)
            require_work(bench, load)
            proof.require_sound()
        app = bench.start()
        proof.finish(app)


@pytest.mark.chaos
@pytest.mark.timeout(600)
def test_the_death_of_the_java_process_is_told(kafka: KafkaConfig, tmp_path: Path) -> None:
    """It is killed alone, as by a system that is short of memory: one line reports it, and a new start goes on."""
    with Bench(kafka, tmp_path, "engine") as bench, Proof(bench, load := bench.load(seed=211, rate=200)) as proof:
        load.start()
        app = bench.start()
        app.await_work()
        require_work(bench, load)
        kill_jvm_only(app)
        assert app.await_exit(30) == 3, app.tail()
        errors = [line for line in app.said.replace("\r", "\n").splitlines() if line.startswith("error: ")]
        assert len(errors) == 1, app.said
        assert "Java process has ended (by SIGKILL" in errors[0]
        assert "Traceback" not in app.said
        app = bench.start()
        app.await_work()
        proof.finish(app)


@pytest.mark.chaos
@pytest.mark.timeout(600)
def test_an_app_and_its_own_broker_killed_under_load(tmp_path: Path) -> None:
    """R2 and R8 as on a laptop: no Kafka is named, so the kill includes the broker."""
    manifest = tmp_path / "app.yaml"
    manifest.write_text(manifest_text("own", TOTALS))
    with ExitStack() as at_the_end:

        def start(run: int) -> AppProcess:
            app = AppProcess(manifest, tmp_path / "state", None, tmp_path / f"{run}.log")
            at_the_end.callback(app.end)
            until(app.status, START_SECONDS, f"run {run} is up", every=0.2)
            return app

        app = start(1)
        kafka = KafkaConfig(json.loads((app.state_dir / "app.json").read_text())["bootstrapServers"])
        load = Load(kafka, "own", 212, rate=300, ticks=False)
        load.start()
        at_the_end.callback(load.stop)
        app.await_work(2)
        kill(app)
        assert load.running
        app = start(2)  # and the load goes on: the broker keeps its address
        app.await_work()
        load.stop()
        load.send_each_key()
        reader = LiveReader(kafka, checks_of({"totals": "own-totals"}, load.history))
        at_the_end.callback(reader.close)
        until(lambda: reader.missing() is None, 120, lambda: f"all results; it said:\n{app.tail()}", every=0.2)
        assert app.stop() == 0


@pytest.mark.timeout(600)
def test_until_caught_up_is_exact(kafka: KafkaConfig, tmp_path: Path) -> None:
    """A bounded run ends by itself with everything done; a second one goes on where it ended."""
    with Bench(kafka, tmp_path, "bounded") as bench, Proof(bench, load := bench.load(seed=101)) as proof:
        for records in (5000, 3000):
            load.send(records)
            app = bench.start(arguments=["--until-caught-up"])
            assert app.await_exit(120) == 0, app.tail()
            assert "WARNING" not in app.said  # the output of Java and Spark belongs in the log
            assert f" has caught up: {records:,} records read, " in app.said, app.tail()
        proof.verify()
