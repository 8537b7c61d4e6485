# SPDX-License-Identifier: Apache-2.0
"""Runs an application: opens its metadata, starts its queries, watches over them, stops them in order."""

from __future__ import annotations

import shutil
import signal
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from streamapp.errors import RunError, StreamAppError
from streamapp.http.server import StatusServer
from streamapp.kafka.admin import Admin
from streamapp.kafka.config import KafkaConfig
from streamapp.kafka.group import GroupPosition
from streamapp.plan import Plan, SubTopology
from streamapp.spark import metrics
from streamapp.spark.failure import Failure, diagnose, trace_of
from streamapp.spark.predecessors import read_known, require_positions_kept
from streamapp.spark.progress import Progress
from streamapp.spark.queries import Queries
from streamapp.spark.replicas import Replicas
from streamapp.spark.session import PREFIX, Place, executor_processes, open_session, this_process

# A stop lets the epoch under way end: together with the rest it must stay below ten seconds.
DRAIN_SECONDS = 7.0
COLLECT_SECONDS = 1.0
PURGE_SECONDS = 10.0
RESTARTS = 10
LONGEST_BACKOFF_SECONDS = 30.0

Report = Callable[[Mapping[str, Any]], None]


@dataclass(frozen=True)
class Options:
    """How to run, beside what."""

    state_dir: Path
    until_caught_up: bool = False
    replicas: int | None = None
    """Executors to begin with; None: none, the tasks run in threads of this process."""
    port: int = 0
    client_config: Path | None = None
    """A file of Kafka client properties with the credentials, for the JVM side."""
    place: Place | None = None
    """Where the executors run; None: in processes of this machine."""
    owner: str | None = None
    """Whom the applicationId belongs to on this Kafka; None: whoever runs an app of this name by hand."""
    host: str = "127.0.0.1"
    """Address of the live interface."""
    token_file: Path | None = None
    """A file with the token that requests to the live interface must bear; None: anyone may ask."""


def run_app(
    plan: Plan,
    kafka: KafkaConfig,
    options: Options,
    on_started: Callable[[str], None] = lambda url: None,
    on_progress: Report = lambda status: None,
) -> int:
    """Runs until SIGTERM, SIGINT, the end of the input or a failure; returns the exit code 0.

    Topics must exist. `on_started` gets the address of the live interface, `on_progress` the status, about once a
    second, in this thread.

    Raises:
        StreamAppError: when the app cannot go on.
    """
    work_dir = options.state_dir / "work"
    # Local state is never trusted across a restart: an unclean stop leaves changes that were never committed.
    shutil.rmtree(work_dir, ignore_errors=True)
    spark = open_session(
        plan.name, _place(plan, options, work_dir), plan.max_parallelism, _settings(plan, kafka, options)
    )
    try:
        _open_metadata(spark, plan, kafka, options)
        return _App(spark, plan, kafka, options, on_progress).run(on_started)
    finally:
        with suppress(Py4JError, OSError):  # a signal to the whole process group has ended the JVM before us
            spark._jvm.org.apache.spark.sql.streamapp.DriverBridge.end(plan.application_id)  # type: ignore[union-attr]
            spark.stop()


def _place(plan: Plan, options: Options, work_dir: Path) -> Place:
    if options.place is not None:
        return replace(options.place, work_dir=work_dir)
    if options.replicas is not None:
        return executor_processes(options.replicas, work_dir)
    return this_process(plan.max_parallelism, work_dir)


def _settings(plan: Plan, kafka: KafkaConfig, options: Options) -> dict[str, str]:
    return {
        PREFIX + "applicationId": plan.application_id,
        PREFIX + "bootstrapServers": kafka.bootstrap_servers,
        PREFIX + "maxParallelism": str(plan.max_parallelism),
        PREFIX + "guarantee": plan.guarantee,
        PREFIX + "transactionTimeoutMs": str(plan.transaction_timeout_ms),
        PREFIX + "clientConfig": str(options.client_config or ""),
        PREFIX + "subTopology": "",
    }


def _open_metadata(spark: SparkSession, plan: Plan, kafka: KafkaConfig, options: Options) -> None:
    bridge = spark._jvm.org.apache.spark.sql.streamapp.DriverBridge  # type: ignore[union-attr]
    try:
        bridge.begin(_settings(plan, kafka, options), options.owner or f"local/{plan.name}")
    except Exception as error:
        raise diagnose("metadata", str(error)).error from None
    require_positions_kept(plan, read_known(bridge.known(plan.application_id)))


