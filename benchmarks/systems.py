# SPDX-License-Identifier: Apache-2.0
"""The systems under test, each as processes of its own, started and stopped in the same way."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import psutil

from benchmarks.cpu_profile import Profile

HERE = Path(__file__).resolve().parent
HARNESS = HERE / "kafka-streams"
OURS, KAFKA_STREAMS, STOCK_SPARK = "StreamApp", "Kafka Streams", "Stock Spark"
STATE_PARTITIONS = 8
HEAP = "2g"
# Stock Spark has no measure of its own for an epoch's size; this is about the three seconds that ours aims at.
SPARK_EPOCH = 300_000
SPARK_MASTER = "local[2]"
PROFILING = False
"""Set by `--profile`. It costs a few percent of the measured time."""


@dataclass(frozen=True)
class Job:
    """A word count from one topic to another; the app is named after the system and the run."""

    bootstrap: str
    app: str
    input: str
    output: str
    dir: Path

    @staticmethod
    def of(bootstrap: str, system: str, run: str, scratch: Path) -> Job:
        app = f"{re.sub(r'[^a-z0-9]+', '-', system.lower()).strip('-')}-{run}"
        return Job(bootstrap, app, f"{app}-lines", f"{app}-out", scratch / app)


@dataclass
class Running:
    """A started system."""

    process: subprocess.Popen[str]
    log: Path
    peak_rss: int = 0
    lines: list[str] = field(default_factory=list)
    _threads: list[threading.Thread] = field(default_factory=list)

    def follow(self) -> Running:
        assert self.process.stdout is not None
        for target, args in ((self._listen, (self.process.stdout,)), (self._weigh, ())):
            thread = threading.Thread(target=target, args=args, daemon=True)
            thread.start()
            self._threads.append(thread)
        return self

    def _listen(self, out: IO[str]) -> None:
        for line in out:
            self.lines.append(line.rstrip("\n"))

    def _weigh(self) -> None:
        """Keeps the largest resident memory of the JVM so far."""
        while self.process.poll() is None:
            try:
                me = psutil.Process(self.process.pid)
                javas = [p for p in (me, *me.children(recursive=True)) if p.name() == "java"]
                self.peak_rss = max(self.peak_rss, sum(p.memory_info().rss for p in javas))
            except psutil.Error:
                pass
            time.sleep(0.25)

    @contextmanager
    def profiled(self) -> Iterator[None]:
        """Prints the profile of the JVM's processor time within the block, if `--profile` asks for it."""
        if not PROFILING:
            yield
            return
        with Profile(self._java().pid) as profile:
            yield
        print("\n".join(f"    {line}" for line in profile.lines()), flush=True)

    def _java(self) -> psutil.Process:
        """The JVM, as soon as there is one. Before it, a short one finds out how to start Spark's."""
        for _ in range(600):
            me = psutil.Process(self.process.pid)
            with suppress(psutil.Error):
                for found in (me, *me.children(recursive=True)):
                    if found.name() == "java" and "org.apache.spark.launcher.Main" not in found.cmdline():
                        return found
            time.sleep(0.05)
        raise AssertionError("no JVM was started")

    def cpu_seconds(self) -> float:
        """The processor time of the system so far: other work on the machine disturbs it less than elapsed time."""
        me = psutil.Process(self.process.pid)
        times = [process.cpu_times() for process in (me, *me.children(recursive=True))]
        return sum(t.user + t.system for t in times)

    def await_line(self, start: str, seconds: float) -> str:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            for line in self.lines:
                if line.startswith(start):
                    return line
            self.check()
            time.sleep(0.02)
        raise TimeoutError(f"no line of the system began with {start!r} within {seconds:.0f} s; its log is {self.log}")

    def check(self) -> None:
        if self.process.poll() is not None:
            tail = "\n".join(self.log.read_text(errors="replace").splitlines()[-15:])
            raise RuntimeError(f"it has ended by itself with {self.process.returncode}:\n{tail}")

    def stop(self) -> None:
        """Ends the system and waits for its JVM too, which lives on for a moment and still touches its files."""
        if self.process.poll() is not None:
            return
        children = psutil.Process(self.process.pid).children(recursive=True)
        self.process.terminate()
        try:
            self.process.wait(40)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(10)
        for process in psutil.wait_procs(children, 20)[1]:
            process.kill()


