# SPDX-License-Identifier: Apache-2.0
"""Crashes at moments that are rarely hit by chance, and the proof that the checks would notice a mistake."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from confluent_kafka import Producer

from lib.app import COUNTED, ECHO, SEEN, TOTALS, Bench, Load
from lib.broker import in_order
from lib.faults import await_halt, await_hit, failpoints, halt_at, jvm, stopped
from lib.mutants import MARKER_OUTSIDE, NO_FENCE, PROGRAM
from lib.verify import MARKER, Proof, committed
from lib.wait import until
from streamapp.kafka.config import KafkaConfig

pytestmark = pytest.mark.kafka


@pytest.mark.timeout(600)
def test_a_position_behind_somebody_elses_open_transaction(kafka: KafkaConfig, tmp_path: Path) -> None:
    """Positions of many source partitions, also of other sub-topologies, lie in one partition of the position topic.
    One may be committed behind another one's transaction that is still open, where a reader of committed records
    does not see it yet. It was committed all the same: its records must not be sent again."""
    with (
        Bench(kafka, tmp_path, "sibling", ECHO, parallelism=1) as bench,
        Proof(bench, load := bench.load(seed=701)) as proof,
    ):
        load.send(500)
        app = bench.start(env=failpoints("epoch.tasks-committed@1=halt"))
        app.await_work()
        proof.await_caught_up(app)
        settings = {"transactional.id": f"{bench.prefix}/another", "transaction.timeout.ms": 300_000}
        sibling = Producer({**kafka.for_librdkafka(), **settings})
        sibling.init_transactions(30)
        sibling.begin_transaction()
        sibling.produce(f"{bench.prefix}-position", bytes(8), b"another", partition=0)
        assert sibling.flush(30) == 0
        load.send(50)
        await_halt(app, "epoch.tasks-committed")
        app = bench.start()
        until(lambda: app.status(), 90, "the app is up")
        held_back = time.monotonic() + 8
        until(lambda: time.monotonic() > held_back, 30, "the replay, which must send nothing")
        proof.require_sound()
        sibling.abort_transaction(30)
        proof.finish(app)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "step", ["transaction.before-markers", pytest.param("epoch.tasks-committed", marks=pytest.mark.chaos)]
)
def test_at_least_once_loses_nothing_and_has_no_transactions(kafka: KafkaConfig, tmp_path: Path, step: str) -> None:
    spec = "guarantee: at-least-once"
    with Bench(kafka, tmp_path, "at-least", TOTALS + ECHO, spec=spec) as bench:
        load = bench.load(seed=801, keys=50)
        load.send(500)
        await_halt(bench.start(env=failpoints(f"{step}=halt")), step)
        load.send(500)
        app = bench.start()
        numbers = load.history.numbers
        sent = {(key, n) for key, all_of in numbers.items() for n in range(len(all_of))}

        def results(topic: str) -> list[tuple[str, dict[str, int]]]:
            app.require_alive()
            found = committed(kafka, bench.topics[topic])
            return [((message.key() or b"").decode(), json.loads(message.value() or b"")) for message in found]

        def missing() -> set[tuple[str, int]]:
            return sent - {(key, value["seq"]) for key, value in results("echo")}

        def behind() -> list[str]:
            counts = {key: value["count"] for key, value in results("totals")}
            return [key for key, all_of in numbers.items() if counts.get(key, 0) < len(all_of)]

        until(lambda: not missing(), 120, "each record's echo", every=1)
        until(lambda: not behind(), 120, "totals of at least what was sent", every=1)
        assert app.stop() == 0
        # A transaction's end is a record too, which no reader gets.
        for topic in (*bench.topics.values(), f"{bench.prefix}-totals-changelog"):
            assert sum(bench.admin.end_offsets(topic).values()) == len(committed(kafka, topic)), topic


@pytest.mark.chaos
def test_at_least_once_stores_of_a_task_may_part(kafka: KafkaConfig, tmp_path: Path) -> None:
    """Some of the stores of one task had committed an epoch when it died, and others had not: the epoch runs again for
    all."""
    with Bench(kafka, tmp_path, "parted", SEEN + COUNTED, partitions=1, spec="guarantee: at-least-once") as bench:

        def send(topic: str, *keys: str) -> None:
            producer = in_order(kafka)
            for key in keys:
                producer.produce(bench.topics[topic], b'{"n": 1}', key.encode())
            assert producer.flush(30) == 0

        send("ticks", "a", "b")
        send("numbers", "a", "b")
        assert bench.start(arguments=["--until-caught-up"]).await_exit() == 0
        send("numbers", "a", "a", "b")
        halt_at(bench, "epoch.tasks-committed")
        changelog = f"{bench.prefix}-counts-changelog"
        producer = in_order(kafka)
        for partition, markers in enumerate(_markers(kafka, changelog, 2)):
            producer.produce(changelog, markers[-2], MARKER, partition=partition)
        assert producer.flush(30) == 0
        assert bench.start(arguments=["--until-caught-up"]).await_exit() == 0
        send("numbers", "a", "b")
        assert bench.start(arguments=["--until-caught-up"]).await_exit() == 0
        totals = committed(kafka, bench.topics["totals"])
        counts = {message.key(): json.loads(message.value() or b"")["n"] for message in totals}
        assert counts[b"a"] >= 4
        assert counts[b"b"] >= 3


def _markers(kafka: KafkaConfig, changelog: str, partitions: int) -> list[list[bytes]]:
    """The markers of each partition's epochs, in order."""
    found: list[list[bytes]] = [[] for _ in range(partitions)]
    for message in committed(kafka, changelog):
        if message.key() == MARKER:
            found[message.partition() or 0].append(message.value() or b"")
    return found


