# SPDX-License-Identifier: Apache-2.0
"""Runs test cases on a real broker: each has empty topics and an application of its own."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from streamapp.compile import compile_manifest
from streamapp.durations import LONGEST_MS
from streamapp.errors import InputError, RunError, StreamAppError
from streamapp.kafka.access import make_ready
from streamapp.kafka.admin import BROKER_DEFAULT, Admin, MissingTopic, TopicSpec
from streamapp.kafka.config import KafkaConfig
from streamapp.kafka.console import record_of, row_of
from streamapp.kafka.group import GroupPosition
from streamapp.kafka.together import read_on, send_together
from streamapp.kafka.topics import topics_of
from streamapp.manifest import parse_object
from streamapp.plan import Plan, SubTopology
from streamapp.question import Question
from streamapp.testing.cases import Case, CaseFile, Expect, Send, Step, Store
from streamapp.testing.compare import difference, rows_difference
from streamapp.testing.fit import manifest_of
from streamapp.testing.junit import Result
from streamapp.testing.process import AppFailed, EngineProcess

BROKER_OF_CASES = {"log.message.timestamp.after.max.ms": str(2**63 - 1)}
"""Broker settings for test cases: the time of a case may be ahead of the clock."""
_LOOK_SECONDS = 0.1
_ANSWER_SECONDS = 30.0


class Unmet(Exception):
    """A step's expectation is not met; `lines` has the difference."""

    def __init__(self, *lines: str) -> None:
        super().__init__(lines[0])
        self.lines = lines


class Runner:
    """Runs cases one after another, all in one Java process.

    Args:
        kafka: a broker for the runner alone: the runner deletes its topics.
        folder: the folder for the engine's files.
        seconds: the longest time for a step's processing.
    """

    def __init__(self, kafka: KafkaConfig, folder: Path, seconds: float) -> None:
        self._kafka, self._seconds = kafka, seconds
        self._admin = Admin(kafka)
        self._engine = EngineProcess(folder)
        self._count = 0

    def close(self) -> None:
        """Ends the engine."""
        self._engine.close()

    def run(self, file: CaseFile, case: Case) -> Result:
        """Runs a case to its end or to its first step that is not met."""
        started = time.monotonic()
        self._count += 1
        problem, broke = self._outcome(file, case)
        return Result(str(file.path), case.name, time.monotonic() - started, problem, broke)

    def _outcome(self, file: CaseFile, case: Case) -> tuple[tuple[str, ...], bool]:
        i = file.cases.index(case)
        running = _Running(self._kafka, self._admin, self._engine, case, f"-{self._count}", self._seconds)
        where = "start"
        try:
            running.start(file.app_of(case))
            for j, step in enumerate(case.steps):
                where = f"step {j + 1}, {step.kind} (line {file.lines[i, j]})"
                running.take(step, file.path.parent)
            where = "end"
            self._engine.stop()
        except Unmet as unmet:
            return (f"{where}: {unmet.lines[0]}", *(f"  {line}" for line in unmet.lines[1:])), False
        except AppFailed as failed:
            return (f"{where}: the app failed: {failed}",), failed.exit_code == RunError.exit_code
        except StreamAppError as error:
            return (f"{where}: {error}",), isinstance(error, RunError)
        finally:
            self._clear()
        return (), False

    def _clear(self) -> None:
        """Clears all that the next case must not see. An app that does not stop is killed: nobody needs its results."""
        try:
            self._engine.stop()
        except (AppFailed, RunError):
            self._engine.kill()
        self._admin.delete(name for name in self._admin.topics() if not name.startswith("__"))


