# SPDX-License-Identifier: Apache-2.0
"""The invariants of every run, whatever faults it had. One module for all runs.

    I1  no loss: the echo of the input is the whole input
    I2  no duplicates for a read_committed reader
    I3  record for record: every result of a key is the fold of a prefix of its input, in order
    I4  all of this holds for a reader DURING the faults, not only afterwards
    I5  state rebuilt from the changelog is the fold of the input, and that of a twin that was never killed
    I6  a closed window has exactly one, final, record
    I7  no transaction stays open, and committed group offsets never go back

A broken one is a `Violation`, which names it.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from types import TracebackType
from typing import Any, Protocol

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from lib.app import WINDOW_MS, Bench, Fold, History, Load
from lib.wait import until
from streamapp.errors import RunError
from streamapp.kafka.admin import Admin
from streamapp.kafka.config import KafkaConfig
from streamapp.kafka.group import GroupPosition
from streamapp.kafka.reader import Reader

CATCH_UP_SECONDS = 120.0
SILENT_SECONDS = 5.0


class Violation(AssertionError):
    """An invariant that does not hold."""

    def __init__(self, invariant: str, what: str) -> None:
        self.invariant = invariant
        super().__init__(f"{invariant}: {what}")


# --- checks of records --------------------------------------------------------------------------------------


class Check(Protocol):
    """Checks the records of one topic, in order within each partition."""

    def see(self, key: str, value: Any) -> None:
        """Checks one record. Raises Violation."""

    def missing(self) -> str | None:
        """The expected results that have not been seen yet; None when complete."""


class EchoCheck:
    """I1, I2, I3 of a stateless part: for each key the numbers 0, 1, 2, … with the values that were sent."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._next: dict[str, int] = {}
        self.count = 0

    def see(self, key: str, value: Any) -> None:
        expected, seq = self._next.get(key, 0), value["seq"]
        if seq < expected:
            raise Violation("I2", f"record {seq} of {key} came again: {expected} is next")
        if seq > expected:
            raise Violation("I1", f"record {seq} of {key} came where {expected} is next: a gap")
        if value["n"] != self._history.numbers[key][seq]:
            raise Violation("I3", f"record {seq} of {key} is {value['n']}, not {self._history.numbers[key][seq]}")
        self._next[key] = seq + 1
        self.count += 1

    def missing(self) -> str | None:
        gaps = [(key, len(sent) - self._next.get(key, 0)) for key, sent in self._history.numbers.items()]
        return _some([f"{count} records of {key}" for key, count in gaps if count])


class TotalsCheck:
    """I2, I3 of a keyed aggregate: each result is the fold of a longer prefix than the one before it."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._last: dict[str, int] = {}

    def see(self, key: str, value: Any, *, again: bool = False) -> None:
        """`again`: the same result may come once more, as with a query."""
        found = Fold(value["count"], value["total"], value["low"], value["high"])
        prefixes = self._history.prefixes.get(key, [])
        last = self._last.get(key, 0)
        if found.count < last + (not again):
            raise Violation("I2", f"{key} was at {last} records and is at {found.count} again: {found}")
        if found.count > len(prefixes):
            raise Violation("I2", f"{key} has {len(prefixes)} records, and a result of {found.count}")
        if found != prefixes[found.count - 1]:
            raise Violation("I3", f"{key}: {found} is the fold of no prefix: {prefixes[found.count - 1]} is")
        self._last[key] = found.count

    def missing(self) -> str | None:
        ends = [(key, self._last.get(key, 0), len(all_of)) for key, all_of in self._history.prefixes.items()]
        return _some([f"{key} is at {seen} of {all_of}" for key, seen, all_of in ends if seen != all_of])


class WindowsCheck:
    """I6: one record for each closed window, which is the fold of all that is in the window."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._seen: set[tuple[str, int]] = set()

    def see(self, key: str, value: Any) -> None:
        parts = json.loads(key)
        start = datetime.fromisoformat(parts["window_start"])
        window = (parts["key"], int(start.timestamp() * 1000))
        if window in self._seen:
            raise Violation("I6", f"window {window} came again: {value}")
        if window[1] + WINDOW_MS > self._history.last_tick:
            raise Violation("I6", f"window {window} came before it was closed")
        count, total = self._history.windows[window]
        if (value["count"], value["total"]) != (count, total):
            raise Violation("I6", f"window {window} is {value}, not count {count}, total {total}")
        self._seen.add(window)

    def missing(self) -> str | None:
        return _some([f"window {window}" for window in self._history.closed_windows().keys() - self._seen])