def _tell_to_stop_at(bench: Bench, proof: Proof, load: Load, failpoint: str, pause_ms: int) -> None:
    """Stops the app in its second epoch, which pauses at the failpoint meanwhile."""
    load.send(500)
    app = bench.start(env=failpoints(f"{failpoint}@1=pause:{pause_ms}"))
    proof.await_caught_up(app)
    load.send(500)
    await_hit(app, failpoint)
    assert app.stop() == 0


@pytest.mark.timeout(600)
def test_told_to_stop_it_ends_the_epoch_under_way(kafka: KafkaConfig, tmp_path: Path) -> None:
    with (
        Bench(kafka, tmp_path, "drained", TOTALS, interval="0s") as bench,
        Proof(bench, load := bench.load(seed=802)) as proof,
    ):
        _tell_to_stop_at(bench, proof, load, "epoch.planned", 1_500)
        files = [(message.key() or b"").decode() for message in committed(kafka, f"{bench.prefix}-metadata")]
        assert [path for path in files if path.endswith("/commits/1")], files
        proof.require_sound()


@pytest.mark.timeout(600)
def test_told_to_stop_it_does_not_wait_for_ever(kafka: KafkaConfig, tmp_path: Path) -> None:
    with (
        Bench(kafka, tmp_path, "stuck", TOTALS) as bench,
        Proof(bench, load := bench.load(seed=803)) as proof,
    ):
        _tell_to_stop_at(bench, proof, load, "transaction.before-commit", 600_000)
        app = bench.start()
        app.await_work()
        jvm(app).suspend()
        assert app.stop() == 0, "the engine does not answer"
        proof.finish(bench.start())


# --- would the checks notice? -------------------------------------------------------------------------------


@pytest.mark.chaos
@pytest.mark.timeout(600)
def test_without_the_fence_the_zombie_is_noticed(kafka: KafkaConfig, tmp_path: Path, root: Path) -> None:
    mutation = NO_FENCE.compiled(root, tmp_path / "mutant")
    with Bench(kafka, tmp_path, "no-fence", TOTALS) as bench, Proof(bench, load := bench.load(seed=901)) as proof:
        load.send(500)
        held = failpoints("transaction.before-commit@1=pause:3000")
        zombie = bench.start("zombie", env={**held, **mutation}, program=PROGRAM)
        zombie.await_work()
        load.send(500)
        await_hit(zombie, "transaction.before-commit")
        with stopped(zombie):
            winner = bench.start("winner", env=mutation, program=PROGRAM)
            winner.await_work()
        assert NO_FENCE.mark in winner.said
        proof.await_violation("I2")


@pytest.mark.chaos
@pytest.mark.timeout(600)
@pytest.mark.parametrize("topology", [TOTALS, ECHO], ids=["state", "no-state"])
def test_a_marker_outside_the_transaction_is_noticed(
    kafka: KafkaConfig, tmp_path: Path, root: Path, topology: str
) -> None:
    mutation = MARKER_OUTSIDE.compiled(root, tmp_path / "mutant")
    step = "transaction.before-commit"
    with Bench(kafka, tmp_path, "marker", topology) as bench, Proof(bench, load := bench.load(seed=902)) as proof:
        load.send(500)
        await_halt(bench.start(env={**failpoints(f"{step}=halt"), **mutation}, program=PROGRAM), step)
        app = bench.start(env=mutation, program=PROGRAM)
        load.start()  # lost records show when the same keys come again
        proof.await_violation("I1 I3")
        assert MARKER_OUTSIDE.mark in app.said


@pytest.mark.timeout(600)
def test_a_reader_of_uncommitted_records_is_noticed(kafka: KafkaConfig, tmp_path: Path) -> None:
    with (
        Bench(kafka, tmp_path, "uncommitted", ECHO) as bench,
        Proof(bench, load := bench.load(seed=903), isolation="read_uncommitted") as proof,
    ):
        load.send(500)
        await_halt(bench.start(env=failpoints("transaction.before-commit=halt")), "transaction.before-commit")
        bench.start()
        proof.await_violation("I2")
