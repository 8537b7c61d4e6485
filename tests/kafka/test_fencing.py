# SPDX-License-Identifier: Apache-2.0
"""Two runtimes of one application at once, and a runtime that slept too long: only one of them has an effect."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from lib.app import ECHO, TOTALS, Bench, manifest_text
from lib.broker import group_offsets, unique_name
from lib.faults import (
    await_hit,
    executors,
    executors_at,
    failpoints,
    last_epoch,
    open_transactions,
    quick_broker,
    require_work,
    stopped,
    stopped_executor,
)
from lib.verify import Proof, committed
from lib.wait import until
from streamapp.kafka.admin import Admin, TopicSpec
from streamapp.kafka.broker import EmbeddedBroker
from streamapp.kafka.config import KafkaConfig
from streamapp.kafka.group import REFRESH_SECONDS, GroupPosition

pytestmark = pytest.mark.kafka

TAKEN_OVER = "another runtime of application '{}' has taken over: this one stops"


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    """A broker that forgets a transactional id that was not used for some seconds, as others do after a week."""
    with quick_broker(
        tmp_path_factory.mktemp("broker"),
        transactional_id_expiration_ms="5000",
        transaction_remove_expired_transaction_cleanup_interval_ms="500",
    ) as running:
        yield running


def known_ids(kafka: KafkaConfig) -> set[str]:
    """The transactional ids that the broker knows; in its records they come after a version and their length."""
    state = {message.key(): message.value() for message in committed(kafka, "__transaction_state")}
    return {key[4:].decode() for key, value in state.items() if key is not None and value is not None}


@pytest.mark.chaos
@pytest.mark.timeout(600)
def test_the_older_of_two_runtimes_stops(kafka: KafkaConfig, tmp_path: Path) -> None:
    with Bench(kafka, tmp_path, "two") as bench, Proof(bench, load := bench.load(seed=501, rate=200)) as proof:
        load.start()
        older = bench.start("older")
        older.await_work()
        newer = bench.start("newer")
        assert older.await_exit(90) == 3, older.tail()
        assert TAKEN_OVER.format(bench.prefix) in older.said
        newer.await_work()
        proof.finish(newer)


@pytest.mark.timeout(600)
def test_the_older_of_two_runtimes_stops_also_without_work(kafka: KafkaConfig, tmp_path: Path) -> None:
    with Bench(kafka, tmp_path, "idle", ECHO) as bench, Proof(bench, load := bench.load(seed=508)) as proof:
        load.send(500)
        older = bench.start("older")
        older.await_work()
        proof.await_caught_up(older)
        newer = bench.start("newer")
        assert older.await_exit(90) == 3, older.tail()
        assert TAKEN_OVER.format(bench.prefix) in older.said
        load.send(500)
        proof.finish(newer)


@pytest.mark.timeout(600)
def test_a_name_between_a_record_and_its_marker(kafka: KafkaConfig, tmp_path: Path) -> None:
    """The newer runtime writes its name while the older one is about to commit: the older must not overlook it, or each
    would take the application back from the other."""
    with Bench(kafka, tmp_path, "name") as bench, Proof(bench, load := bench.load(seed=507, rate=200)) as proof:
        load.start()
        older = bench.start("older", env=failpoints("metadata.before-commit.offsets@3=pause:5000"))
        await_hit(older, "metadata.before-commit.offsets")
        with ExitStack() as held:
            with stopped(older):
                assert last_epoch(bench) == 2
                newer = bench.start("newer", env=failpoints("metadata.announced=pause:5000"))
                await_hit(newer, "metadata.announced")
                held.enter_context(stopped(newer))
            until(lambda: last_epoch(bench) >= 3, 60, "the older has committed what it was about to")
        assert older.await_exit(60) == 3, older.tail()
        assert TAKEN_OVER.format(bench.prefix) in older.said
        newer.await_work()
        proof.finish(newer)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("topology", [TOTALS, pytest.param(ECHO, marks=pytest.mark.chaos)], ids=["state", "no-state"])
def test_a_zombie_commits_after_the_winner(kafka: KafkaConfig, tmp_path: Path, topology: str) -> None:
    """R5. An attempt has sent everything and is about to commit; it sleeps, and its successor does the same work and
    more; then it wakes up and commits. Only the winner's records count, and the zombie does not disturb it."""
    with Bench(kafka, tmp_path, "zombie", topology) as bench, Proof(bench, load := bench.load(seed=502)) as proof:
        load.send(500)
        zombie = bench.start("zombie", env=failpoints("transaction.before-commit@1=pause:3000"))
        zombie.await_work()
        load.send(500)
        await_hit(zombie, "transaction.before-commit")
        with stopped(zombie):
            assert open_transactions(bench), "the zombie had nothing to commit"
            winner = bench.start("winner")
            winner.await_work()
            proof.await_caught_up(winner)
            load.send(500)
            proof.await_caught_up(winner)
        assert zombie.await_exit(60) == 3, zombie.tail()
        assert TAKEN_OVER.format(bench.prefix) in zombie.said
        proof.finish(winner)