class PairsCheck:
    """I1, I2, I3 of a join: each pair that is near enough, once."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._seen: set[tuple[str, int, int]] = set()

    def see(self, key: str, value: Any) -> None:
        pair = (key, value["tick"], value["tock"])
        if pair in self._seen:
            raise Violation("I2", f"pair {pair} came again")
        if value["total"] != self._history.pairs.get(pair):
            raise Violation("I3", f"pair {pair} is {value['total']}, not {self._history.pairs.get(pair)}")
        self._seen.add(pair)

    def missing(self) -> str | None:
        return _some([f"pair {pair}" for pair in self._history.pairs.keys() - self._seen])


class DeadLettersCheck:
    """I1, I2, I3 of bad records: each one, once, as it came."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._seen: set[int] = set()

    def see(self, key: str, value: Any) -> None:
        if value in self._seen:
            raise Violation("I2", f"bad record {value} came again")
        if value not in range(len(self._history.bad)) or key != self._history.bad[value]:
            raise Violation("I3", f"nobody has sent {value} with key {key}")
        self._seen.add(value)

    def missing(self) -> str | None:
        return _some([f"bad record {number}" for number in range(len(self._history.bad)) if number not in self._seen])


def _some(lines: list[str]) -> str | None:
    return f"{len(lines)} missing, e.g. {', '.join(lines[:3])}" if lines else None


def checks_of(topics: Mapping[str, str], history: History) -> dict[str, Check]:
    """The checks of a bench's output topics, by topic."""
    kinds: dict[str, Check] = {
        "echo": EchoCheck(history),
        "totals": TotalsCheck(history),
        "windows": WindowsCheck(history),
        "pairs": PairsCheck(history),
        "dead": DeadLettersCheck(history),
    }
    return {topics[name]: check for name, check in kinds.items() if name in topics}


# --- readers ------------------------------------------------------------------------------------------------


def _consumer(kafka: KafkaConfig, isolation: str) -> Consumer:
    settings = {
        "group.id": "verify",
        "isolation.level": isolation,
        "enable.auto.commit": False,
        "auto.offset.reset": "error",
        "fetch.wait.max.ms": 100,
        "reconnect.backoff.max.ms": 500,
        "log_level": 2,
    }
    return Consumer({**kafka.for_librdkafka(), **settings}, logger=None)


def _see(checks: Mapping[str, Check], message: Message) -> None:
    topic = message.topic() or ""
    where = f"{topic}/{message.partition()} at {message.offset()}"
    try:
        checks[topic].see((message.key() or b"").decode(), json.loads(message.value() or b"null"))
    except Violation as violation:
        raise Violation(violation.invariant, f"{where}: {violation}") from None


class LiveReader:
    """I4: reads the outputs while the faults happen. The first violation ends it."""

    def __init__(self, kafka: KafkaConfig, checks: Mapping[str, Check], isolation: str = "read_committed") -> None:
        self._checks = checks
        admin = Admin(kafka)
        places = {(topic, p): start for topic in checks for p, start in admin.start_offsets(topic).items()}
        self._reader = Reader(lambda: _consumer(kafka, isolation), places)
        self._stop = threading.Event()
        self._problem: Exception | None = None
        self.records = 0
        self._thread = threading.Thread(target=self._run, name="live-reader", daemon=True)
        self._thread.start()

    def require_sound(self) -> None:
        if self._problem is not None:
            raise self._problem

    def missing(self) -> str | None:
        """The results that have not come yet. Raises the violation, if there is one."""
        self.require_sound()
        lines = [f"{topic}: {gap}" for topic, check in self._checks.items() if (gap := check.missing())]
        return "; ".join(lines) or None

    def close(self) -> None:
        self._stop.set()
        self._thread.join(30)

    def _run(self) -> None:
        heard_at = time.monotonic()
        try:
            while not self._stop.is_set():
                for message in self._reader.read(5000, 0.2):
                    heard_at = time.monotonic()
                    if message.error() is not None:  # a broker that is away: the client tries again
                        continue
                    _see(self._checks, message)
                    self.records += 1
                if time.monotonic() - heard_at > SILENT_SECONDS:
                    self._find_brokers_again()
                    heard_at = time.monotonic()
        except Exception as error:
            self._problem = error
        finally:
            self._reader.close()

    def _find_brokers_again(self) -> None:
        """Connects the client again if it has lost the brokers."""
        for topic in list(self._checks)[:1]:
            with suppress(KafkaException):  # a broker that has just started may not know the topic yet
                self._reader.partitions_of(topic)


