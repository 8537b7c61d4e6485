# SPDX-License-Identifier: Apache-2.0
"""Faults, each of which proves that it happened, and that there was work left when it did."""

from __future__ import annotations

import math
import os
import random
import re
import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from lib.app import AppProcess, Bench, Load
from lib.broker import bounce as take_down_and_up
from lib.broker import group_offsets
from lib.verify import committed
from lib.wait import until
from streamapp.kafka.broker import EmbeddedBroker
from streamapp.kafka.config import KafkaConfig

HALTED = 137
"""The exit code of a process that a failpoint has halted."""

FAILPOINTS = (
    "metadata.before-write.offsets",
    "metadata.before-commit.offsets",
    "metadata.after-write.offsets",
    "epoch.planned",
    "store.before-restore",
    "store.after-restore",
    "sink.rows-sent",
    "store.changes-sent",
    "transaction.before-markers",
    "transaction.before-commit",
    "transaction.after-commit",
    "epoch.tasks-committed",
    "metadata.before-write.commits",
    "metadata.deferred.commits",
    "metadata.before-commit.commits",
)
"""Every step of an epoch, in order."""
FIRST_FAILPOINTS = (
    "metadata.announced",
    "metadata.before-commit.owner",
    "driver.topics-claimed",
    "driver.own-topics-made",
    "metadata.before-commit.metadata",
    "metadata.before-commit.sources",
    "metadata.before-commit.state._metadata.schema",
    "metadata.before-commit.state._metadata.metadata",
)
"""The steps that only a first start takes, in order, and those with which every start begins."""
DRIVER_FAILPOINTS = (
    "driver.topics-made",
    "driver.metadata-open",
    "driver.queries-started",
    "housekeeping.lag-measured",
    "housekeeping.group-written",
)
"""The steps of the driver's Python process."""
FIRST_EPOCH_SECONDS = 90.0
"""The limit from the start after a kill to the first epoch, the restore included."""
RECOVERY_SECONDS = 60.0
"""The limit after the last fault: by then no more records wait than before the first."""


# --- remaining work -----------------------------------------------------------------------------------------


def lag(bench: Bench) -> int:
    """Records of the input that the application's group has not committed."""
    done = group_offsets(bench.kafka, bench.prefix, *bench.inputs)
    return sum(
        end - done.get((topic, p), 0) for topic in bench.inputs for p, end in bench.admin.end_offsets(topic).items()
    )


def last_epoch(bench: Bench) -> int:
    """The last epoch in any of the application's offset logs; -1 for none."""
    topic = f"{bench.prefix}-metadata"
    if topic not in bench.admin.topics():
        return -1
    keys = [(message.key() or b"").decode() for message in committed(bench.kafka, topic)]
    return max((int(found[1]) for key in keys if (found := re.search(r"/offsets/(\d+)$", key))), default=-1)


def killed_at(some: tuple[str, ...], every: tuple[str, ...]) -> pytest.MarkDecorator:
    """The `steps` at which a test kills its app: some each time, and every one among the long runs under faults.

    A start of an app is most of what a step takes. For one shape of state among many, `some` is the step that leaves
    most behind: one partition has committed, and another one has not.
    """
    return pytest.mark.parametrize("steps", [some, pytest.param(every, marks=pytest.mark.chaos)], ids=["some", "all"])


def halt_at(bench: Bench, step: str) -> None:
    """Starts the application, which dies at this step of its next epoch: `FAILPOINT`, or `FAILPOINT#PARTITION`."""
    name, _, place = step.partition("#")
    # A partition behind the first commits for itself in the first epoch of a start, which may be one that the start
    # before has begun.
    first = name.startswith("transaction.") and place not in ("", "0")
    where = name + ("" if first else f"@{last_epoch(bench) + 1}") + (f"#{place}" if place else "")
    await_halt(bench.start(env=failpoints(f"{where}=halt")), name)


def require_work(bench: Bench, load: Load) -> None:
    """Raises if no work is left: a fault that comes when all is done proves nothing."""
    assert load.running or lag(bench) > 0, "there was no work left when the fault came"


def await_usual_lag(app: AppProcess, load: Load, seconds: float = RECOVERY_SECONDS) -> None:
    """Waits until no more records wait than a busy app has at any time: a few seconds' worth."""
    usual = 3 * load.rate
    until(lambda: app.status().get("totalLag", usual + 1) <= usual, seconds, f"a lag of at most {usual}")


# --- processes ----------------------------------------------------------------------------------------------


def family(app: AppProcess) -> list[psutil.Process]:
    """The app's Python process and all processes that it has started."""
    top = psutil.Process(app.pid)
    return [top, *top.children(recursive=True)]


