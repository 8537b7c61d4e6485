# SPDX-License-Identifier: Apache-2.0
"""`streamapp run` as a process that a test can start, watch, and kill; and the load that keeps it busy."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from confluent_kafka import KafkaError, Message

from lib.broker import in_order, unique_name
from lib.wait import until
from streamapp.kafka.admin import Admin, TopicSpec
from streamapp.kafka.config import KafkaConfig

START_SECONDS = 180.0
STOP_SECONDS = 30.0
TICK_MS = 250
"""The event time between two records of the windowed input."""
WINDOW_MS = 10_000
WITHIN_MS = 2_000
"""The greatest distance of the records of a pair of the join."""

_NUMBERS = """
  - {name: numbers, stream: {topic: $T-numbers, value: {format: json, schema: "n BIGINT, seq BIGINT"}}}"""
_SUMMED = """
  - {name: totals, groupBy: [key], aggregate: {count: count(*), total: sum(n), low: min(n), high: max(n)}}
  - {name: totals-out, to: {topic: $T-totals}}
"""

TOTALS = _NUMBERS + _SUMMED
"""A keyed aggregate: state."""

HOP = f"{_NUMBERS}\n  - {{name: noisy, with: {{noise: rand()}}}}{_SUMMED}"
"""The same over an internal topic: a value that cannot be repeated is computed before it."""

FUNCTION = f"""{_NUMBERS}
  - {{name: called, python: {{function: "noise:noisy", schema: "n BIGINT, seq BIGINT, noise DOUBLE"}}}}{_SUMMED}"""
"""The same behind a function of the user's, which never returns the same value."""

FUNCTIONS_CODE = (
    'code: {files: {noise.py: "import random\\ndef noisy(row):\\n  '
    "return {'n': row['n'], 'seq': row['seq'], 'noise': random.random()}\"}}"
)
"""A setting: the user's function."""

ECHO = """
  - {name: raw, stream: {topic: $T-numbers, value: text}}
  - {name: echo-out, from: raw, to: {topic: $T-echo, value: text}}
"""
"""A copy of the same input: no state, only a position."""

WINDOWS = """
  - {name: ticks, stream: {topic: $T-ticks, value: {format: json, schema: "n BIGINT"}}}
  - name: windows
    groupBy: [key]
    window: {tumbling: 10s}
    emit: final
    aggregate: {count: count(*), total: sum(n)}
  - {name: windows-out, to: {topic: $T-windows}}
"""
"""Final results of windows. Its input has one partition and rising times, so that no record is ever late."""

JOIN = """
  - {name: left, stream: {topic: $T-ticks, value: {format: json, schema: "n BIGINT"}}}
  - {name: right, stream: {topic: $T-tocks, value: {format: json, schema: "n BIGINT"}}}
  - name: pairs
    from: left
    join:
      with: right
      within: 2s
      select: {tick: unix_millis(left.timestamp), tock: unix_millis(right.timestamp), total: left.n + right.n}
  - {name: pairs-out, to: {topic: $T-pairs}}
"""
"""Pairs of the same input and one more, for which the same holds."""

SEEN = """
  - {name: users, table: {topic: $T-ticks, value: {format: json, schema: "n BIGINT"}}}
  - {name: numbers, stream: {topic: $T-numbers, value: {format: json, schema: "n BIGINT"}}}
  - {name: seen, from: numbers, join: {with: users, select: {'n': numbers.n, who: users.n}}}
  - {name: echo-out, from: seen, to: {topic: $T-echo}}
"""
"""Numbers with the rows of their keys: a table and a lookup in it, in one task."""

COUNTED = """
  - {name: counts, from: seen, groupBy: [key], aggregate: {'n': count(*)}}
  - {name: counts-out, from: counts, to: {topic: $T-totals}}
"""
"""The count of each key: one store more in that task."""

DEAD_LETTERS = "onBadRecord: {deadLetter: $T-dead}"
"""A setting: bad records, of which there are then some among the ticks, go to a topic of their own."""


