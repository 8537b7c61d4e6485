# SPDX-License-Identifier: Apache-2.0
"""The long forms: many kills, and random mixes of faults. The seed is printed; CHAOS_SEED repeats a run, CHAOS_KILLS
and CHAOS_ROUNDS make it shorter or longer."""

from __future__ import annotations

import math
import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from lib.app import ECHO, HOP, JOIN, START_SECONDS, TOTALS, WINDOWS, AppProcess, Bench, Load
from lib.faults import (
    DRIVER_FAILPOINTS,
    FAILPOINTS,
    FIRST_EPOCH_SECONDS,
    await_halt,
    await_hit,
    await_usual_lag,
    base_files,
    bounce,
    compact,
    delete_some,
    executors,
    failpoints,
    fence,
    flip_bits,
    halt_at,
    kill,
    kill_executor,
    kill_python_only,
    open_transactions,
    require_work,
    stopped,
    stopped_executor,
)
from lib.verify import Proof
from lib.wait import until
from streamapp.kafka.broker import EmbeddedBroker
from streamapp.kafka.config import KafkaConfig

pytestmark = pytest.mark.chaos

KILLS = int(os.environ.get("CHAOS_KILLS", "20"))
ROUNDS = int(os.environ.get("CHAOS_ROUNDS", "12"))


def seed() -> int:
    chosen = int(os.environ.get("CHAOS_SEED") or random.SystemRandom().randrange(1_000_000))
    print(f"CHAOS_SEED={chosen}")
    return chosen


def test_driver_killed_again_and_again(own_kafka: KafkaConfig, tmp_path: Path) -> None:
    """R2. Killed at a random number of epochs after each start; none means during the restore."""
    chooser = random.Random(chosen := seed())
    with (
        Bench(own_kafka, tmp_path, "kills", TOTALS + ECHO + WINDOWS) as bench,
        Proof(bench, load := bench.load(chosen, rate=300)) as proof,
    ):
        load.start()
        for _ in range(KILLS):
            app = bench.start()
            epochs = chooser.randrange(4)
            if epochs:
                app.await_work(epochs, FIRST_EPOCH_SECONDS)
            else:
                until(app.status, 90, "the app is up")
            require_work(bench, load)
            chooser.choice((kill, kill, kill_python_only))(app)
            proof.require_sound()
        app = bench.start()
        app.await_work()
        proof.finish(app, twin=True)


def test_executors_killed_again_and_again(own_kafka: KafkaConfig, tmp_path: Path) -> None:
    """R1. The driver lives on and goes on by itself."""
    chooser = random.Random(chosen := seed())
    with (
        Bench(own_kafka, tmp_path, "executors") as bench,
        Proof(bench, load := bench.load(chosen, rate=300)) as proof,
    ):
        app = bench.start(arguments=["--replicas", "2"])
        app.await_work()
        load.start()
        for _ in range(KILLS):
            before = app.epochs()
            require_work(bench, load)
            kill_executor(app, chooser)
            if chooser.random() < 0.7:  # else another executor at once
                app.await_epochs_beyond(before)
            proof.require_sound()
        app.await_epochs_beyond(app.epochs())
        await_usual_lag(app, load)
        proof.finish(app, twin=True)


@pytest.mark.parametrize("topology", [TOTALS + ECHO, JOIN], ids=["totals", "pairs"])
def test_halted_at_every_step_again_and_again(own_kafka: KafkaConfig, tmp_path: Path, topology: str) -> None:
    """R3. Each step of an epoch and of the driver, in another order each time."""
    chooser = random.Random(chosen := seed())
    with Bench(own_kafka, tmp_path, "steps", topology) as bench, Proof(bench, load := bench.load(chosen)) as proof:
        for _ in range(math.ceil(ROUNDS / 4)):
            for step in chooser.sample(steps := (*FAILPOINTS, *DRIVER_FAILPOINTS), len(steps)):
                load.send(300)
                # In the middle of an epoch, where the step is the driver's.
                held_up = ["epoch.planned=pause:8000"] if step in DRIVER_FAILPOINTS else []
                app = bench.start(env=failpoints(*held_up, f"{step}=halt"))
                print(await_halt(app, step, START_SECONDS))
                require_work(bench, load)
                proof.require_sound()
        app = bench.start()
        proof.finish(app, twin=topology != JOIN)


