# SPDX-License-Identifier: Apache-2.0
"""The changelog store under every operation of Spark's operators: the state rebuilt from the topic alone is the
committed state, whatever the operations were, and nothing else."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from lib.faults import flip_bits, quick_broker
from lib.probe import probe_session
from lib.verify import committed
from streamapp.kafka.admin import Admin, TopicSpec
from streamapp.kafka.config import KafkaConfig
from streamapp.spark.session import PREFIX

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory, root: Path) -> Iterator[SparkSession]:
    with probe_session(root / "tests" / "jvm", tmp_path_factory.mktemp("probe")) as session:
        yield session


class Stores:
    """The stores of one application, as one process sees them."""

    def __init__(
        self,
        spark: SparkSession,
        kafka: KafkaConfig,
        names: tuple[str, ...],
        largest_batch: int | None = None,
        partitions: int = 1,
    ) -> None:
        self._probe = spark._jvm.org.apache.spark.sql.execution.streaming.state.StoreProbe  # type: ignore[union-attr]
        self._spark = spark
        self._names = [name + (f"@{n}" if n else "") for n in range(partitions) for name in names]
        app = f"probe-{uuid4().hex[:8]}"
        self.settings = {
            PREFIX + "applicationId": app,
            PREFIX + "bootstrapServers": kafka.bootstrap_servers,
            PREFIX + "subTopology": "part",
            PREFIX + "stores": ",".join(f"{'s' if name == 'default' else name}=aaaa" for name in names),
            PREFIX + "maxParallelism": str(partitions),
        }
        self.topics = [f"{app}-{'s' if name == 'default' else name}-changelog" for name in names]
        config = {"cleanup.policy": "compact"}
        if largest_batch is not None:
            config["max.message.bytes"] = str(largest_batch)
        Admin(kafka).create([TopicSpec(t, "s", partitions, config, True) for t in self.topics])
        self.crash()

    def task(self, version: int, script: str) -> list[str]:
        return list(self._probe.run(self._spark._jsparkSession, self.settings, self._names, version, script))

    def crash(self) -> None:
        """Deletes every local file."""
        self._probe.forget(self.settings[PREFIX + "applicationId"])

    def leave(self) -> None:
        """The partition goes elsewhere; this process keeps what it has of it."""
        self._probe.leave()

    def restored(self) -> int:
        """The number of changelog offsets that the last restore has read."""
        bridge = self._spark._jvm.org.apache.spark.sql.streamapp.DriverBridge  # type: ignore[union-attr]
        parts = json.loads(bridge.restores())["partitions"]
        (part,) = (part for part in parts if (part["store"], part["partition"]) == ("s", 0))
        assert part["finished"]
        return int(part["total"])

    def restart(self) -> None:
        """Starts the query again in the same process."""
        self._probe.restart()

    def swap(self) -> None:
        """Goes on in the process that has the stores from before the restart."""
        self._probe.swap()

    def rebuilt(self, version: int) -> list[str]:
        self.crash()
        return self.task(version, "dump")


@pytest.fixture
def stores(spark: SparkSession, kafka: KafkaConfig) -> Callable[..., Stores]:
    return lambda *names: Stores(spark, kafka, names or ("default",))


def test_puts_and_removals_are_rebuilt(stores: Callable[..., Stores]) -> None:
    s = stores()
    s.task(0, "put:default:1:10 put:default:2:20 put:default:3:30 commit")
    s.task(1, "put:default:1:11 remove:default:2 commit")
    assert s.task(2, "dump") == s.rebuilt(2) == ["default/default/1=11", "default/default/3=30"]


def test_a_store_is_used_again_only_where_nobody_has_committed_since(stores: Callable[..., Stores]) -> None:
    """Where this process does not hold the transactional id, the end of the changelog decides."""
    s = stores()
    s.task(0, "put:default:1:10 commit")
    read = s.restored()
    s.settings |= {"probe.again": "true"}
    s.task(1, "put:default:2:20 commit")
    assert s.restored() == read, "nothing was restored"
    s.restart()
    s.task(2, "put:default:3:30 commit")
    s.swap()
    assert s.task(2, "put:default:3:31 commit") == []  # it is done, and its script is not run
    assert s.task(3, "dump") == s.rebuilt(3) == [f"default/default/{k}={k}0" for k in (1, 2, 3)]


def test_each_partition_of_a_task_is_looked_at_where_the_task_has_not_held_the_id(
    spark: SparkSession, kafka: KafkaConfig
) -> None:
    s = Stores(spark, kafka, ("default",), partitions=2)
    s.task(0, "put:default:1:10 put:default@1:2:20 commit")
    s.restart()
    s.task(1, "put:default:1:11 put:default@1:2:21 commit")
    s.swap()
    s.settings |= {"probe.again": "true"}
    assert s.task(1, "put:default:1:99 put:default@1:2:99 commit") == []
    assert s.rebuilt(2) == ["default/default/1=11", "default@1/default/2=21"]


def test_a_task_of_a_run_that_is_over_does_not_commit(spark: SparkSession) -> None:
    probe = spark._jvm.org.apache.spark.sql.streamapp.TransactionProbe  # type: ignore[union-attr]
    session = spark._jsparkSession
    probe.beginRun(session, "part", "first")
    probe.takeId(session, "probe", "first")
    probe.beginRun(session, "other", "of-another-part")
    probe.takeId(session, "probe", "first")
    probe.beginRun(session, "part", "second")
    probe.takeId(session, "probe", "second")
    with pytest.raises(Py4JJavaError, match="the query's run first is over: another one has begun"):
        probe.takeId(session, "probe", "first")


def test_merged_values_are_rebuilt_whole(stores: Callable[..., Stores]) -> None:
    s = stores()
    s.task(0, "put:default:1:1 merge:default:1:2 merge:default:7:70 commit")
    s.task(1, "merge:default:1:3 commit")
    s.task(2, "merge:default:1:4 remove:default:7 merge:default:7:71 commit")
    assert s.task(3, "dump") == s.rebuilt(3) == ["default/default/1=1,2,3,4", "default/default/7=71"]


def test_a_deleted_range_stays_deleted(stores: Callable[..., Stores]) -> None:
    s = stores()
    s.task(0, "put:default:1:1 put:default:2:2 put:default:3:3 put:default:4:4 commit")
    s.task(1, "put:default:3:33 range:default:2:4 put:default:5:5 commit")
    assert s.task(2, "dump") == s.rebuilt(2) == [f"default/default/{k}={k}" for k in (1, 4, 5)]


def test_column_families_keep_apart(stores: Callable[..., Stores]) -> None:
    s = stores()
    s.task(0, "put:default:1:1 put-in:default:left:1:100 put-in:default:right:1:200 commit")
    s.task(1, "put-in:default:right:2:201 commit")
    rows = ["default/default/1=1", "default/left/1=100", "default/right/1=200", "default/right/2=201"]
    assert s.task(2, "dump") == s.rebuilt(2) == rows


def test_several_stores_of_a_task_commit_together(stores: Callable[..., Stores]) -> None:
    s = stores("default", "other")
    s.task(0, "put:default:1:1 put:other:1:2 commit")
    # Both stores have committed locally, the transaction has not: neither change ever happened.
    with pytest.raises(Exception, match="the script says fail"):
        s.task(1, "put:default:1:5 put:other:1:6 store-commit fail")
    assert s.task(1, "dump") == ["default/default/1=1", "other/default/1=2"]
    s.task(1, "put:default:1:7 put:other:2:8 commit")
    assert s.rebuilt(2) == ["default/default/1=7", "other/default/1=2", "other/default/2=8"]


def test_an_aborted_epoch_leaves_nothing(stores: Callable[..., Stores]) -> None:
    s = stores()
    s.task(0, "put:default:1:1 commit")
    with pytest.raises(Exception, match="the script says fail"):
        s.task(1, "put:default:1:2 put:default:9:9 fail")
    assert s.task(1, "dump") == s.rebuilt(1) == ["default/default/1=1"]


@pytest.mark.parametrize("more", ["put:default:2:2", "remove:default:1", "commit"])
def test_an_attempt_that_was_given_up_is_refused(stores: Callable[..., Stores], more: str) -> None:
    """R5 within a process, where Kafka cannot tell the two attempts apart: the refusal does not depend on the next
    operation."""
    s = stores()
    s.task(0, "put:default:1:1 commit")
    with pytest.raises(Exception, match=r"part/0: task attempt \d+ does not own the transaction \(owner: 0\)"):
        s.task(1, f"put:default:1:9 succeeded {more}")
    s.task(1, "put:default:1:2 commit")
    assert s.task(2, "dump") == s.rebuilt(2) == ["default/default/1=2"]


def test_a_committed_epoch_is_not_run_again(stores: Callable[..., Stores]) -> None:
    s = stores()
    s.task(0, "put:default:1:1 commit")
    s.task(1, "put:default:1:2 commit")
    s.crash()
    assert s.task(1, "put:default:1:99 put:default:2:99 commit") == []  # the marker says 2: the script is not run
    assert s.rebuilt(2) == ["default/default/1=2"]


@pytest.mark.parametrize("version", [1, 4])
def test_any_other_version_is_refused(stores: Callable[..., Stores], version: int) -> None:
    s = stores()
    for done in range(3):
        s.task(done, f"put:default:1:{done} commit")
    s.crash()
    with pytest.raises(Exception, match=f"holds version 3, the epoch log asks for {version}"):
        s.task(version, "dump")


def test_a_changelog_of_another_topology_is_refused(stores: Callable[..., Stores]) -> None:
    s = stores()
    s.task(0, "put:default:1:1 commit")
    s.settings[PREFIX + "stores"] = "s=bbbb"
    s.crash()
    with pytest.raises(Exception, match="was written by topology aaaa, this one is bbbb"):
        s.task(1, "dump")


def test_a_changed_number_of_partitions_is_refused(stores: Callable[..., Stores]) -> None:
    s = stores()
    s.task(0, "put:default:1:1 commit")
    s.settings[PREFIX + "maxParallelism"] = "2"
    s.crash()
    with pytest.raises(Exception, match=r"has 1 partitions, spec\.maxParallelism is 2"):
        s.task(1, "dump")


def with_base(s: Stores) -> Stores:
    """The stores at version 1 with 500 rows, restored from the topic, which leaves a local base."""
    many = " ".join(f"put:default:{k}:{k}" for k in range(500))
    s.task(0, f"{many} commit")
    s.crash()
    with pytest.raises(Exception, match="the script says fail"):
        s.task(1, "fail")  # and reads nothing, so that nothing is in RocksDB's cache
    return s


def test_a_surviving_store_catches_up_from_its_local_base(stores: Callable[..., Stores]) -> None:
    s = with_base(stores())
    with pytest.raises(Exception, match="the script says fail"):
        s.task(1, "put:default:1:2 fail")
    s.task(1, "put:default:1:3 commit")
    # Nothing is left to read: the failed attempt had sent nothing yet, or else a row, with the marker of its abort
    # behind it.
    assert s.restored() in (0, 2)
    assert "default/default/1=3" in s.rebuilt(2)


def test_a_base_taken_from_a_live_store_is_gone_on_from(stores: Callable[..., Stores]) -> None:
    s = stores()
    s.settings[PREFIX + "localBaseRecords"] = "10"
    s.task(0, " ".join(f"put:default:{k}:{k}" for k in range(20)) + " commit")
    s.task(1, "put:default:1:100 remove:default:2 commit")  # which begins with taking the base, at version 1
    with pytest.raises(Exception, match="the script says fail"):
        s.task(2, "fail")
    s.task(2, "put:default:4:400 commit")
    behind = ("the commit of epoch 0", "a row", "a removal", "the marker of epoch 1", "its commit")
    assert s.restored() == len(behind)
    rows = {k: k for k in range(20) if k != 2} | {1: 100, 4: 400}
    assert s.task(3, "dump") == s.rebuilt(3) == sorted(f"default/default/{k}={n}" for k, n in rows.items())


@pytest.mark.parametrize("keys", [200_000, pytest.param(1_000_000, marks=pytest.mark.chaos)])
def test_a_query_that_starts_again_and_a_partition_that_comes_back_read_little(
    stores: Callable[..., Stores], keys: int
) -> None:
    s = stores()
    s.task(0, f"fill:default:0:{keys} commit")
    s.task(1, "put:default:1:100 commit")  # which begins with taking the base, at version 1
    little = keys // 10

    s.restart()
    with pytest.raises(Exception, match="the script says fail"):
        s.task(2, "put:default:1:101 close-former fail")
    assert s.restored() < little
    s.task(2, "put:default:2:200 commit")
    assert s.restored() < little

    s.leave()
    s.task(3, "put:default:3:300 commit")
    assert s.restored() < little

    rows = {k: k for k in range(keys)} | {1: 100, 2: 200, 3: 300}
    s.leave()
    kept = s.task(4, "dump")
    assert kept == sorted(f"default/default/{k}={n}" for k, n in rows.items())
    assert kept == s.rebuilt(4)
    assert s.restored() >= keys


def test_when_a_base_is_due(spark: SparkSession) -> None:
    probe = spark._jvm.org.apache.spark.sql.execution.streaming.state.StoreProbe  # type: ignore[union-attr]
    rows_and_changes = [
        (0, 20_000),
        (200_000, 20_000),
        (300_000, 30_000),
        (9_000_000, 900_000),
        (90_000_000, 1_000_000),
    ]
    for rows, changes in rows_and_changes:
        assert probe.baseDue(changes, rows, 1_000_000, 1), "a tenth of the store"
        assert not probe.baseDue(changes - 1, rows, 1_000_000, 1)
    assert probe.baseDue(0, 100, 1_000_000, 3), "or half of the age at which it is useless"


def test_bases_of_partitions_that_have_gone_free_the_disk(
    stores: Callable[..., Stores], spark: SparkSession, work_dir: Path
) -> None:
    probe = spark._jvm.org.apache.spark.sql.execution.streaming.state.StoreProbe  # type: ignore[union-attr]
    s = stores()
    s.task(0, "put:default:1:1 commit")
    assert probe.basesAfter(0) > 0
    assert probe.basesAfter(2) == 1, "that of the store at work"
    s.leave()
    assert probe.basesAfter(0) == 1
    assert list(work_dir.rglob("base/*"))
    assert probe.basesAfter(2) == 0
    assert not list(work_dir.rglob("base/*"))
    assert s.task(1, "dump") == ["default/default/1=1"]


def test_a_base_that_cannot_be_taken_fails_no_task(stores: Callable[..., Stores], work_dir: Path) -> None:
    s = stores()
    s.settings[PREFIX + "localBaseRecords"] = "10"
    s.task(0, "fill:default:0:20 commit")
    victims = list(work_dir.rglob("workingDir-*/MANIFEST-*"))
    assert victims, "there was nothing to delete"
    _lose(victims)  # of a database that is open: it goes on, and cannot be copied
    s.task(1, "put:default:1:100 commit")
    rows = sorted(f"default/default/{k}={n}" for k, n in ({k: k for k in range(20)} | {1: 100}).items())
    assert s.task(2, "dump") == s.rebuilt(2) == rows


def test_stores_of_a_former_run_leave_the_transaction_of_the_next_alone(stores: Callable[..., Stores]) -> None:
    s = stores()
    s.task(0, "put:default:1:1 commit")
    s.restart()
    s.task(1, "put:default:1:2 close-former put:default:2:2 commit")
    assert s.task(2, "dump") == s.rebuilt(2) == ["default/default/1=2", "default/default/2=2"]


@pytest.mark.parametrize("moment", ["close transaction-commit", "transaction-commit"])
def test_a_store_that_is_closed_while_its_task_commits(
    stores: Callable[..., Stores], kafka: KafkaConfig, moment: str
) -> None:
    """Spark releases a store when the store commits, before the transaction does: it may close it from then on."""
    s = stores()
    s.settings["probe.plain"] = "yes"  # one that can be queried: readers see it after the commit
    beside = f"{s.topics[0]}-beside"
    Admin(kafka).create([TopicSpec(beside, "s", 1, {}, True)])
    s.task(0, "put:default:1:1 commit")
    during = "" if moment.startswith("close") else f"close-in-commit:{beside} "
    s.task(1, f"put:default:1:2 {during}store-commit {moment}")
    assert s.task(2, "dump") == s.rebuilt(2) == ["default/default/1=2"]


TRANSITIONS = """
Unknown: restored -> Confirmed(1,10)
Unknown: restoredDone -> Done(1,7)
Unknown: write -> s cannot go from Unknown to Writing(1,7)
Unknown: write of another -> s cannot go from Unknown to Writing(1,8)
Unknown: flushed -> s cannot go from Unknown to Flushed(2,7,false)
Unknown: confirmed -> s cannot go from Unknown to Confirmed(2,20)
Unknown: reopen -> Unknown
Unknown: lost -> Unknown
Unknown: close -> Closed!
Confirmed: restored -> s cannot go from Confirmed(1,10) to Confirmed(1,10)
Confirmed: restoredDone -> s cannot go from Confirmed(1,10) to Done(1,7)
Confirmed: write -> Writing(1,7)
Confirmed: write of another -> Writing(1,8)
Confirmed: flushed -> s cannot go from Confirmed(1,10) to Flushed(2,7,false)
Confirmed: confirmed -> s cannot go from Confirmed(1,10) to Confirmed(2,20)
Confirmed: reopen -> Unknown
Confirmed: lost -> Unknown
Confirmed: close -> Closed!
Done: restored -> s cannot go from Done(1,7) to Confirmed(1,10)
Done: restoredDone -> s cannot go from Done(1,7) to Done(1,7)
Done: write -> Done(1,7)
Done: write of another -> s cannot go from Done(1,7) to Writing(1,8)
Done: flushed -> Done(1,7)
Done: confirmed -> s cannot go from Done(1,7) to Confirmed(2,20)
Done: reopen -> Unknown
Done: lost -> Unknown
Done: close -> Closed!
Writing: restored -> s cannot go from Writing(1,7) to Confirmed(1,10)
Writing: restoredDone -> s cannot go from Writing(1,7) to Done(1,7)
Writing: write -> Writing(1,7)
Writing: write of another -> s cannot go from Writing(1,7) to Writing(1,8)
Writing: flushed -> Flushed(2,7,false)
Writing: confirmed -> s cannot go from Writing(1,7) to Confirmed(2,20)
Writing: reopen -> Unknown
Writing: lost -> Unknown
Writing: close -> Closed!
Flushed: restored -> s cannot go from Flushed(2,7,false) to Confirmed(1,10)
Flushed: restoredDone -> s cannot go from Flushed(2,7,false) to Done(1,7)
Flushed: write -> s cannot go from Flushed(2,7,false) to Writing(1,7)
Flushed: write of another -> s cannot go from Flushed(2,7,false) to Writing(1,8)
Flushed: flushed -> s cannot go from Flushed(2,7,false) to Flushed(2,7,false)
Flushed: confirmed -> Confirmed(2,20)
Flushed: reopen -> Unknown
Flushed: lost -> Unknown
Flushed: close -> Flushed(2,7,true)
leaving: restored -> s cannot go from Flushed(2,7,true) to Confirmed(1,10)
leaving: restoredDone -> s cannot go from Flushed(2,7,true) to Done(1,7)
leaving: write -> s cannot go from Flushed(2,7,true) to Writing(1,7)
leaving: write of another -> s cannot go from Flushed(2,7,true) to Writing(1,8)
leaving: flushed -> s cannot go from Flushed(2,7,true) to Flushed(2,7,false)
leaving: confirmed -> Closed!
leaving: reopen -> s cannot go from Flushed(2,7,true) to Unknown
leaving: lost -> Closed!
leaving: close -> Flushed(2,7,true)
Closed: restored -> s cannot go from Closed to Confirmed(1,10)
Closed: restoredDone -> s cannot go from Closed to Done(1,7)
Closed: write -> s cannot go from Closed to Writing(1,7)
Closed: write of another -> s cannot go from Closed to Writing(1,8)
Closed: flushed -> s cannot go from Closed to Flushed(2,7,false)
Closed: confirmed -> s cannot go from Closed to Confirmed(2,20)
Closed: reopen -> s cannot go from Closed to Unknown
Closed: lost -> Closed
Closed: close -> Closed
"""
"""The allowed transitions and the refused ones; "!": the caller closes the database."""


def test_the_state_of_a_store_partition(spark: SparkSession) -> None:
    probe = spark._jvm.org.apache.spark.sql.execution.streaming.state.PartitionProbe  # type: ignore[union-attr]
    assert list(probe.transitions()) == TRANSITIONS.strip().splitlines()


def test_tasks_readers_and_a_close_meet_in_any_order(spark: SparkSession) -> None:
    """No broker, no task, no native database: the states alone, between threads."""
    probe = spark._jvm.org.apache.spark.sql.execution.streaming.state.PartitionProbe  # type: ignore[union-attr]
    seed = random.randrange(1_000_000)
    print(f"seed {seed}")
    *wrong, reads, late = probe.interleave(seed, 150)
    assert wrong == [], f"seed {seed}"
    assert int(reads.removeprefix("reads=")) > 150, f"seed {seed}: {reads}"
    assert int(late.removeprefix("late=")) > 5, f"seed {seed}: {late}"


@pytest.fixture
def work_dir(spark: SparkSession) -> Path:
    return Path(spark.conf.get("spark.local.dir") or "")


@pytest.mark.parametrize("read", ["get:default:7", "scan:default"])
def test_damaged_files_are_replaced_from_the_topic(stores: Callable[..., Stores], work_dir: Path, read: str) -> None:
    s = with_base(stores())
    tables = list(work_dir.rglob("base/*.sst"))
    assert tables, "there was nothing to damage"
    for path in tables:
        with path.open("r+b") as file:  # in the first block of rows: the blocks read when a table is opened stay whole
            content = file.read(101)
            file.seek(100)
            file.write(bytes([content[100] ^ 1]))
    with pytest.raises(Exception, match=r"damaged|block checksum mismatch"):
        s.task(1, f"put:default:1:2 {read} commit")
    s.task(1, f"put:default:1:3 {read} commit")
    assert len(s.task(2, "dump")) == 500
    assert "default/default/1=3" in s.rebuilt(2)


def test_a_base_serves_when_only_the_database_is_damaged(stores: Callable[..., Stores], work_dir: Path) -> None:
    s = with_base(stores())
    s.task(1, "put:default:1:2 commit")  # in a database made of the base
    for table in work_dir.rglob("base/*.sst"):
        content = table.read_bytes()
        table.unlink()
        table.write_bytes(content)  # a file of the base's own
    for table in work_dir.rglob("*.sst"):
        if table.parent.name != "base":
            with table.open("r+b") as file:
                file.seek(100)
                byte = file.read(1)[0]
                file.seek(100)
                file.write(bytes([byte ^ 1]))
    with pytest.raises(Exception, match=r"damaged|block checksum mismatch"):
        s.task(2, "put:default:1:3 get:default:7 commit")
    s.task(2, "put:default:1:4 get:default:7 commit")
    assert s.restored() < 100
    assert "default/default/1=4" in s.rebuilt(3)


def _lose(files: list[Path]) -> None:
    for path in files:
        path.unlink()


def _flip(files: list[Path]) -> None:
    flip_bits(files, random.Random(701))


@pytest.mark.parametrize(
    ("damage", "files"), [(_lose, "*"), (_lose, "*.sst"), (_lose, "CURRENT"), (_flip, "*.sst"), (_flip, "*")]
)
def test_a_base_that_cannot_be_opened_is_replaced_from_the_topic(
    stores: Callable[..., Stores], work_dir: Path, damage: Callable[[list[Path]], None], files: str
) -> None:
    s = with_base(stores())
    victims = list(work_dir.rglob(f"base/{files}"))
    assert victims, "there was nothing to damage"
    damage(victims)
    s.task(1, "put:default:1:3 commit")
    rows = s.task(2, "dump")
    assert len(rows) == 500
    assert rows == s.rebuilt(2)


# --- a commit must not overtake records -----------------------------------------------------------------------


def test_kafka_s_producer_lets_a_commit_overtake_records(stores: Callable[..., Stores], spark: SparkSession) -> None:
    """The tests below are about this. When this one fails, Kafka has mended it, and we need not wait any more."""
    s = stores()
    held = spark._jvm.org.apache.spark.sql.streamapp.HeldSender  # type: ignore[union-attr]
    assert not held.arrivesWithoutFlush(s.settings, s.topics[0])


def test_a_commit_of_state_waits_for_its_records(stores: Callable[..., Stores]) -> None:
    s = stores()
    s.task(0, "put:default:1:1 hold put:default:2:2 commit")
    assert s.task(1, "dump") == s.rebuilt(1) == ["default/default/1=1", "default/default/2=2"]


def test_a_commit_waits_for_the_parts_of_a_batch_that_was_too_large(kafka: KafkaConfig, spark: SparkSession) -> None:
    """The producer fills a batch by the compression of the records before. It splits one that is too large and sends
    the parts; its flush returns before (KAFKA-19479)."""
    s = Stores(spark, kafka, ("default",), largest_batch=150_000)
    held = spark._jvm.org.apache.spark.sql.streamapp.HeldSender  # type: ignore[union-attr]
    many = " ".join(f"put:default:{k}:{k}" for k in range(1, 20_000))
    # Nothing is sent meanwhile, so that batches become full, and larger than expected.
    s.task(0, f"put:default:0:0 hold expect:{s.topics[0]}:10 {many} commit")
    assert held.expectedCompression(s.topics[0]) > 0.5, "no batch was too large"
    assert s.task(1, "dump") == s.rebuilt(1) == sorted(f"default/default/{k}={k}" for k in range(20_000))


def test_a_commit_of_the_driver_s_files_waits_for_them(
    stores: Callable[..., Stores], spark: SparkSession, kafka: KafkaConfig
) -> None:
    s = stores()
    topic = f"{s.settings[PREFIX + 'applicationId']}-metadata"
    Admin(kafka).create([TopicSpec(topic, "metadata", 1, {"cleanup.policy": "compact"}, True)])
    held = spark._jvm.org.apache.spark.sql.streamapp.HeldSender  # type: ignore[union-attr]
    paths = ["/part/offsets/0", "/part/commits/0"]
    assert list(held.putHeld(s.settings, paths)) == paths


def test_producers_share_a_budget(stores: Callable[..., Stores], spark: SparkSession) -> None:
    """A producer keeps the most memory that it has ever used at a time. Its records are sent as soon as they fill its
    share."""
    s = stores()
    s.settings[PREFIX + "producersBytes"] = "1"
    s.task(0, "put:default:1:1 hold fill:default:0:200000 commit")
    probe = spark._jvm.org.apache.spark.sql.execution.streaming.state.StoreProbe  # type: ignore[union-attr]
    # Its share is a MiB: four whole batches. Five more may be under way, however little is in them, and one is filled.
    assert 0 < probe.keptBytes(s.settings) <= 10 << 18, "more than its share"


def make_anew(kafka: KafkaConfig, stores: Stores) -> None:
    Admin(kafka).delete(stores.topics)
    Admin(kafka).create([TopicSpec(topic, "s", 1, {"cleanup.policy": "compact"}, True) for topic in stores.topics])


def test_a_changelog_made_anew_under_a_live_store_takes_nothing(
    stores: Callable[..., Stores], kafka: KafkaConfig
) -> None:
    s = stores()
    s.task(0, "put:default:1:10 put:default:2:20 commit")
    s.task(1, "put:default:3:30 commit")
    make_anew(kafka, s)
    with pytest.raises(Py4JJavaError, match="was deleted and made anew, or truncated; its content is lost"):
        s.task(2, "put:default:1:11 commit")
    with pytest.raises(Py4JJavaError, match="the two do not belong together"):  # after the failure it is restored
        s.task(2, "put:default:1:11 commit")
    assert not committed(kafka, s.topics[0])


def test_a_changelog_made_anew_under_a_local_base_is_refused(stores: Callable[..., Stores], kafka: KafkaConfig) -> None:
    s = stores()
    s.task(0, "put:default:1:10 put:default:2:20 commit")
    s.rebuilt(1)  # makes a base
    with pytest.raises(Py4JJavaError, match="the script says fail"):
        s.task(1, "fail")
    make_anew(kafka, s)
    with pytest.raises(Py4JJavaError, match=r"was known up to offset \d, and ends at 0: it was deleted and made anew"):
        s.task(1, "dump")


def test_an_epoch_is_done_only_with_its_own_records(spark: SparkSession, stores: Callable[..., Stores]) -> None:
    def reading(ranges: str | None) -> None:
        spark.sparkContext.setLocalProperty("streamapp.epochRanges", ranges)  # type: ignore[arg-type]

    s = stores()
    try:
        reading(None)  # as an older version has written its marker
        s.task(0, "put:default:1:10 commit")
        reading("one")
        assert s.rebuilt(0) == [], "done"
        s.task(1, "put:default:1:11 commit")
        assert s.rebuilt(1) == [], "done with the same"
        reading("another")
        with pytest.raises(Py4JJavaError, match="has committed epoch 1 with other records than the epoch log has"):
            s.rebuilt(1)
        assert s.rebuilt(2) == ["default/default/1=11"]
    finally:
        reading(None)


def test_brokers_that_refuse_the_long_time_and_do_not_say_what_they_allow(spark: SparkSession, tmp_path: Path) -> None:
    """The time asked for is made shorter until the brokers agree: an epoch that is tried again has at least half of
    what they allow."""
    settings = {
        "transaction_max_timeout_ms": "4000",
        "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow_everyone_if_no_acl_found": "true",
    }
    with quick_broker(tmp_path / "broker", **settings) as broker:
        kafka = KafkaConfig(broker.bootstrap_servers)
        hide_settings(kafka)
        s = Stores(spark, kafka, ("default",))
        s.settings |= {PREFIX + "transactionTimeoutMs": "1000", "probe.again": "true"}
        with pytest.raises(Py4JJavaError, match=r"raise the brokers' transaction\.max\.timeout\.ms, or make that work"):
            s.task(0, "put:default:1:1 overdue commit")
        probe = spark._jvm.org.apache.spark.sql.streamapp.TransactionProbe  # type: ignore[union-attr]
        assert 2000 <= probe.timeoutMs(s.settings, "part/0") <= 4000
        s.task(0, "put:default:1:2 commit")
        assert s.rebuilt(1) == ["default/default/1=2"]


@pytest.mark.parametrize("seed", range(4))
def test_rows_of_a_key_are_those_when_the_look_began(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    """Several looks run at a time, over rows that are changed and files that are written meanwhile; some looks are left
    before their end, and all when an epoch ends."""
    chooser = random.Random(seed)
    prefixes = ["0001", "00ff", "00ffff", "0100", "01" * 200]
    keys = [prefix + suffix for prefix in prefixes for suffix in ("00", "01", "7f", "fe", "ff", "ffff")]
    rows: dict[str, str] = {}
    looks: dict[str, list[str]] = {}
    steps, expected = [], []
    for number in range(3000):
        step = chooser.choice(["put"] * 4 + ["remove"] * 3 + ["open"] * 3 + ["next"] * 8 + ["close", "flush", "end"])
        name = str(number)
        if step in ("put", "remove"):
            key = chooser.choice(keys)
            steps.append(f"put:{key}:{number}" if step == "put" else f"remove:{key}")
            rows.update({key: str(number)}) if step == "put" else rows.pop(key, None)
        elif step == "open":
            prefix = chooser.choice(prefixes)
            steps.append(f"open:{name}:{prefix}")
            looks[name] = [f"{key[2:]}={rows[key]}" for key in sorted(rows) if key.startswith(prefix)] + ["none"]
        elif step == "next" and looks:
            name = chooser.choice(list(looks))
            steps.append(f"next:{name}")
            expected.append(looks[name].pop(0))
            if not looks[name]:
                del looks[name]
        elif step == "close" and looks:
            name = chooser.choice(list(looks))
            steps.append(f"close:{name}")
            del looks[name]
        elif step == "flush" and chooser.random() < 0.2:
            steps.append(step)
        elif step == "end" and chooser.random() < 0.2:
            steps.append(step)
            looks = {name: ["none"] for name in looks}
    probe = spark._jvm.org.apache.spark.sql.execution.streaming.state.ScanProbe  # type: ignore[union-attr]
    assert list(probe.run(str(tmp_path / "rows"), steps)) == expected
    assert len([found for found in expected if found != "none"]) > 300


def hide_settings(kafka: KafkaConfig) -> None:
    """Nobody may read the brokers' settings; all else is allowed, as where there are no rules."""
    cluster = (ResourceType.BROKER, "kafka-cluster", ResourcePatternType.LITERAL, "User:*", "*")
    rules = [
        AclBinding(*cluster, AclOperation.DESCRIBE_CONFIGS, AclPermissionType.DENY),
        AclBinding(*cluster, AclOperation.ALL, AclPermissionType.ALLOW),
    ]
    admin = AdminClient({**kafka.for_librdkafka()})
    for answer in admin.create_acls(rules).values():
        answer.result(30)
