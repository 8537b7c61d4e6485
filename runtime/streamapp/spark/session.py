# SPDX-License-Identifier: Apache-2.0
"""The Spark session of an application: the settings that the runtime's guarantees rest on, in one table."""

from __future__ import annotations

import logging
import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

from streamapp.spark import class_archive, formats, guard
from streamapp.spark.jvm import java_class, start_jvm

JARS = Path(__file__).parents[1] / "jars"
PREFIX = "spark.streamapp."
PROCESSORS = PREFIX + "processors"
"""The number of tasks of large epochs that compute at a time in one process; absent: the number of its processors."""
_EXECUTOR_MIB = 1024
_EXECUTOR_STORES_MIB = 256
_MOST_STORES_MIB = 1024
_TASKS_PER_PROCESSOR = 4
_EXECUTOR_SLOTS = 4
# The objects of an epoch die within seconds. Survivor spaces of a fixed size hold them until then; adaptive ones shrink
# and let them into the old generation, whose full collections stop everything. The old generation must grow: otherwise,
# once most of its first size is in use, it is collected after every few megabytes. Classes alone fill the metaspace's
# first size several times while Spark starts, each time with a full collection.
_JVM_OPTIONS = " ".join(
    (
        "-XX:+UseParallelGC -XX:-UsePSAdaptiveSurvivorSizePolicy -XX:MetaspaceSize=256m",
        # Java's optimizing compiler waits for ten times as many calls as by default: else half of a start's processor
        # time goes into code that Spark runs only then. Code that runs for each record is compiled within a second.
        "-XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000",
        "-XX:Tier4CompileThreshold=150000 -XX:Tier4BackEdgeThreshold=400000",
    )
)
# Without this, the young generation would grow as far as it may, for a few percent of processor time, and a small app
# would need twice the memory.
_YOUNG_GENERATION = "128m"

_STATE = "spark.sql.streaming.stateStore."
FIXED_SETTINGS: dict[str, str] = {
    # State and metadata live on Kafka topics.
    _STATE + "providerClass": "org.apache.spark.sql.execution.streaming.state.ChangelogStateStoreProvider",
    _STATE + "rocksdb.changelogCheckpointing.enabled": "true",
    # By default each store would have its own memory, up to 128 MiB of changes that are not on disk yet, and the stores
    # together would have no bound.
    _STATE + "rocksdb.boundedMemoryUsage": "true",
    _STATE + "checkpointFormatVersion": "1",
    _STATE + "autoSnapshotRepair.enabled": "false",
    _STATE + "rowChecksum.enabled": "false",
    _STATE + "coordinatorReportSnapshotUploadLag": "false",
    _STATE + "forceSnapshotUploadOnLag": "false",
    # It is for `foreachBatch`, but each store of each task asks the driver for it.
    _STATE + "commitValidation.enabled": "false",
    # A position stands under its source's number, so that sources may come and go.
    "spark.sql.streaming.queryEvolution.enableSourceEvolution": "true",
    "spark.sql.streaming.offsetLog.formatVersion": "2",
    # Spark looks for the number of partitions in the log, which this form lacks. Ours stays for a store's life.
    "spark.sql.streaming.checkUnfinishedRepartitionOnRestart": "false",
    "spark.sql.streaming.checkpointFileManagerClass": "org.apache.spark.sql.streamapp.TopicCheckpointFileManager",
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    # An epoch runs its first plan: one that is made later would lack the settings that our operators get for the epoch.
    "spark.sql.adaptive.streaming.stateless.enabled": "false",
    # Placement says where state is: a task waits a little for that executor, as any other would have to restore it.
    "spark.locality.wait": "0s",
    "spark.locality.wait.process": "500ms",
    # An executor that has to leave ends its tasks first. Its shuffle files go with it: those of a short epoch have been
    # read by then, and a long epoch makes them anew.
    "spark.decommission.enabled": "true",
    "spark.executor.decommission.forceKillTimeout": "60s",
    # For each column, Spark's Python asks the Java process several times which line of the program made it. That took
    # half the time of a start. Our errors name the node instead.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # Questions do not wait for the epochs that came before them.
    "spark.scheduler.mode": "FAIR",
    # Tasks have a consumer for each source partition. With 64 of them in a process, Spark would close the oldest each
    # time that it needs one.
    "spark.kafka.consumer.cache.capacity": "256",
    "spark.python.daemon.module": "streamapp.spark.daemon",
    "spark.plugins": "org.apache.spark.sql.streamapp.RuntimePlugin",
    "spark.sql.extensions": "org.apache.spark.sql.streamapp.keyed.KeyedExtensions",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.stopTimeout": "1s",
    # A job's description has some ten kilobytes, and takes a block of this size, full of zeros at first.
    "spark.broadcast.blockSize": "128k",
    # Aggregation maps of many short tasks: the default page would be tens of megabytes for each.
    "spark.buffer.pageSize": "4m",
    "spark.ui.enabled": "false",
    # Without the pages of Spark's UI, nobody asks for its records of past work. They fill the old generation, which
    # means a full collection about every minute when epochs are short.
    "spark.ui.liveUpdate.period": "-1",
    "spark.ui.retainedJobs": "10",
    "spark.ui.retainedStages": "10",
    "spark.ui.retainedTasks": "100",
    "spark.sql.ui.retainedExecutions": "10",
    # Spark keeps fewer than this number: here only the last one.
    "spark.sql.streaming.numRecentProgressUpdates": "2",
    "spark.ui.showConsoleProgress": "false",
    # The text of each epoch's plan is for those pages too; the short one has no details of each operator.
    "spark.sql.ui.explainMode": "simple",
}


