# SPDX-License-Identifier: Apache-2.0
"""Runs an application: opens its metadata, starts its queries, watches over them, stops them in order."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from streamapp import failpoint
from streamapp.errors import StreamAppError
from streamapp.http.server import StatusServer
from streamapp.kafka.access import NotAllowed, require_access
from streamapp.kafka.admin import Admin
from streamapp.kafka.config import KafkaConfig
from streamapp.owner import local_owner
from streamapp.plan import Plan, SubTopology
from streamapp.spark import metrics
from streamapp.spark.code import ship_code
from streamapp.spark.failure import Failure, diagnose, of_objection, trace_of
from streamapp.spark.housekeeping import Housekeeping
from streamapp.spark.jvm import JvmLimit, java_class, jvm_is_gone, jvm_missed
from streamapp.spark.metadata import Metadata
from streamapp.spark.phase import Phases
from streamapp.spark.progress import Progress
from streamapp.spark.queries import Queries
from streamapp.spark.replicas import Replicas
from streamapp.spark.session import PREFIX, Place, executor_processes, fresh_work_dir, open_session, this_process
from streamapp.spark.stores import Stores

STOP_SECONDS = 10.0
"""The default time for a stop, even if something hangs."""
REST_SECONDS = 6.0
"""The part of a stop's time for everything but the epoch under way, which may end in the rest of the time."""
ENGINE_SECONDS = 1.5
"""The time that the engine has to end, after the epoch's time. Then it is killed, and nothing is lost."""
COLLECT_SECONDS = 1.0
LOOK_SECONDS = 0.2
"""The time between two looks at a query that runs to the end of its input."""
LONGEST_BACKOFF_SECONDS = 30.0

Report = Callable[[Mapping[str, Any]], None]


@dataclass(frozen=True)
class Options:
    """How to run an app."""

    state_dir: Path
    until_caught_up: bool = False
    port: int = 0
    client_config: Path | None = None
    """A file of Kafka client properties with the credentials, for the JVM side."""
    place: Place | None = None
    """Where Spark runs, with a fresh working folder; None: in threads of this process."""
    owner: str | None = None
    """The owner of the applicationId on this Kafka; None: anyone who runs an app of this name by hand."""
    adopted: str | None = None
    """A former owner. If the applicationId still belongs to it, the app goes on with its state."""
    executor_template: Path | None = None
    """The file that Spark makes executors' pods from; None: executors are not pods."""
    host: str = "127.0.0.1"
    """Address of the live interface."""
    token_file: Path | None = None
    """A file with the token that requests to the live interface must bear; None: anyone may ask."""
    look_seconds: float = COLLECT_SECONDS
    """The time between two looks at the queries; at each look the app also shows its position on Kafka."""
    stop_seconds: float = STOP_SECONDS
    """The longest time of a stop. The epoch under way may end in all of it but REST_SECONDS."""


def run_app(
    plan: Plan,
    kafka: KafkaConfig,
    options: Options,
    on_started: Callable[[str], None] = lambda url: None,
    on_progress: Report = lambda status: None,
    on_caught_up: Report = lambda status: None,
) -> int:
    """Runs until SIGTERM, SIGINT, the end of the input or a failure; returns the exit code 0.

    The user's topics and the metadata topic must exist. `on_started` gets the address of the live interface,
    `on_progress` the status, about once a second, in this thread. `on_caught_up` gets the last status when the end of
    the input was reached, and is not called when the app was stopped before.

    Raises:
        StreamAppError: when the app cannot go on.
    """
    place = options.place or place_here(plan, options.state_dir)
    with jvm_missed(log=str(place.work_dir / "spark.log")), JvmLimit() as limit:
        spark = open_session(plan.name, place, plan.max_parallelism, _settings(plan, kafka, options))
        try:
            if plan.code:
                ship_code(spark, plan.code, place.work_dir)
            metadata = Metadata(plan, kafka)
            metadata.open(_settings(plan, kafka, options), options.owner or local_owner(plan.name), options.adopted)
            failpoint.hit("driver.metadata-open")
            app = _App(spark, plan, kafka, options, metadata, place.executors, on_progress, limit)
            return app.run(on_started, on_caught_up)
        finally:
            if not jvm_is_gone():
                with suppress(Py4JError, OSError):
                    java_class("DriverBridge").end(plan.application_id)
                    spark.stop()