def test_halted_when_a_hop_has_been_purged(own_kafka: KafkaConfig, tmp_path: Path) -> None:
    """R3. All that every reader has committed is deleted from the internal topic, and no process remembers the
    deletion."""
    step = "housekeeping.hops-purged"
    with (
        Bench(own_kafka, tmp_path, "purged", HOP) as bench,
        Proof(bench, load := bench.load(seed(), rate=300)) as proof,
    ):
        load.start()
        for _ in range(math.ceil(ROUNDS / 4)):
            app = bench.start(env=failpoints(f"{step}=halt"))
            print(await_halt(app, step, START_SECONDS))
            require_work(bench, load)
            hops = [topic for topic in bench.all_topics() if topic.endswith("-repartition")]
            assert any(first > 0 for hop in hops for first in bench.admin.start_offsets(hop).values()), hops
            proof.require_sound()
        app = bench.start()
        proof.finish(app, twin=True)


def test_asleep_again_and_again(own_kafka: KafkaConfig, tmp_path: Path) -> None:
    """R4. The whole app and one executor alone, in turn, are frozen at any moment, until the broker has given up the
    open transactions."""
    chooser = random.Random(chosen := seed())
    with (
        Bench(own_kafka, tmp_path, "asleep", TOTALS, interval="0s", spec="transactionTimeout: 5s") as bench,
        Proof(bench, load := bench.load(chosen, rate=1000)) as proof,
    ):
        load.start()
        app = bench.start(arguments=["--replicas", "2"])
        app.await_work()
        given_up = 0
        for _ in range(20 * ROUNDS):
            if given_up == ROUNDS:
                break
            app.await_epochs_beyond(app.epochs())
            until(lambda: len(executors(app)) == 2, 60, "two executor processes")
            alone = given_up % 2 == 0
            with stopped_executor(chooser.choice(executors(app))) if alone else stopped(app):
                if not open_transactions(bench):
                    continue
                require_work(bench, load)
                until(lambda: not open_transactions(bench), 60, "the broker gave the transaction up", every=0.5)
                given_up += 1
            proof.require_sound()
        assert given_up == ROUNDS, "too often there was nothing under way"
        app.await_epochs_beyond(app.epochs())
        proof.finish(app, twin=True)


def test_zombies_at_every_step(own_kafka: KafkaConfig, tmp_path: Path) -> None:
    """R5. A process that was frozen at any step goes on after its successor has done the same work, and more."""
    chooser = random.Random(chosen := seed())
    with (
        Bench(own_kafka, tmp_path, "zombies", TOTALS + ECHO) as bench,
        Proof(bench, load := bench.load(chosen, rate=100)) as proof,
    ):
        load.start()
        for _ in range(math.ceil(ROUNDS / 12)):
            for step in chooser.sample(FAILPOINTS, len(FAILPOINTS)):
                zombie = bench.start(f"zombie-{step}", env=failpoints(f"{step}=pause:3000"))
                print(await_hit(zombie, step))
                with stopped(zombie):
                    require_work(bench, load)
                    winner = bench.start("winner")
                    winner.await_work()
                    proof.await_more(winner)
                assert zombie.await_exit(60) == 3, zombie.tail()
                assert "another runtime of application" in zombie.said
                proof.require_sound()
                kill(winner)
        app = bench.start()
        app.await_work()
        proof.finish(app, twin=True)


@pytest.mark.parametrize(("topology", "store"), [(TOTALS, "totals"), (JOIN, "pairs")], ids=["totals", "pairs"])
def test_compacted_again_and_again(own_kafka: KafkaConfig, tmp_path: Path, topology: str, store: str) -> None:
    """R6. Every partition is ahead of the commit log, and only the last value of each key is left."""
    chooser = random.Random(chosen := seed())
    with Bench(own_kafka, tmp_path, "compacted", topology) as bench, Proof(bench, load := bench.load(chosen)) as proof:
        for round_ in range(ROUNDS):
            load.send(chooser.randrange(100, 2000))
            halt_at(bench, "epoch.tasks-committed")
            require_work(bench, load)
            before, now = compact(own_kafka, f"{bench.prefix}-{store}-changelog", partitions=2)
            assert now < before or round_ == 0, "nothing was compacted"
            compact(own_kafka, f"{bench.prefix}-metadata", partitions=1)
            proof.require_sound()
        app = bench.start()
        proof.finish(app, twin=topology == TOTALS)


def test_damaged_again_and_again(own_kafka: KafkaConfig, tmp_path: Path) -> None:
    """R7. Local files of a running app are lost or changed: those that its stores are rebuilt from, and those that they
    work on. Then the stores are rebuilt."""
    chooser = random.Random(chosen := seed())
    with (
        Bench(own_kafka, tmp_path, "damaged", TOTALS + WINDOWS) as bench,
        Proof(bench, load := bench.load(chosen, rate=300)) as proof,
    ):
        load.start()
        app = bench.start()
        app.await_work()
        for _ in range(ROUNDS):
            epochs = app.epochs()
            app.await_epochs_beyond(epochs)
            require_work(bench, load)
            files = base_files(app.state_dir)
            if chooser.random() < 0.5:
                print("deleted", delete_some(files, chooser, share=chooser.choice((0.1, 0.5, 1))))
            else:
                print("changed", flip_bits(chooser.sample(files, math.ceil(len(files) / 3)), chooser))
            fence(bench, "totals/0", "totals/1", "windows/0", "windows/1")
            app.await_epochs_beyond(app.epochs())
            proof.require_sound()
        proof.finish(app, twin=True)