@dataclass(frozen=True)
class Place:
    """Where the processing runs and what it may use there."""

    master: str
    work_dir: Path = Path(".")
    memory: str = "2g"
    executor_memory: str = "1g"
    stores_mib: int = 512
    """The native memory that the stores of one process share: memtables, cached blocks, indexes and filters."""
    first_memory: str | None = "384m"
    """The size of each JVM's heap at its start; None: its largest size. Java's own choice, a share of the machine's
    memory, may be a few megabytes: it would do nothing but collect garbage."""
    executors: int | None = None
    """The number of executors at the start; None: none, the tasks run in threads of this process."""
    host: str = "127.0.0.1"
    """Address at which executors reach the driver; it binds no other."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Further Spark settings for the place."""
    log_config: Path | None = None
    """A log4j2 configuration; None: a file of the work_dir."""


def fresh_work_dir(state_dir: Path) -> Path:
    """The folder for Spark's local files, with nothing in it.

    Local state is never trusted across a restart: an unclean stop leaves changes that were never committed.
    """
    work_dir = state_dir / "work"
    shutil.rmtree(work_dir, ignore_errors=True)
    work_dir.mkdir(parents=True, exist_ok=True)
    return work_dir


def task_slots(partitions: int, processors: int) -> int:
    """The number of tasks that run at a time in one process.

    A task of a small epoch mostly waits for Kafka's acknowledgements, so several of them wait at a time for each
    processor. Tasks of large epochs take turns (ProcessorShare).
    """
    return max(processors, min(partitions, _TASKS_PER_PROCESSOR * processors))