def kill(app: AppProcess) -> None:
    """Sends SIGKILL to driver, JVM and executors at once, and to its broker, if it has one of its own."""
    victims = family(app)
    assert len(victims) > 1, "there is no JVM to kill"
    app.signal_group(signal.SIGKILL)
    for outside in victims:
        with suppress(psutil.NoSuchProcess):
            outside.kill()
    assert app.await_exit(10) == -signal.SIGKILL
    _, alive = psutil.wait_procs(victims, timeout=10)
    assert not alive, f"still there after SIGKILL: {alive}"


def kill_python_only(app: AppProcess) -> None:
    """Sends SIGKILL to the Python process alone: its JVM lives on until it notices."""
    os.kill(app.pid, signal.SIGKILL)
    assert app.await_exit(10) == -signal.SIGKILL


def jvm(app: AppProcess) -> psutil.Process:
    """The Java process that the Python process has started."""
    (found,) = [process for process in psutil.Process(app.pid).children() if process.name() == "java"]
    return found


def kill_jvm_only(app: AppProcess) -> None:
    """Sends SIGKILL to the Java process of the driver alone."""
    victim = jvm(app)
    victim.kill()
    until(lambda: not _alive(victim), 10, "the Java process is gone")


def executors(app: AppProcess) -> list[psutil.Process]:
    """The executor processes of a run with --replicas."""
    return executors_among(family(app))