def manifest_text(
    prefix: str,
    topology: str,
    *,
    name: str | None = None,
    parallelism: int = 2,
    interval: str = "100ms",
    spec: str = "",
) -> str:
    """A manifest; `$T` in the topology stands for the prefix of the topics, `spec` is one more line of settings."""
    return (
        "apiVersion: streamapp.dev/v1alpha1\nkind: StreamApp\n"
        f"metadata: {{name: {name or prefix}}}\nspec:\n  applicationId: {prefix}\n"
        f"  maxParallelism: {parallelism}\n  epochInterval: {interval}\n  {spec}\n  topology:{topology}"
    ).replace("$T", prefix)


class AppProcess:
    """One `streamapp run`, in a process group of its own. Its output goes to `log`.

    Without `kafka`, the manifest has its address.
    """

    def __init__(
        self,
        manifest: Path,
        state_dir: Path,
        kafka: KafkaConfig | None,
        log: Path,
        env: Mapping[str, str] | None = None,
        arguments: Sequence[str] = (),
        program: str = "streamapp.cli.main",
    ) -> None:
        self.log = log
        self.state_dir = state_dir
        command = [sys.executable, "-m", program, "run", str(manifest)]
        command += ["--state-dir", str(state_dir), *arguments]
        if kafka is not None:
            command += ["--bootstrap-servers", kafka.bootstrap_servers]
        with log.open("wb") as out:
            self._process = subprocess.Popen(
                command, stdout=out, stderr=out, env={**os.environ, **(env or {})}, start_new_session=True
            )

    # --- looking --------------------------------------------------------------------------------------------

    @property
    def pid(self) -> int:
        """The id of the Python process, which leads the process group."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        return self._process.poll()

    @property
    def said(self) -> str:
        return self.log.read_text(errors="replace")

    @property
    def address(self) -> str:
        """The address of the live interface: http://HOST:PORT. Raises OSError before there is one."""
        return str(json.loads((self.state_dir / "app.json").read_text())["url"])

    def status(self) -> dict[str, Any]:
        """The app's status; empty while it starts or when it is gone."""
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError, urllib.error.URLError):
            url = self.address
            with urllib.request.urlopen(f"{url}/status", timeout=5) as answer:
                status: dict[str, Any] = json.load(answer)
                return status
        return {}

    def scale(self, replicas: int) -> None:
        """Asks for another number of executors."""
        url = json.loads((self.state_dir / "app.json").read_text())["url"]
        body = json.dumps({"replicas": replicas}).encode()
        with urllib.request.urlopen(urllib.request.Request(f"{url}/replicas", body, method="PUT"), timeout=10):
            pass

    def epochs(self) -> dict[str, int]:
        """The last epoch this process has committed, by sub-topology; -1 for none yet."""
        return {name: part["epoch"] for name, part in self.status().get("subTopologies", {}).items()}

    def require_alive(self) -> None:
        assert self.exit_code is None, f"the app ended with {self.exit_code}:\n{self.tail()}"

    def tail(self) -> str:
        return "\n".join(self.said.replace("\r", "\n").splitlines()[-25:])

    # --- waiting --------------------------------------------------------------------------------------------

    def await_work(self, epochs: int = 1, seconds: float = START_SECONDS) -> None:
        """Waits until every sub-topology has committed so many epochs in this process."""

        def busy() -> bool:
            self.require_alive()
            parts = self.status().get("subTopologies", {})
            return bool(parts) and all(part["epochs"] >= epochs for part in parts.values())

        until(busy, seconds, lambda: f"{epochs} epochs in every sub-topology; it said:\n{self.tail()}", every=0.1)

    def await_epochs_beyond(self, epochs: Mapping[str, int], seconds: float = START_SECONDS) -> None:
        """Waits until every sub-topology has committed a later epoch than these."""

        def beyond() -> bool:
            self.require_alive()
            now = self.epochs()
            return bool(now) and all(epoch > epochs.get(name, -1) for name, epoch in now.items())

        until(beyond, seconds, lambda: f"epochs beyond {epochs}; it said:\n{self.tail()}", every=0.1)

    def await_exit(self, seconds: float = START_SECONDS) -> int:
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the app does not end within {seconds:g} s; it said:\n{self.tail()}") from None

    # --- ending ---------------------------------------------------------------------------------------------

    def stop(self) -> int:
        """Stops it cleanly, as Ctrl-C or Kubernetes do."""
        self._process.terminate()
        return self.await_exit(STOP_SECONDS)

    def signal_group(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    def end(self) -> None:
        """Ends it in any state, with all processes that it has started."""
        self.signal_group(signal.SIGKILL)
        self._process.wait()


# --- load ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fold:
    """The aggregate of a key's first `count` records."""

    count: int
    total: int
    low: int
    high: int

    def plus(self, n: int) -> Fold:
        return Fold(self.count + 1, self.total + n, min(self.low, n), max(self.high, n))


class History:
    """All records ever sent, as the results that they must have. One thread adds, others read."""

    def __init__(self) -> None:
        self.prefixes: dict[str, list[Fold]] = {}
        """By key, the fold of each prefix of its records, in the order they were sent."""
        self.numbers: dict[str, list[int]] = {}
        self.windows: dict[tuple[str, int], tuple[int, int]] = {}
        """(key, start in ms) → (count, total)."""
        self.last_tick = 0
        self.pairs: dict[tuple[str, int, int], int] = {}
        """(key, the tick's time, the tock's time) → total."""
        self._ticks: dict[str, list[tuple[int, int]]] = {}
        self._tocks: dict[str, list[tuple[int, int]]] = {}
        self.bad: list[str] = []
        """The keys of records that cannot be read, by number."""

    def add(self, key: str, n: int) -> int:
        """Adds a record; returns its number within its key."""
        prefixes = self.prefixes.setdefault(key, [])
        self.numbers.setdefault(key, []).append(n)
        prefixes.append(prefixes[-1].plus(n) if prefixes else Fold(1, n, n, n))
        return len(prefixes) - 1

    def add_tick(self, key: str, n: int, at: int) -> None:
        window = (key, at - at % WINDOW_MS)
        count, total = self.windows.get(window, (0, 0))
        self.windows[window] = (count + 1, total + n)
        self.last_tick = at
        self._ticks.setdefault(key, []).append((at, n))
        self.pairs |= {(key, at, tock): n + m for tock, m in _near(self._tocks.get(key, []), at)}

    def add_tock(self, key: str, n: int, at: int) -> None:
        self._tocks.setdefault(key, []).append((at, n))
        self.pairs |= {(key, tick, at): n + m for tick, m in _near(self._ticks.get(key, []), at)}

    @property
    def records(self) -> int:
        return sum(len(prefixes) for prefixes in self.prefixes.values())

    @property
    def ticks(self) -> list[tuple[str, int]]:
        """The keys and times of the ticks, in the order of their times."""
        return sorted(((key, at) for key, ticks in self._ticks.items() for at, _ in ticks), key=lambda tick: tick[1])

    def closed_windows(self) -> dict[tuple[str, int], tuple[int, int]]:
        """Windows whose end the event time has reached."""
        return {key: row for key, row in self.windows.items() if key[1] + WINDOW_MS <= self.last_tick}


def _near(others: list[tuple[int, int]], at: int) -> Iterator[tuple[int, int]]:
    """The records, of some in the order of their times, that are no longer ago than a pair may be apart."""
    return itertools.takewhile(lambda other: at - other[0] <= WITHIN_MS, reversed(others))


def _first_time_ms() -> int:
    """The time before the first tick: some hours ago, at a full hour.

    A broker that starts anew forgets the producers whose records are, by their own times, older than a day
    (`producer.id.expiration.ms`). It would take a batch of theirs twice that is sent again. Times run ahead of the
    clock, and a broker takes none that is more than an hour ahead.
    """
    hour = 3_600_000
    return (int(time.time() * 1000) // hour - 6) * hour


class Load:
    """Sends records until `stop` is called: the same seed makes the same records in the same order.

    Each record has its number within its key, so that an echo of it differs from any other record.
    """

    def __init__(
        self,
        kafka: KafkaConfig,
        prefix: str,
        seed: int,
        *,
        rate: int,
        keys: int = 200,
        numbers: bool = True,
        ticks: bool = True,
        tocks: bool = False,
        bad: bool = False,
    ) -> None:
        print(f"load: seed {seed}, {rate} records/s, {keys} keys")
        self.history = History()
        self._random = random.Random(seed)
        self._numbers, self._ticks, self._tocks = f"{prefix}-numbers", f"{prefix}-ticks", f"{prefix}-tocks"
        self._keys = [f"key-{i}" for i in range(keys)]
        self.rate = rate
        self._with_numbers, self._with_ticks, self._with_tocks, self._with_bad = numbers, ticks, tocks, bad
        self._clock = _first_time_ms()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._error: KafkaError | None = None
        # Longer than a broker is away in any test: a record that was taken always arrives, once and in order.
        settings = {
            "delivery.timeout.ms": 300_000,
            "linger.ms": 5,
            "log_level": 2,
            "partitioner": "murmur2_random",
        }
        self._producer = in_order(kafka, **settings)

    @property
    def running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def start(self) -> None:
        self._stop.clear()
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stops the sending; all sent records are in the topics afterwards."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(STOP_SECONDS)
            assert not self._thread.is_alive(), "the load does not end"
        self.flush()

    def send(self, records: int) -> None:
        """Sends so many at once, while no thread sends."""
        for _ in range(records):
            self._any()
        self.flush()

    def send_each_key(self) -> None:
        """Sends one more record for every key."""
        for key in self._keys if self._with_numbers else ():
            self._one(key)
        self.flush()

    def close_windows(self) -> None:
        """Sends a last tick far ahead, and a tock, so that the event time passes every window and pair before it."""
        if not self._with_ticks:
            return
        self._clock += 100 * WINDOW_MS
        self._tick("last")
        if self._with_tocks:
            self._tock("last")
        self.flush()

    def flush(self) -> None:
        assert self._producer.flush(300) == 0, "the broker did not take all records"
        assert self._error is None, f"a record was not delivered: {self._error}"

    def _run(self) -> None:
        batch = max(1, self.rate // 20)
        while not self._stop.wait(0.05):
            for _ in range(batch):
                if self._with_numbers:
                    self._one(self._random.choice(self._keys))
            if self._with_ticks:
                self._any_tick()

    def _any(self) -> None:
        """Sends a number; a tick if there are no numbers."""
        if self._with_numbers:
            self._one(self._random.choice(self._keys))
        else:
            self._any_tick()

    def _any_tick(self) -> None:
        """Sends a tick, with the tock that may belong to it, and sometimes with a bad record."""
        self._tick(self._random.choice("abc"))
        if self._with_tocks:
            self._tock(self._random.choice("abc"))
        if self._with_bad and self._random.random() < 0.1:
            key, number = self._random.choice("abc"), len(self.history.bad)
            self.history.bad.append(key)
            self._produce(self._ticks, key, number, self._clock)

    def _one(self, key: str) -> None:
        n = self._random.randint(-1_000_000, 1_000_000)
        seq = self.history.add(key, n)
        self._produce(self._numbers, key, {"n": n, "seq": seq}, 0)

    def _tick(self, key: str) -> None:
        self._clock += TICK_MS
        n = self._random.randint(-1_000_000, 1_000_000)
        self.history.add_tick(key, n, self._clock)
        self._produce(self._ticks, key, {"n": n}, self._clock)

    def _tock(self, key: str) -> None:
        """Sends a tock at the time of the last tick."""
        n = self._random.randint(-1_000_000, 1_000_000)
        self.history.add_tock(key, n, self._clock)
        self._produce(self._tocks, key, {"n": n}, self._clock)

    def _produce(self, topic: str, key: str, value: object, at: int) -> None:
        content = json.dumps(value).encode()
        while True:
            try:
                self._producer.produce(topic, content, key.encode(), on_delivery=self._delivered, timestamp=at)
                break
            except BufferError:
                self._producer.poll(0.1)
        self._producer.poll(0)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._error = error


# --- one application under test -----------------------------------------------------------------------------


class Bench:
    """Topics, manifest and processes of one application; `with` ends every process that it has started."""

    def __init__(
        self,
        kafka: KafkaConfig,
        folder: Path,
        name: str,
        topology: str = TOTALS + ECHO,
        *,
        parallelism: int = 2,
        partitions: int = 4,
        interval: str = "100ms",
        spec: str = "",
        beside: Bench | None = None,
    ) -> None:
        self._as_given: dict[str, Any] = {
            "topology": topology,
            "parallelism": parallelism,
            "partitions": partitions,
            "interval": interval,
            "spec": spec,
        }
        self.kafka = kafka
        self.folder = folder
        self.prefix = unique_name(name.replace("_", "-").lower()[:40])
        self.admin = Admin(kafka)
        inputs = {"numbers": partitions, "ticks": 1, "tocks": 1}
        outputs = {
            "totals": 2,
            "echo": partitions,
            "windows": 2,
            "pairs": 2,
            "dead": 2,
            "folds": 2,
            "session": 2,
            "sliding": 2,
        }
        made = inputs | outputs if beside is None else outputs
        own = {name: f"{self.prefix}-{name}" for name in made if f"$T-{name}" in topology + spec}
        self.admin.create([TopicSpec(topic, "test", made[name]) for name, topic in own.items()])
        read = {} if beside is None else {name: beside.topics[name] for name in inputs if name in beside.topics}
        self.topics: dict[str, str] = read | own
        self.manifest = folder / f"{self.prefix}.yaml"
        self._read = read
        self.write(topology)
        self._processes: list[AppProcess] = []

    def write(self, topology: str) -> None:
        """Writes the manifest anew, with another topology over the same topics."""
        for name, topic in self._read.items():
            topology = topology.replace(f"$T-{name}", topic)
        given = self._as_given
        self.manifest.write_text(
            manifest_text(
                self.prefix, topology, parallelism=given["parallelism"], interval=given["interval"], spec=given["spec"]
            )
        )

    def start(
        self,
        state: str = "state",
        env: Mapping[str, str] | None = None,
        arguments: Sequence[str] = (),
        program: str = "streamapp.cli.main",
    ) -> AppProcess:
        """Starts a run, with the state folder of that name."""
        log = self.folder / f"{self.prefix}-{len(self._processes)}.log"
        process = AppProcess(self.manifest, self.folder / state, self.kafka, log, env, arguments, program)
        self._processes.append(process)
        return process

    def twin(self) -> Bench:
        """Another application with the same topology over the same input; its outputs are its own."""
        return Bench(self.kafka, self.folder, "twin", beside=self, **self._as_given)

    def load(self, seed: int, rate: int = 1000, keys: int = 200) -> Load:
        there = {name: name in self.topics for name in ("numbers", "ticks", "tocks")}
        return Load(self.kafka, self.prefix, seed, rate=rate, keys=keys, bad="dead" in self.topics, **there)

    @property
    def inputs(self) -> list[str]:
        """The topics that it reads."""
        return [topic for name, topic in self.topics.items() if name in ("numbers", "ticks", "tocks")]

    def all_topics(self) -> list[str]:
        """The application's own and its inputs and outputs."""
        return sorted(name for name in self.admin.topics() if name.startswith(f"{self.prefix}-"))

    def __enter__(self) -> Bench:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._processes:
            process.end()
        if error is not None:
            for process in self._processes[-3:]:
                print(f"--- {process.log.name}\n{process.tail()}")