def _launch(command: list[str], job: Job, **more: str) -> Running:
    job.dir.mkdir(parents=True, exist_ok=True)
    log = job.dir / "log"
    path = os.pathsep.join((str(HERE.parent), os.environ.get("PYTHONPATH", "")))
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1", **more}
    with log.open("a") as errors:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=environment,
            cwd=job.dir,
            start_new_session=True,
        )
    return Running(process, log).follow()


MANIFEST = """\
apiVersion: streamapp.dev/v1alpha1
kind: StreamApp
metadata: {{name: {app}}}
spec:
  epochInterval: {epoch_interval}
  maxParallelism: {partitions}
  topology:
  - {{name: lines, stream: {{topic: {input}, value: text}}}}
  - {{name: words, from: lines, flatMap: {{word: "split(value, ' ')"}}}}
  - {{name: counts, from: words, groupBy: [word], aggregate: {{count: "count(*)"}}, store: word-counts}}
  - {{name: out, from: counts, to: {{topic: {output}, value: long}}}}
"""


def ours(job: Job, epoch_interval: str = "100ms") -> Running:
    """Starts StreamApp, exactly-once, by `streamapp run`."""
    text = MANIFEST.format(
        app=job.app, input=job.input, output=job.output, epoch_interval=epoch_interval, partitions=STATE_PARTITIONS
    )
    return run_manifest(job, text)


def run_manifest(job: Job, text: str, **environment: str) -> Running:
    """Starts any app of ours."""
    job.dir.mkdir(parents=True, exist_ok=True)
    manifest = job.dir / "app.yaml"
    manifest.write_text(text)
    command = [
        sys.executable,
        str(HERE / "ours_main.py"),
        "run",
        str(manifest),
        "--bootstrap-servers",
        job.bootstrap,
        "--state-dir",
        str(job.dir / "state"),
    ]
    return _launch(command, job, **environment)


def kafka_streams(job: Job, threads: int = 2, program: str = "WordCount") -> Running:
    """Starts Kafka Streams under exactly_once_v2."""
    classes = HARNESS / "lib" / "classes"
    command = [
        "java",
        f"-Xmx{HEAP}",
        "-XX:+UseParallelGC",
        "-cp",
        f"{classes}{os.pathsep}{HARNESS}/lib/*",
        program,
        job.bootstrap,
        job.app,
        job.input,
        job.output,
        str(job.dir / "state"),
        str(threads),
    ]
    return _launch(command, job)


def stock_spark(job: Job, master: str = SPARK_MASTER, epoch: int = SPARK_EPOCH) -> Running:
    """Starts Spark as it comes, at-least-once."""
    options = {
        "bootstrap": job.bootstrap,
        "input": job.input,
        "output": job.output,
        "dir": str(job.dir),
        "partitions": str(STATE_PARTITIONS),
        "master": master,
        "memory": HEAP,
        "maxOffsetsPerTrigger": str(epoch),
        "java": "-XX:+UseParallelGC",
    }
    return _launch([sys.executable, str(HERE / "stock_spark_main.py"), json.dumps(options)], job)


Starter = Callable[[Job], Running]
SYSTEMS: dict[str, Starter] = {OURS: ours, KAFKA_STREAMS: kafka_streams, STOCK_SPARK: stock_spark}


def build_kafka_streams() -> None:
    """Fetches Kafka Streams with Maven and compiles its programs, once."""
    lib = HARNESS / "lib"
    sources = sorted(HARNESS.glob("*.java"))
    made = lib / "classes" / "Harness.class"
    if not any(lib.glob("kafka-streams-*.jar")):
        print("fetching Kafka Streams with Maven ...", flush=True)
        subprocess.run(
            [
                "mvn",
                "-q",
                "-B",
                "-ntp",
                "-Dstyle.color=never",
                "-f",
                str(HARNESS / "pom.xml"),
                "dependency:copy-dependencies",
            ],
            check=True,
        )
    if not made.exists() or made.stat().st_mtime < max(source.stat().st_mtime for source in sources):
        made.parent.mkdir(exist_ok=True)
        subprocess.run(["javac", "-cp", f"{lib}/*", "-d", str(made.parent), *map(str, sources)], check=True)