@pytest.mark.timeout(600)
def test_asleep_beyond_the_transaction_timeout(own_kafka: KafkaConfig, tmp_path: Path) -> None:
    """R4. The broker gives up a transaction whose owner, a task or the driver, stands still. When the owner goes on it
    must not believe that it has committed, nor that another runtime has taken over; and it must do the work again by
    itself. The same holds when the broker has forgotten the transaction altogether."""
    steps = ("transaction.before-commit", "metadata.before-commit.offsets")
    with (
        Bench(own_kafka, tmp_path, "asleep", TOTALS, spec="transactionTimeout: 12s") as bench,
        Proof(bench, load := bench.load(seed=401, rate=200)) as proof,
    ):
        # Records come all the time, so that an epoch is reached when the test waits for it, and not before.
        load.start()
        app = bench.start(env=failpoints(*(f"{step}@{epoch}=pause:4000" for epoch, step in enumerate(steps, start=1))))
        for step in steps:
            await_hit(app, step)
            with stopped(app):
                assert open_transactions(bench), "there was nothing under way"
                until(lambda: not open_transactions(bench), 60, "the broker gave the transaction up", every=0.5)
        load.stop()
        proof.await_caught_up(app)
        ids = [f"{bench.prefix}/{name}" for name in ("metadata", "totals/0", "totals/1")]
        until(lambda: not known_ids(own_kafka).intersection(ids), 60, "the broker has forgotten its ids", every=0.5)
        load.send(500)
        proof.finish(app)


@pytest.mark.timeout(600)
def test_an_executor_asleep_beyond_the_transaction_timeout(own_kafka: KafkaConfig, tmp_path: Path) -> None:
    """R4. The same with one executor alone, while the driver and another one stay awake."""
    step = "transaction.before-commit"
    with (
        Bench(own_kafka, tmp_path, "sleeper", spec="transactionTimeout: 5s") as bench,
        Proof(bench, load := bench.load(seed=402, rate=200)) as proof,
    ):
        load.start()
        app = bench.start(arguments=["--replicas", "2"], env=failpoints(f"{step}@2#1=pause:3000"))
        (sleeper,) = until(lambda: executors_at(app, step), 90, "an executor about to commit")
        with stopped_executor(sleeper):
            require_work(bench, load)
            assert open_transactions(bench), "there was nothing under way"
            until(lambda: not open_transactions(bench), 60, "the broker gave the transaction up", every=0.5)
        app.await_epochs_beyond(app.epochs())
        assert sleeper in executors(app), "the executor was given up instead of its transaction"
        proof.finish(app)


def test_an_application_id_has_one_owner(kafka: KafkaConfig, tmp_path: Path) -> None:
    with Bench(kafka, tmp_path, "owner", ECHO) as bench, Proof(bench, load := bench.load(seed=503)) as proof:
        load.send(100)
        app = bench.start()
        app.await_work()
        bench.manifest.write_text(manifest_text(bench.prefix, ECHO, name="somebody-else"))
        stranger = bench.start("stranger")
        assert stranger.await_exit() == 1, stranger.tail()
        assert f"applicationId '{bench.prefix}' belongs to 'local/{bench.prefix}'" in stranger.said
        load.send(100)
        proof.finish(app)  # undisturbed


def test_the_shown_position_is_never_set_back(kafka: KafkaConfig) -> None:
    """The driver was frozen before it had shown its own position, while another one took its place and went on."""
    group = unique_name("shown")
    Admin(kafka).create([TopicSpec(group, "test", 2)])
    with closing(GroupPosition(kafka, group)) as frozen, closing(GroupPosition(kafka, group)) as winner:
        assert winner.write({(group, 0): 20, (group, 1): 5})
        assert frozen.write({(group, 0): 10, (group, 1): 7})
        assert group_offsets(kafka, group, group) == {(group, 0): 20, (group, 1): 7}
        assert frozen.write({(group, 0): 30})
        assert group_offsets(kafka, group, group) == {(group, 0): 30, (group, 1): 7}


def test_the_shown_position_is_shown_again_though_nothing_moves(kafka: KafkaConfig) -> None:
    """Brokers forget silent groups."""
    group = unique_name("forgotten")
    Admin(kafka).create([TopicSpec(group, "test", 1)])
    client = AdminClient({**kafka.for_librdkafka()})
    with closing(GroupPosition(kafka, group)) as app:
        assert app.write({(group, 0): 20}, now=1000)
        client.delete_consumer_groups([group])[group].result(30)
        assert app.write({(group, 0): 20}, now=1000 + REFRESH_SECONDS)
        assert group_offsets(kafka, group, group) == {}, "written although it had not changed"
        assert app.write({(group, 0): 20}, now=1001 + REFRESH_SECONDS)
        assert group_offsets(kafka, group, group) == {(group, 0): 20}