class _Running:
    """The app of one case."""

    def __init__(
        self, kafka: KafkaConfig, admin: Admin, engine: EngineProcess, case: Case, suffix: str, seconds: float
    ) -> None:
        self._kafka, self._admin, self._engine, self._case = kafka, admin, engine, case
        self._suffix, self._seconds = suffix, seconds
        self._replicas = 1 if any(step.scale is not None for step in case.steps) else None
        self._advanced_ms = 0
        self._read: dict[str, dict[int, int]] = {}
        self._plan: Plan
        self._application_id = ""
        self._url = ""

    def start(self, file: Path) -> None:
        """Starts the app of this manifest, with every topic that it and the case name."""
        manifest = manifest_of(file)
        self._application_id = self._application_id or manifest.application_id + self._suffix
        data = manifest.to_object()
        spec = {name: value for name, value in data["spec"].items() if name not in ("kafka", "schedule", "run")}
        plan = compile_manifest(parse_object({**data, "spec": {**spec, "applicationId": self._application_id}}))
        # The speed of this machine must not change the results of a case: only its steps move time.
        self._plan = replace(plan, idle_timeout_ms=LONGEST_MS)
        sent = [TopicSpec(step.send.topic, "send") for step in self._case.steps if step.send is not None]
        wanted = [spec for spec in (*topics_of(self._plan), *sent) if not spec.internal]
        there = self._admin.topics()
        self._admin.create(
            replace(spec, partitions=self._case.partitions) if spec.partitions == BROKER_DEFAULT else spec
            for spec in {spec.name: spec for spec in reversed(wanted)}.values()
            if spec.name not in there
        )
        make_ready(self._kafka, self._plan, create_all=True, file=str(file))
        self._go_on()

    def _go_on(self) -> None:
        self._url = self._engine.run(self._plan, self._kafka.bootstrap_servers, self._replicas)

    def take(self, step: Step, folder: Path) -> None:
        """Does a step.

        Raises:
            Unmet: the step's expectation is not met.
            AppFailed, StreamAppError: the app, or its run, has failed.
        """
        if step.send is not None:
            self._send(step.send)
        elif step.expect is not None:
            self._expect(step.expect)
        elif step.store is not None:
            self._store(step.store)
        elif step.crash is not None:
            self._engine.kill()
            self._go_on()
        elif step.restart is not None:
            self._engine.stop()
            self._go_on()
        elif step.scale is not None:
            self._scale(step.scale)
        elif step.upgrade is not None:
            self._engine.stop()
            self.start(folder / step.upgrade)
        elif step.advance is not None:
            self._advance(step.advance_ms)

    def _send(self, send: Send) -> None:
        records = []
        now = round(time.time() * 1000) + self._advanced_ms
        for number, row in enumerate(send.records, start=1):
            try:
                record = record_of(row)
            except ValueError as error:
                raise InputError(f"record {number}: {error}") from None
            records.append(record if record.timestamp is not None else replace(record, timestamp=now))
        send_together(self._kafka, send.topic, records)
        self._await_processed()

    def _advance(self, milliseconds: int) -> None:
        """Moves event time on from the latest that any part of the app has reached. Before a record there is none."""
        self._advanced_ms += milliseconds
        self._await_processed()
        timed = {part.name for part in self._plan.subtopologies if _is_moved(part)}
        self._until(lambda: self._engine.times().keys() >= timed, "its parts have not begun")
        reached = [time for time in self._engine.times().values() if time is not None]
        if reached:
            self._await_processed(time=max(reached) + milliseconds * 1000)

    def _await_processed(self, time: int | None = None) -> None:
        """Waits until every part has read its topics to their ends, the first parts first: others read their output.

        The ends are those of all written records: committed records become visible a moment after the commit's answer.

        Args:
            time: the time to which each part is moved then, in microseconds since 1970; the next one reads the results.
        """
        group = GroupPosition(self._kafka, self._application_id)
        try:
            for part in self._plan.subtopologies:
                ends = {
                    (topic, partition): end
                    for topic in self._admin.topics()
                    if part.reads(topic)
                    for partition, end in self._admin.end_offsets(topic, committed_only=False).items()
                    if end > 0
                }

                def reached(ends: dict[tuple[str, int], int] = ends) -> bool:
                    shown = group.read(ends)
                    return all(shown.get(at, 0) >= end for at, end in ends.items())

                self._until(reached, f"'{part.name}' has not read its topics to the end")
                if time is not None and _is_moved(part):
                    self._move(part.name, time)
        finally:
            group.close()

    def _move(self, part: str, time: int) -> None:
        def moved() -> bool:
            now = self._engine.times().get(part)
            return now is not None and now >= time

        self._engine.move_time(part, time)
        self._until(moved, f"the time of '{part}' has not come to that of the step")

    def _expect(self, expect: Expect) -> None:
        try:
            messages, ends = read_on(self._kafka, expect.topic, self._read.get(expect.topic, {}))
        except MissingTopic:
            messages, ends = [], {}
        self._read[expect.topic] = ends
        found = difference(expect, [row_of(message) for message in messages])
        if found:
            raise Unmet(f"topic '{expect.topic}' has other records (- expected, + seen):", *found)

    def _store(self, store: Store) -> None:
        answer = self._ask(Question(store.name, store.keys).path)
        wanted = store.rows if store.rows is not None else [store.value] if store.value is not None else []
        found = rows_difference(wanted, answer["rows"])
        if found:
            raise Unmet(f"store '{store.name}' has other rows (- expected, + seen):", *found)

    def _scale(self, replicas: int) -> None:
        self._replicas = replicas
        self._ask("/replicas", json.dumps({"replicas": replicas}).encode())
        self._until(
            lambda: self._ask("/status")["replicas"]["running"] == replicas, f"there are not {replicas} executors"
        )

    def _until(self, condition: Callable[[], bool], otherwise: str) -> None:
        deadline = time.monotonic() + self._seconds
        while not condition():
            if (ended := self._engine.ended()) is not None:
                raise ended
            if time.monotonic() > deadline:
                status = self._ask("/status")
                trouble = f": {status['error']}" if status.get("error") else f" (phase {status['phase']})"
                raise Unmet(f"after {self._seconds:.0f} s {otherwise}{trouble}")
            time.sleep(_LOOK_SECONDS)

    def _ask(self, path: str, body: bytes | None = None) -> dict[str, Any]:
        method = "GET" if body is None else "PUT"
        request = urllib.request.Request(self._url + path, data=body, method=method)  # noqa: S310  our own app's
        try:
            with urllib.request.urlopen(request, timeout=_ANSWER_SECONDS) as response:  # noqa: S310
                answer: dict[str, Any] = json.load(response)
                return answer
        except urllib.error.HTTPError as error:
            raise Unmet(f"the app does not answer: {error.read().decode(errors='replace').strip()}") from None
        except OSError as error:
            raise self._engine.ended() or RunError(f"the app does not answer at {self._url}: {error}") from None


def _is_moved(part: SubTopology) -> bool:
    """Whether the part's time can be moved. A part without state has no epoch without records, and nothing waits."""
    return part.timed and bool(part.stateful)