class OffsetWatch:
    """I7: the offsets of the application's consumer group never go back."""

    def __init__(self, kafka: KafkaConfig, group: str, topics: Iterable[str]) -> None:
        self._position = GroupPosition(kafka, group)
        known = Admin(kafka).topics()
        self._partitions = [(topic, p) for topic in topics for p in range(known[topic].partitions)]
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._problem: Violation | None = None
        self.seen: dict[tuple[str, int], int] = {}
        self._thread = threading.Thread(target=self._run, name="offset-watch", daemon=True)
        self._thread.start()

    def require_sound(self) -> None:
        if self._problem is not None:
            raise self._problem

    def look(self) -> None:
        with self._lock:
            try:
                self._note(self._position.read(self._partitions))
            except RunError:  # the broker is away
                return

    def _note(self, offsets: Mapping[tuple[str, int], int]) -> None:
        for where, offset in offsets.items():
            before = self.seen.get(where, -1)
            if offset < before and self._problem is None:
                self._problem = Violation("I7", f"the group's offset of {where} went back from {before} to {offset}")
            self.seen[where] = max(offset, before)

    def close(self) -> None:
        self._stop.set()
        self._thread.join(60)
        self._position.close()

    def _run(self) -> None:
        while not self._stop.wait(0.3):
            self.look()


def verify_late(
    kafka: KafkaConfig, topics: Mapping[str, str], history: History, isolation: str = "read_committed"
) -> int:
    """I1, I2, I3, I6 for a reader that comes afterwards; returns how many records it has seen."""
    checks = checks_of(topics, history)
    seen = 0
    for topic, check in checks.items():
        for message in committed(kafka, topic, isolation):
            _see(checks, message)
            seen += 1
        gap = check.missing()
        if gap:
            raise Violation("I6" if topic == topics.get("windows") else "I1", f"{topic}: {gap}")
    return seen


def committed(kafka: KafkaConfig, topic: str, isolation: str = "read_committed") -> list[Message]:
    """All committed records now, partition by partition."""
    admin = Admin(kafka)
    ends = admin.end_offsets(topic, committed_only=isolation == "read_committed")
    # A client that has to ask where a partition begins waits half a second for it.
    starts = admin.start_offsets(topic).items()
    left = [TopicPartition(topic, partition, start) for partition, start in sorted(starts) if start < ends[partition]]
    found: dict[int | None, list[Message]] = {each.partition: [] for each in left}
    if not left:
        return []
    consumer = _consumer(kafka, isolation)
    consumer.assign(left)
    try:
        while left:
            for message in consumer.consume(5000, timeout=0.05):
                if message.error() is None:
                    found[message.partition()].append(message)
            left = [each for each in consumer.position(left) if each.offset < ends[each.partition]]
        return [message for messages in found.values() for message in messages]
    finally:
        consumer.close()


# --- state, transactions ------------------------------------------------------------------------------------

MARKER = b"\x00"


Rows = dict[tuple[int | None, bytes | None], bytes | None]


def folded(kafka: KafkaConfig, topic: str) -> Rows:
    """A changelog as the table that it is: (partition, key) to value, markers included."""
    table: Rows = {}
    for message in committed(kafka, topic):
        table[message.partition(), message.key()] = message.value()
    return {where: value for where, value in table.items() if value is not None}


def rows_of(table: Rows) -> Rows:
    return {where: value for where, value in table.items() if where[1] != MARKER}


def verify_changelog(kafka: KafkaConfig, topic: str, rows: int) -> None:
    """I5, as far as it can be seen without the engine: the changelog folds to one row for each key, and has its
    markers."""
    table = folded(kafka, topic)
    marked = {where[0] for where in table if where[1] == MARKER}
    if len(rows_of(table)) != rows:
        raise Violation("I5", f"{topic} folds to {len(rows_of(table))} rows, not {rows}")
    if marked != {where[0] for where in table}:
        raise Violation("I5", f"{topic}: a partition has no marker (marked: {marked})")


def verify_twin(bench: Bench) -> None:
    """I5: a twin that does all of the work at once, without faults, has the same rows, byte for byte."""
    with bench.twin() as twin:
        app = twin.start("twin", arguments=["--until-caught-up"])
        if app.await_exit(CATCH_UP_SECONDS) != 0:
            raise AssertionError(f"the twin failed:\n{app.tail()}")
        changelogs = [topic for topic in bench.all_topics() if topic.endswith("-changelog")]
        assert changelogs, "there is no state to compare"
        for changelog in changelogs:
            store = changelog.removeprefix(bench.prefix)
            ours, its = (rows_of(folded(bench.kafka, b.prefix + store)) for b in (bench, twin))
            if ours != its:
                differing = [where for where in ours.keys() | its.keys() if ours.get(where) != its.get(where)]
                raise Violation(
                    "I5", f"{changelog}: {len(differing)} of {len(its)} rows are not the twin's, e.g. {differing[0]}"
                )
            print(f"verified I5: the {len(its)} rows of {changelog} are those of a twin that was never killed")