def executors_among(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    """Those of the processes that are executors."""
    found = []
    for process in processes:
        try:
            if any("CoarseGrainedExecutorBackend" in word for word in process.cmdline()):
                found.append(process)
        except psutil.NoSuchProcess:
            continue
    return found


def executors_at(app: AppProcess, failpoint: str) -> list[psutil.Process]:
    """The executor processes that have come to this failpoint."""
    logs = [log for log in app.state_dir.rglob("stderr") if f"FAILPOINT {failpoint} " in log.read_text()]
    return [found for found in executors(app) if _executor_id(found) in {log.parent.name for log in logs}]


def _executor_id(process: psutil.Process) -> str:
    command = process.cmdline()
    return command[command.index("--executor-id") + 1]


def kill_executor(app: AppProcess, chooser: random.Random) -> int:
    """Sends SIGKILL to one executor; returns its pid. The driver must live on."""
    victim = chooser.choice(until(lambda: executors(app), 60, "an executor process"))
    victim.kill()
    _, alive = psutil.wait_procs([victim], timeout=10)
    assert not alive, f"still there after SIGKILL: {alive}"
    app.require_alive()
    return victim.pid


@contextmanager
def stopped(app: AppProcess) -> Iterator[None]:
    """Freezes the whole app, as on a laptop that sleeps or a machine that swaps."""
    processes = family(app)
    app.signal_group(signal.SIGSTOP)
    until(
        lambda: all(_status(p) in (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE, None) for p in processes),
        30,
        "the whole app stands still",
    )
    assert _status(processes[0]) == psutil.STATUS_STOPPED
    try:
        yield
    finally:
        app.signal_group(signal.SIGCONT)


@contextmanager
def stopped_executor(process: psutil.Process) -> Iterator[None]:
    """Freezes one process alone."""
    process.suspend()
    until(lambda: process.status() == psutil.STATUS_STOPPED, 10, f"process {process.pid} stopped")
    try:
        yield
    finally:
        process.resume()


def _alive(process: psutil.Process) -> bool:
    return _status(process) not in (None, psutil.STATUS_ZOMBIE)


def _status(process: psutil.Process) -> str | None:
    try:
        return str(process.status())
    except psutil.NoSuchProcess:
        return None


def open_transactions(bench: Bench) -> list[str]:
    """Topics in which a read_committed reader cannot read up to the end."""
    return [
        topic
        for topic in bench.all_topics()
        if bench.admin.end_offsets(topic) != bench.admin.end_offsets(topic, committed_only=False)
    ]


# --- failpoints ---------------------------------------------------------------------------------------------


def failpoints(*items: str) -> dict[str, str]:
    """The environment of a run: NAME[@EPOCH][#PARTITION]=ACTION, see the runtime's Failpoint."""
    return {"STREAMAPP_FAILPOINTS": ",".join(items)}


def hits(app: AppProcess) -> list[str]:
    """The failpoints that were really reached, in order."""
    return re.findall(r"^FAILPOINT (.*)$", app.said.replace("\r", "\n"), re.MULTILINE)


def await_halt(app: AppProcess, name: str, seconds: float = 90.0) -> str:
    """Waits until the failpoint has halted the JVM and the whole run has ended; returns the line it left."""
    line = await_hit(app, name, seconds)
    code = app.await_exit(30)
    assert code != 0, f"the app ended well although {name} halted its JVM"
    return line


def await_hit(app: AppProcess, name: str, seconds: float = 90.0) -> str:
    """Waits until the failpoint was reached; returns the line it left."""

    def line() -> str:
        return next((hit for hit in hits(app) if hit.startswith(f"{name} ")), "")

    return until(line, seconds, lambda: f"failpoint {name}; the app said:\n{app.tail()}")


# --- transactions -------------------------------------------------------------------------------------------


def fence(bench: Bench, *ids: str) -> None:
    """Takes these transactional ids over: the tasks that work under them fail, and rebuild their stores."""
    for name in ids:
        settings = {"transactional.id": f"{bench.prefix}/{name}"}
        Producer({**bench.kafka.for_librdkafka(), **settings}).init_transactions(30)


# --- brokers ------------------------------------------------------------------------------------------------


def quick_broker(folder: Path, **properties: str) -> EmbeddedBroker:
    """A broker of the test's own that compacts at once and ends abandoned transactions on time, with further settings
    (`_` for `.`)."""
    return EmbeddedBroker(
        folder,
        properties={
            "log.cleaner.backoff.ms": "200",
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
        }
        | {name.replace("_", "."): value for name, value in properties.items()},
    )


def bounce(broker: EmbeddedBroker, hard: bool) -> None:
    """Stops the broker by SIGKILL or SIGTERM, and starts it again on the same ports, as another process."""
    before = psutil.Process(broker.pid)
    address = broker.bootstrap_servers
    take_down_and_up(broker, hard)
    assert not before.is_running(), "the broker survived"
    assert broker.pid != before.pid
    assert broker.bootstrap_servers == address, "the broker came back on another port"


def alter(kafka: KafkaConfig, topic: str, **settings: str) -> None:
    """Changes settings of a topic (`_` for `.`)."""
    changes = [
        ConfigEntry(name.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
        for name, value in settings.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=changes)
    client = AdminClient({**kafka.for_librdkafka()})
    for future in client.incremental_alter_configs([resource]).values():
        future.result(timeout=30)


def compact(kafka: KafkaConfig, topic: str, partitions: int, seconds: float = 60.0) -> tuple[int, int]:
    """Forces compaction of all that is in the topic: afterwards each key has one record left.

    The last segment is never compacted, and a new one only begins with a record: an aborted transaction's,
    which no reader of committed records ever sees. The broker's `log.cleaner.backoff.ms` should be small.
    The topics' own settings bound their size; to leave one record of each key, short segments are needed.

    Returns:
        How many committed records there were before, and are now.
    """
    before = _unique_and_all(kafka, topic)
    alter(
        kafka,
        topic,
        segment_ms="100",
        min_cleanable_dirty_ratio="0.0",
        max_compaction_lag_ms="200",
        min_compaction_lag_ms="0",
    )

    def compacted() -> bool:
        _aborted(kafka, topic, partitions)
        unique, all_of = _unique_and_all(kafka, topic)
        assert unique == before[0], f"compaction of {topic} lost keys: {before[0]} before, {unique} now"
        return unique == all_of

    until(compacted, seconds, f"{topic} compacted", every=0.5)
    # From here on the cleaner waits again: otherwise it would go on by itself, and the next call would find nothing to
    # do.
    alter(
        kafka,
        topic,
        segment_ms="604800000",
        min_cleanable_dirty_ratio="1.0",
        max_compaction_lag_ms="9223372036854775807",
        min_compaction_lag_ms="604800000",
    )
    return before[1], _unique_and_all(kafka, topic)[1]


def _unique_and_all(kafka: KafkaConfig, topic: str) -> tuple[int, int]:
    records = committed(kafka, topic)
    return len({(record.partition(), record.key()) for record in records}), len(records)


def _aborted(kafka: KafkaConfig, topic: str, partitions: int) -> None:
    producer = Producer({**kafka.for_librdkafka(), "transactional.id": f"compact-{topic}"})
    producer.init_transactions(30)
    producer.begin_transaction()
    for partition in range(partitions):
        producer.produce(topic, b"x", b"never committed", partition=partition)
    producer.flush(30)
    producer.abort_transaction(30)


# --- local files --------------------------------------------------------------------------------------------


def base_files(state: Path) -> list[Path]:
    """The files that a running app rebuilds a store from, if it can. (A start uses nothing on this disk.)"""
    return sorted((state / "work").rglob("base/*"))


def delete_some(files: list[Path], chooser: random.Random, share: float) -> int:
    victims = chooser.sample(files, math.ceil(len(files) * share))
    assert victims, "there was nothing to delete"
    for path in victims:
        path.unlink()
    return len(victims)


def flip_bits(files: list[Path], chooser: random.Random) -> int:
    """Turns a bit in each 64 bytes, so that no checksum overlooks it; returns how many files it changed."""
    changed = 0
    for path in files:
        content = bytearray(path.read_bytes())
        for at in range(0, len(content), 64):
            content[min(at + chooser.randrange(64), len(content) - 1)] ^= 1 << chooser.randrange(8)
        if content:
            with path.open("r+b") as file:  # the same file: a process that has it open sees the change
                file.write(content)
            changed += 1
    assert changed, "there was nothing to flip a bit of"
    return changed