def stores_mib_of(machine_mib: int) -> int:
    """Native memory for the stores of a process with a machine to itself: an eighth of the machine's, within bounds.

    >>> [stores_mib_of(mib) for mib in (512, 4096, 65536)]
    [128, 512, 1024]
    """
    return max(128, min(_MOST_STORES_MIB, machine_mib // 8))


def this_process(partitions: int, work_dir: Path) -> Place:
    """A place in this process alone."""
    # Plain local[N] gives a task one attempt, and a fenced task would end the app.
    machine_mib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
    slots = task_slots(partitions, os.cpu_count() or 1)
    return Place(f"local[{slots},4]", work_dir, stores_mib=stores_mib_of(machine_mib))


def executor_processes(count: int, work_dir: Path) -> Place:
    """A place with `count` real executor processes on this machine.

    Spark's stand-alone worker keeps their folders below SPARK_HOME, so it gets a SPARK_HOME of its own, made of links.
    """
    home = work_dir.resolve() / "spark-home"
    home.mkdir(parents=True, exist_ok=True)
    installed = Path(pyspark.__file__).parent
    for name in ("bin", "jars", "sbin"):
        if not (home / name).exists():
            (home / name).symlink_to(installed / name)
    os.environ["SPARK_HOME"] = str(home)
    master = f"local-cluster[{count},{_EXECUTOR_SLOTS},{_EXECUTOR_MIB}]"
    memory = f"{_EXECUTOR_MIB}m"
    return Place(master, work_dir, executor_memory=memory, stores_mib=_EXECUTOR_STORES_MIB, executors=count)


def runtime_class_path() -> str:
    """The jars that driver and executors need beside Spark's own."""
    ours = JARS / "streamapp-runtime.jar"
    if not ours.exists():
        raise FileNotFoundError(f"{ours} is missing: build it with `make jvm`")
    return os.pathsep.join([*class_archive.class_path(), str(ours)])


def open_session(
    name: str, place: Place, partitions: int, settings: dict[str, str], class_path: str | None = None
) -> SparkSession:
    """Starts Spark in this process.

    Args:
        name: the name in logs.
        place: the place where Spark runs.
        partitions: number of state partitions (spec.maxParallelism).
        settings: further settings, among them the runtime's own (`spark.streamapp.*`).
        class_path: a class path in place of `runtime_class_path()`, which it must contain.
    """
    start_engine(place, class_path)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # for the user's functions: it has our packages
    builder = SparkSession.builder.appName(name)
    options = _settings_of(place, class_path) | settings | {"spark.sql.shuffle.partitions": str(partitions)}
    for key, value in options.items():
        builder = builder.config(key, value)
    # PySpark logs each analysis error with its whole plan to stderr; the error that we raise has all that a user needs.
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logging.getLogger(name).disabled = True
    services = java_class("SessionServices")
    services.hide()
    try:
        spark = builder.getOrCreate()
    finally:
        services.show()
    guard.restrict_functions(spark)
    formats.register_functions(spark)
    return spark


def start_engine(place: Place, class_path: str | None = None) -> None:
    """Starts the Java process for a session in this place. `open_session` starts it too; this call does so earlier."""
    _temporary(place).mkdir(parents=True, exist_ok=True)
    start_jvm(_settings_of(place, class_path))


def _temporary(place: Place) -> Path:
    """The folder for temporary files of Java and native libraries. A process that is killed leaves them, 15 MB each
    time; here the next start removes them."""
    return place.work_dir.resolve() / "tmp"


def _settings_of(place: Place, class_path: str | None) -> dict[str, str]:
    logging_as = place.log_config or log_config(place.work_dir)
    java = f"-Dlog4j2.configurationFile=file:{logging_as} {class_archive.java_options()}"
    here = f"{java} -Djava.io.tmpdir={_temporary(place)}"
    executors = here if place.master.startswith("local") else java  # a pod has a folder of its own
    jars = class_path or runtime_class_path()
    return {
        **FIXED_SETTINGS,
        _STATE + "rocksdb.maxMemoryUsageMB": str(place.stores_mib),
        "spark.master": place.master,
        "spark.driver.extraClassPath": jars,
        "spark.executor.extraClassPath": jars,
        "spark.driver.memory": place.memory,
        "spark.executor.memory": place.executor_memory,
        "spark.driver.extraJavaOptions": f"{here} {heap_options(place.first_memory, place.memory)}",
        "spark.executor.extraJavaOptions": f"{executors} {heap_options(place.first_memory, place.executor_memory)}",
        "spark.local.dir": str(place.work_dir / "spark"),
        "spark.driver.host": place.host,
        "spark.driver.bindAddress": place.host,
        "spark.sql.warehouse.dir": str(place.work_dir / "warehouse"),
        **place.settings,
    }


def heap_options(first: str | None, most: str) -> str:
    """Java's options for garbage collection and for the size of the heap.

    Args:
        first: the heap's first size; None: all of it.
        most: its largest size.

    >>> heap_options(None, "600m").split()[-1], heap_options("384m", "2g").split()[-2:]
    ('-Xms600m', ['-Xms384m', '-Xmn128m'])
    """
    return f"{_JVM_OPTIONS} " + (f"-Xms{most}" if first is None else f"-Xms{first} -Xmn{_YOUNG_GENERATION}")


def log_config(work_dir: Path) -> Path:
    """Writes a log configuration and returns its file. Spark logs to a file: the terminal belongs to the user."""
    path = work_dir.resolve() / "log4j2.properties"
    path.write_text(
        "rootLogger.level = warn\n"
        "rootLogger.appenderRef.file.ref = file\n"
        "appender.file.type = RollingFile\n"
        "appender.file.name = file\n"
        f"appender.file.fileName = {work_dir.resolve()}/spark.log\n"
        f"appender.file.filePattern = {work_dir.resolve()}/spark-%i.log\n"
        "appender.file.layout.type = PatternLayout\n"
        "appender.file.layout.pattern = %d{ISO8601} %p %c{1}: %m%n%ex\n"
        "appender.file.policies.type = SizeBasedTriggeringPolicy\n"
        "appender.file.policies.size = 20MB\n"
        "appender.file.strategy.type = DefaultRolloverStrategy\n"
        "appender.file.strategy.max = 3\n"
    )
    return path