def test_broker_bounced_again_and_again(own_broker: EmbeddedBroker, own_kafka: KafkaConfig, tmp_path: Path) -> None:
    """R8."""
    chooser = random.Random(chosen := seed())
    with (
        Bench(own_kafka, tmp_path, "bounce", TOTALS + ECHO + WINDOWS) as bench,
        Proof(bench, load := bench.load(chosen, rate=300)) as proof,
    ):
        app = bench.start()
        app.await_work()
        load.start()
        for _ in range(ROUNDS):
            if chooser.random() < 0.7:  # else while it still recovers
                app.await_epochs_beyond(app.epochs())
            require_work(bench, load)
            bounce(own_broker, hard=chooser.random() < 0.5)
            proof.require_sound()
        app.await_epochs_beyond(app.epochs())
        proof.finish(app, twin=True)


@pytest.mark.parametrize("run", range(3))
def test_a_random_mix(own_broker: EmbeddedBroker, own_kafka: KafkaConfig, tmp_path: Path, run: int) -> None:
    """R20. Faults in random order and number, none among them."""
    chooser = random.Random(chosen := seed() + run)
    with (
        # Compaction waits for the transactions that a kill has left open.
        Bench(own_kafka, tmp_path, "mix", TOTALS + ECHO + WINDOWS, spec="transactionTimeout: 15s") as bench,
        Proof(bench, load := bench.load(chosen, rate=200)) as proof,
    ):
        mix = Mix(own_broker, own_kafka, bench, load, chooser)
        load.start()
        for _ in range(ROUNDS):
            fault = chooser.choice(mix.faults)
            print(f"fault: {fault.__name__}")
            fault()
            proof.require_sound()
        app = mix.alive()
        app.await_work()
        proof.finish(app, twin=True)


class Mix:
    """The faults of one application. Each leaves it alive or dead; the next one starts it if it needs it."""

    def __init__(
        self,
        broker: EmbeddedBroker,
        kafka: KafkaConfig,
        bench: Bench,
        load: Load,
        chooser: random.Random,
    ) -> None:
        self._broker, self._kafka, self._bench, self._load = broker, kafka, bench, load
        self._chooser = chooser
        self._app: AppProcess | None = None
        self.faults: list[Callable[[], None]] = [
            self.nothing,
            self.kill,
            self.damage,
            self.halt,
            self.sleep,
            self.bounce,
            self.compact,
            self.stop,
        ]

    def alive(self) -> AppProcess:
        if self._app is None or self._app.exit_code is not None:
            self._app = self._bench.start()
        return self._app

    def nothing(self) -> None:
        app = self.alive()
        app.await_work()
        app.await_epochs_beyond(app.epochs())

    def kill(self) -> None:
        self.alive().await_work()
        require_work(self._bench, self._load)
        kill(self.alive())

    def damage(self) -> None:
        """Deletes some of the files that the stores are rebuilt from, and makes them be rebuilt."""
        app = self.alive()
        app.await_work()
        delete_some(base_files(app.state_dir), self._chooser, share=self._chooser.random())
        fence(self._bench, "totals/0", "totals/1", "windows/0", "windows/1")
        app.await_epochs_beyond(app.epochs())

    def halt(self) -> None:
        if self._app is not None:
            self._app.end()
        step = self._chooser.choice(FAILPOINTS)
        self._app = self._bench.start(env=failpoints(f"{step}=halt"))
        await_halt(self._app, step)

    def sleep(self) -> None:
        app = self.alive()
        app.await_work()
        before = self._load.history.records
        with stopped(app):
            until(lambda: self._load.history.records > before + 1000, 60, "the load goes on")
        app.await_epochs_beyond(app.epochs())

    def bounce(self) -> None:
        app = self.alive()
        app.await_work()
        bounce(self._broker, hard=self._chooser.random() < 0.5)
        app.await_epochs_beyond(app.epochs())

    def compact(self) -> None:
        self.alive().await_work()
        kill(self.alive())
        for store in ("totals", "windows"):
            compact(self._kafka, f"{self._bench.prefix}-{store}-changelog", partitions=2)
        compact(self._kafka, f"{self._bench.prefix}-metadata", partitions=1)

    def stop(self) -> None:
        app = self.alive()
        app.await_work()
        assert app.stop() == 0