class _App:
    def __init__(
        self, spark: SparkSession, plan: Plan, kafka: KafkaConfig, options: Options, on_progress: Report
    ) -> None:
        self._spark = spark
        self._plan = plan
        self._options = options
        self._on_progress = on_progress
        self._stop = threading.Event()
        self._queries = Queries(spark, plan, kafka)
        self._running: dict[str, StreamingQuery] = {}
        self._admin = Admin(kafka)
        self._progress = Progress(spark, plan, self._admin)
        self._group = GroupPosition(kafka, plan.application_id)
        self._replicas = None if options.replicas is None else Replicas(spark, options.replicas)
        self._server = StatusServer(
            self._status,
            metrics.registry(self._status),
            options.port,
            options.host,
            options.token_file,
            scale=None if self._replicas is None else self._replicas.want,
        )
        self._restarts: dict[str, int] = {}
        self._hops = {topic.name for topic in plan.topics if topic.role == "repartition"}
        self._purged: dict[tuple[str, int], int] = {}
        self._purged_at = time.monotonic()

    def run(self, on_started: Callable[[str], None]) -> int:
        previous = {
            number: signal.signal(number, self._on_signal) for number in (signal.SIGTERM, signal.SIGINT)
        }
        self._server.start()
        on_started(self._server.url)
        try:
            if self._options.until_caught_up:
                for part in self._plan.subtopologies:
                    self._run_to_end(part)
            else:
                self._run_for_ever()
            self._progress.phase = "Stopped"
            return 0
        except StreamAppError as error:
            self._progress.phase, self._progress.error = "Failed", str(error)
            raise
        finally:
            with suppress(Py4JError, OSError):
                self._drain()
            self._server.stop()
            self._group.close()
            for number, handler in previous.items():
                signal.signal(number, handler)

    def _status(self) -> dict[str, Any]:
        """What the live interface shows."""
        replicas = self._replicas.status() if self._replicas is not None else None
        return {**self._progress.snapshot(), "replicas": replicas}

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._stop.set()

    def _run_to_end(self, part: SubTopology) -> None:
        """Each part reads what the one before it has written, so they run one after the other."""
        self._start(part)
        while not self._stop.is_set() and part.name in self._running:
            query = self._running[part.name]
            if not query.isActive and query.exception() is None:
                self._look()
                return
            self._watch()
            self._stop.wait(0.2)

    def _run_for_ever(self) -> None:
        for part in self._plan.subtopologies:
            self._start(part)
        while not self._stop.wait(COLLECT_SECONDS):
            self._watch()

    def _start(self, part: SubTopology) -> None:
        self._running[part.name] = self._queries.start(part, until_caught_up=self._options.until_caught_up)

    def _watch(self) -> None:
        if self._replicas is not None:
            self._replicas.keep()
        self._look()
        for part in self._plan.subtopologies:
            query = self._running.get(part.name)
            if query is None or query.isActive:
                continue
            error = query.exception()
            if error is not None:
                self._restart(part, diagnose(part.name, trace_of(error)))

    def _look(self) -> None:
        try:
            self._progress.collect(self._running)
        except RunError as error:  # Kafka does not answer: the queries will say so themselves if it matters
            self._progress.error = str(error)
            return
        restores = self._progress.snapshot()["restore"].values()
        restoring = any(restore["restoring"] for restore in restores)
        self._progress.phase = "Restoring" if restoring else "Running"
        self._progress.error = None
        self._group.write(self._progress.positions())
        self._purge()
        self._on_progress(self._status())

    def _purge(self) -> None:
        """Deletes what every reader of an internal hop has committed: those topics have no retention of their own."""
        if not self._hops or time.monotonic() - self._purged_at < PURGE_SECONDS:
            return
        self._purged_at = time.monotonic()
        positions = self._progress.positions().items()
        done = {at: offset for at, offset in positions if at[0] in self._hops and offset > self._purged.get(at, 0)}
        if done:
            self._admin.purge(done)
            self._purged |= done

    def _restart(self, part: SubTopology, failure: Failure) -> None:
        epoch = self._progress.snapshot().get("subTopologies", {}).get(part.name, {}).get("epoch", -1)
        attempts = self._restarts.get(f"{part.name}@{epoch}", 0) + 1
        if not failure.retriable or attempts > RESTARTS:
            raise failure.error
        self._restarts[f"{part.name}@{epoch}"] = attempts
        self._progress.error = str(failure.error)
        self._progress.phase = "Restarting"
        self._on_progress(self._status())
        if not self._stop.wait(min(2.0 ** (attempts - 1), LONGEST_BACKOFF_SECONDS)):
            self._start(part)

    def _drain(self) -> None:
        """Lets epochs under way end, then stops the queries. Stopping in the middle loses nothing, only time."""
        bridge = self._spark._jvm.org.apache.spark.sql.streamapp.DriverBridge  # type: ignore[union-attr]
        for name in self._running:
            bridge.drain(name)
        deadline = time.monotonic() + DRAIN_SECONDS
        for query in self._running.values():
            while query.isActive and query.status["isTriggerActive"] and time.monotonic() < deadline:
                time.sleep(0.05)
        for query in self._running.values():
            query.stop()
        if self._running:
            self._group.write(self._progress.positions())