def verify_no_open_transactions(admin: Admin, topics: Iterable[str]) -> None:
    """I7: a read_committed reader can read up to the end of every partition."""
    for topic in topics:
        stable, ends = admin.end_offsets(topic), admin.end_offsets(topic, committed_only=False)
        if stable != ends:
            raise Violation("I7", f"{topic} has an open transaction: stable up to {stable}, ends at {ends}")


# --- everything ---------------------------------------------------------------------------------------------


class RunningApp(Protocol):
    """An application, wherever it runs."""

    def require_alive(self) -> None:
        """Raises AssertionError if it has ended by itself."""

    def stop(self) -> int:
        """Stops it cleanly; returns 0 if that went well."""

    def tail(self) -> str:
        """The end of its output."""


class Proof:
    """Watches an application from before its first start, and says at the end whether all invariants held."""

    def __init__(self, bench: Bench, load: Load, isolation: str = "read_committed") -> None:
        self._bench, self._load, self._isolation = bench, load, isolation
        self.live = LiveReader(bench.kafka, checks_of(bench.topics, load.history), isolation)
        self.offsets = OffsetWatch(bench.kafka, bench.prefix, bench.inputs)

    def require_sound(self) -> None:
        """Raises the first violation so far."""
        self.live.require_sound()
        self.offsets.require_sound()

    def await_violation(self, invariants: str, seconds: float = 60.0) -> None:
        """For a run with a deliberate mistake: waits until one of these invariants is violated."""

        def noticed() -> Violation | None:
            try:
                self.require_sound()
            except Violation as violation:
                return violation
            return None

        violation = until(noticed, seconds, f"a violation of {invariants}")
        assert violation is not None
        assert violation.invariant in invariants.split(), f"noticed something else: {violation}"

    def await_more(self, app: RunningApp, records: int = 50, seconds: float = CATCH_UP_SECONDS) -> None:
        """Waits until so many further results have come, all of them sound."""
        before = self.live.records

        def come() -> bool:
            self.require_sound()
            app.require_alive()
            return self.live.records >= before + records

        try:
            until(come, seconds, f"{records} further results", every=0.5)
        except Violation:
            raise
        except AssertionError as error:
            raise AssertionError(f"{error}; the app said:\n{app.tail()}") from None

    def await_caught_up(self, app: RunningApp, seconds: float = CATCH_UP_SECONDS) -> None:
        """Waits until the live reader has all results of all sent records."""
        gaps: list[str] = []

        def complete() -> bool:
            self.require_sound()
            app.require_alive()
            gaps[:] = [gap for gap in [self.live.missing()] if gap]
            return not gaps

        try:
            until(complete, seconds, "all results", every=0.2)
        except Violation:
            raise
        except AssertionError as error:
            raise Violation("I1", f"{gaps[0] if gaps else ''}; {error}; the app said:\n{app.tail()}") from None

    def finish(self, app: RunningApp, twin: bool = False) -> None:
        """Ends the load, waits for its results, sends one more record of every key, stops the app cleanly, and verifies
        I1 to I7; with `twin`, also against an application that was never killed."""
        if self._load.running:
            self._load.stop()
        self._load.close_windows()
        self.await_caught_up(app)
        self._load.send_each_key()  # I5: each result shows the state that was restored
        self.await_caught_up(app)
        self._await_offsets(app)
        code = app.stop()
        assert code == 0, f"a clean stop ended with {code}:\n{app.tail()}"
        self.verify()
        if twin:
            verify_twin(self._bench)

    def verify(self) -> None:
        """Verifies I1 to I7 of an application that is caught up and has ended."""
        bench, history = self._bench, self._load.history
        self.offsets.look()
        self.require_sound()
        seen = verify_late(bench.kafka, bench.topics, history, self._isolation)
        if "totals" in bench.topics:
            verify_changelog(bench.kafka, f"{bench.prefix}-totals-changelog", len(history.prefixes))
        verify_no_open_transactions(bench.admin, bench.all_topics())
        seen_of = self.offsets.seen
        behind = {at: (seen_of.get(at), end) for at, end in self._ends().items() if seen_of.get(at, 0) != end}
        if behind:
            raise Violation("I7", f"the group's offsets are not at the end: {behind}")
        print(f"verified I1 to I7: {history.records} records in, {seen} out")

    def _await_offsets(self, app: RunningApp) -> None:
        ends = self._ends()

        def there() -> bool:
            self.require_sound()
            app.require_alive()
            return all(self.offsets.seen.get(at, 0) >= end for at, end in ends.items())

        until(there, 30, "the group's offsets at the end")

    def _ends(self) -> dict[tuple[str, int], int]:
        """The end offsets of all inputs."""
        admin = self._bench.admin
        return {(topic, p): end for topic in self._bench.inputs for p, end in admin.end_offsets(topic).items()}

    def __enter__(self) -> Proof:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._load.running:
            self._load.stop()
        self.live.close()
        self.offsets.close()