def epoch_seconds(stop: float) -> float:
    """Returns how long a stop of at most `stop` seconds waits for the epoch under way.

    >>> epoch_seconds(30), epoch_seconds(10), epoch_seconds(5)
    (24.0, 4.0, 2.0)
    """
    return max(stop - REST_SECONDS, 0.4 * stop)


def place_here(plan: Plan, state_dir: Path, replicas: int | None = None) -> Place:
    """A place on this machine: threads of this process, or one process for each of the `replicas`."""
    work_dir = fresh_work_dir(state_dir)
    if replicas is not None:
        return executor_processes(replicas, work_dir)
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


class _App:
    def __init__(
        self,
        spark: SparkSession,
        plan: Plan,
        kafka: KafkaConfig,
        options: Options,
        metadata: Metadata,
        executors: int | None,
        on_progress: Report,
        limit: JvmLimit,
    ) -> None:
        self._spark = spark
        self._plan = plan
        self._kafka = kafka
        self._options = options
        self._on_progress = on_progress
        self._stop = threading.Event()
        self._limit = limit
        self._queries = Queries(spark, plan, kafka, metadata.begun_late, metadata.numberings)
        self._running: dict[str, StreamingQuery] = {}
        self._progress = Progress(plan)
        self._phases = Phases()
        self._metadata = metadata
        self._housekeeping = Housekeeping(kafka, plan, metadata.claimed, self._objection, metadata.flush)
        self._replicas = None if executors is None else Replicas(spark, executors, options.executor_template)
        self._server = StatusServer(
            self._status,
            metrics.registry(self._status),
            options.port,
            options.host,
            options.token_file,
            scale=None if self._replicas is None else self._replicas.want,
            tables=Stores(spark, plan),
            fewest=1 if options.executor_template is None else 0,
        )
        self._restarts: dict[str, int] = {}
        self._due: dict[str, float] = {}
        """The times at which failed sub-topologies are tried again."""
        self._failure = ""

    def run(self, on_started: Callable[[str], None], on_caught_up: Report) -> int:
        previous = {number: signal.signal(number, self._on_signal) for number in (signal.SIGTERM, signal.SIGINT)}
        self._server.start()
        on_started(self._server.url)
        caught_up = False
        try:
            if self._replicas is not None:
                self._replicas.await_enough(self._stop)
            if self._options.until_caught_up:
                caught_up = all(self._run_to_end(part) for part in self._plan.subtopologies)
            elif not self._stop.is_set():
                self._run_for_ever()
            self._progress.phase = "Stopped"
            return 0
        except StreamAppError as error:
            self._progress.phase, self._progress.error = "Failed", str(error)
            raise
        except (Py4JError, OSError):
            if self._stop.is_set():  # a signal to the whole process group has ended the JVM before us
                return 0
            raise
        finally:
            with suppress(Py4JError, OSError):
                self._drain()
            self._server.stop()
            self._housekeeping.close(self._progress.positions())
            if caught_up:
                self._progress.publish(self._housekeeping.lag, self._housekeeping.expiring)
                self._metadata.note_committed(self._committed())
                on_caught_up(self._status())
            for number, handler in previous.items():
                signal.signal(number, handler)

    def _status(self) -> dict[str, Any]:
        """The status that the live interface shows."""
        replicas = self._replicas.status() if self._replicas is not None else None
        return {**self._progress.snapshot(), "replicas": replicas}

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if not self._stop.is_set():
            self._stop.set()
            self._limit.begin(epoch_seconds(self._options.stop_seconds) + ENGINE_SECONDS)

    def _run_to_end(self, part: SubTopology) -> bool:
        """Runs the part to the end of its input. Parts run one after the other, as each reads the output of the one
        before. Returns False when the app was stopped first."""
        self._start(part)
        while not self._stop.is_set() and part.name in self._running:
            query = self._running[part.name]
            if not query.isActive and query.exception() is None:
                self._look()
                return True
            self._watch()
            if query.isActive:
                with suppress(StreamingQueryException):  # the next look deals with it
                    query.awaitTermination(LOOK_SECONDS)  # type: ignore[arg-type]  # takes parts of a second too
            else:
                self._stop.wait(LOOK_SECONDS)
        return False

    def _run_for_ever(self) -> None:
        for part in self._plan.subtopologies:
            self._start(part)
        failpoint.hit("driver.queries-started")
        while not self._stop.wait(self._options.look_seconds):
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
            if part.name in self._due:
                if time.monotonic() >= self._due[part.name]:
                    del self._due[part.name]
                    self._start(part)
            elif (error := query.exception()) is not None:
                self._try_again_later(part, diagnose(part.name, trace_of(error), self._plan.application_id))

    def _look(self) -> None:
        self._progress.collect(self._running)
        self._housekeeping.go_round(self._progress.positions())
        if self._housekeeping.objection:
            raise of_objection(self._housekeeping.objection)
        self._progress.publish(self._housekeeping.lag, self._housekeeping.expiring)
        self._metadata.note_committed(self._committed())
        if self._due:
            self._progress.phase, self._progress.error = "Restarting", self._failure
        else:
            restore = self._progress.snapshot()["restore"]
            self._progress.phase = self._phases.of(self._progress.phase, restore, self._awaited_stores())
            self._progress.error = self._housekeeping.trouble
        self._on_progress(self._status())

    def _awaited_stores(self) -> dict[str, int]:
        """The stores that the first epoch of a query has yet to restore, and the number of their partitions."""
        awaited = (self._metadata.kept & self._running.keys()).difference(self._committed())
        return {store.name: store.partitions for store in self._plan.stores if store.subtopology in awaited}

    def _committed(self) -> list[str]:
        """The sub-topologies that have committed an epoch in this run."""
        return [name for name, part in self._progress.snapshot()["subTopologies"].items() if part["epochs"]]

    def _objection(self) -> str:
        try:
            return str(java_class("DriverBridge").objection(self._plan.application_id))
        except Py4JError:  # Kafka does not answer: the next write gets the error
            return ""

    def _try_again_later(self, part: SubTopology, failure: Failure) -> None:
        epoch = self._progress.snapshot().get("subTopologies", {}).get(part.name, {}).get("epoch", -1)
        attempts = self._restarts.get(f"{part.name}@{epoch}", 0) + 1
        if not failure.retriable or attempts > failure.tries:
            if isinstance(failure.error, NotAllowed):  # Kafka's exceptions do not name everything that is missing
                require_access(self._kafka, Admin(self._kafka), self._plan)
            raise failure.error
        self._restarts[f"{part.name}@{epoch}"] = attempts
        self._due[part.name] = time.monotonic() + min(2.0 ** (attempts - 1), LONGEST_BACKOFF_SECONDS)
        self._failure = str(failure.error)
        self._look()

    def _drain(self) -> None:
        """Lets epochs under way end, then stops the queries. Stopping in the middle loses nothing, only time."""
        for name in self._running:
            java_class("DriverBridge").drain(name)
        deadline = time.monotonic() + epoch_seconds(self._options.stop_seconds)
        for query in self._running.values():
            while query.isActive and query.status["isTriggerActive"] and time.monotonic() < deadline:
                time.sleep(0.05)
        for query in self._running.values():
            with suppress(Py4JJavaError):  # a query that does not end in time ends with the process
                query.stop()
        self._progress.collect(self._running)
