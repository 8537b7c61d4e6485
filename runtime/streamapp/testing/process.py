# SPDX-License-Identifier: Apache-2.0
"""The process that runs the apps of test cases, one after another in one Java process, and can be killed.

`EngineProcess` is its handle. The two talk in lines of JSON: an order in, and its result out.

    {"plan": TEXT, "bootstrapServers": …, "stateDir": …, "replicas": N or null}    {"started": URL}, later
                                                                                   {"stopped": true} or
                                                                                   {"failed": WORDS, "exitCode": N}
    {"stop": true}                                                                 ends the app that runs
    {"times": true}                                                                {"times": {PART: MICROSECONDS}}
    {"moveTime": PART, "to": MICROSECONDS}                                         {"moving": PART}
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

from streamapp.errors import InputError, RunError, StreamAppError
from streamapp.plan import Plan

START_SECONDS = 120.0
STOP_SECONDS = 30.0
LOOK_SECONDS = 0.2
"""The time after which an app under test shows its position again: each step waits for it."""
_END_SECONDS = 10.0


@dataclass(frozen=True)
class AppFailed(Exception):
    """The app ended by itself; the message has its own words."""

    words: str
    exit_code: int

    def __str__(self) -> str:
        return self.words


class EngineProcess:
    """Starts the process when it is first needed, and again after a kill.

    Args:
        folder: for Spark's log and its local files.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[str] | None = None
        self._answers: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._runs = False

    def run(self, plan: Plan, bootstrap_servers: str, replicas: int | None = None) -> str:
        """Starts an app, and returns the address of its live interface.

        Raises:
            AppFailed: it does not start.
            RunError: the process is gone, or takes longer than START_SECONDS.
        """
        # Executor processes need a Java process that has their settings from its start.
        if replicas is not None:
            self.kill()
        order = {
            "plan": plan.to_json(),
            "bootstrapServers": bootstrap_servers,
            "stateDir": str(self._folder),
            "replicas": replicas,
        }
        self._tell(order)
        answer = self._hear(START_SECONDS)
        self._runs = "started" in answer
        if not self._runs:
            raise AppFailed(answer["failed"], answer["exitCode"])
        return str(answer["started"])

    def ended(self) -> AppFailed | None:
        """Why the app has ended; None while it runs."""
        try:
            answer = self._answers.get_nowait()
        except queue.Empty:
            return None
        self._runs = False
        return _end(answer)

    def stop(self) -> None:
        """Ends the app in order; the process stays.

        Raises:
            AppFailed: the app had failed, or fails at its end.
        """
        if not self._runs:
            return
        self._tell({"stop": True})
        answer = self._hear(STOP_SECONDS)
        self._runs = False
        if "failed" in answer:
            raise AppFailed(answer["failed"], answer["exitCode"])

    def times(self) -> dict[str, int | None]:
        """How far event time has come, in microseconds since 1970; None before the first record.

        The times are by sub-topology, for those that use event time and have had an epoch since the app's start.

        Raises:
            AppFailed: the app has ended by itself.
            RunError: the process is gone, or does not answer.
        """
        times: dict[str, int | None] = self._ask({"times": True})["times"]
        return times

    def move_time(self, part: str, to: int) -> None:
        """Moves a sub-topology's time to `to`, in microseconds since 1970, without a record.

        It returns at once; `times` says when time is there.

        Raises:
            AppFailed, RunError: as `times` does.
        """
        self._ask({"moveTime": part, "to": to})

    def _ask(self, order: dict[str, Any]) -> dict[str, Any]:
        self._tell(order)
        answer = self._hear(STOP_SECONDS)
        if "failed" in answer or "stopped" in answer:
            self._runs = False
            raise _end(answer)
        return answer

    def kill(self) -> None:
        """Ends it as a crash would: kill -9 of all its processes, and waits until they are gone."""
        process = self._process
        if process is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(_END_SECONDS)
        self._forget(process)

    def close(self) -> None:
        """Ends it in order, or by force after a while."""
        process = self._process
        if process is None:
            return
        assert process.stdin is not None
        with suppress(OSError):
            process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_END_SECONDS)
        self.kill()

    def _forget(self, process: subprocess.Popen[str]) -> None:
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        self._process, self._runs = None, False
        self._answers = queue.SimpleQueue()

    def _tell(self, order: dict[str, Any]) -> None:
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
            assert self._process.stdout is not None
            threading.Thread(target=_pass_on, args=(self._process.stdout, self._answers), daemon=True).start()
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(order) + "\n")
            self._process.stdin.flush()
        except OSError:
            raise self._gone() from None

    def _hear(self, seconds: float) -> dict[str, Any]:
        deadline = time.monotonic() + seconds
        while True:
            try:
                return self._answers.get(timeout=0.1)
            except queue.Empty:
                pass
            if self._process is None or self._process.poll() is not None:
                raise self._gone()
            if time.monotonic() > deadline:
                raise RunError(f"the engine gave no answer for {seconds:.0f} s; its log: {self._folder / 'spark.log'}")

    def _gone(self) -> RunError:
        return RunError(f"the engine's process has ended by itself; its log: {self._folder / 'spark.log'}")


def _end(answer: dict[str, Any]) -> AppFailed:
    return AppFailed(answer.get("failed", "it stopped by itself"), answer.get("exitCode", 0))


def _pass_on(lines: IO[str], answers: queue.SimpleQueue[dict[str, Any]]) -> None:
    with suppress(ValueError):  # closed under us by a kill
        for line in lines:
            answers.put(json.loads(line))


# --- inside the process -------------------------------------------------------------------------------------


def main() -> None:
    """Carries out orders until stdin closes, which also happens when the parent is killed."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # other output to stdout must not be taken for an answer
    orders: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    running = threading.Event()
    threading.Thread(target=_listen, args=(orders, running, answers), daemon=True).start()
    while True:
        order = orders.get()
        try:
            _run(order, answers, running)
            _answer(answers, {"stopped": True})
        except StreamAppError as error:
            _answer(answers, {"failed": str(error), "exitCode": error.exit_code})
        except Exception as error:
            words = f"unexpected {type(error).__name__}: {' '.join(str(error).split())}"
            _answer(answers, {"failed": words, "exitCode": RunError.exit_code})
        finally:
            running.clear()


def _listen(orders: queue.SimpleQueue[dict[str, Any]], running: threading.Event, answers: IO[str]) -> None:
    application_id = ""
    for line in sys.stdin:
        order = json.loads(line)
        if "plan" in order:
            application_id = Plan.from_json(order["plan"]).application_id
            orders.put(order)
        elif not running.is_set():
            pass  # the app has just ended by itself, and reports that
        elif "stop" in order:
            os.kill(os.getpid(), signal.SIGTERM)
        else:
            _time(order, application_id, answers)
    os._exit(0)


def _time(order: dict[str, Any], application_id: str, answers: IO[str]) -> None:
    """Asks the app that runs for its times, or moves one."""
    from py4j.protocol import Py4JError
    from pyspark import SparkContext

    from streamapp.spark.jvm import java_class

    if SparkContext._active_spark_context is None:  # the app is about to report why
        return
    bridge = java_class("DriverBridge")
    with suppress(Py4JError, OSError):  # the engine is gone, and the app reports that
        if "times" in order:
            _answer(answers, {"times": json.loads(bridge.times(application_id))})
        else:
            bridge.moveTime(application_id, order["moveTime"], order["to"])
            _answer(answers, {"moving": order["moveTime"]})


def _run(order: dict[str, Any], answers: IO[str], running: threading.Event) -> None:
    from streamapp.kafka.config import KafkaConfig
    from streamapp.spark.app import Options, place_here, run_app
    from streamapp.spark.session import log_config

    plan = Plan.from_json(order["plan"])
    folder = Path(order["stateDir"])
    # The Java process outlives this app's working folder, and so does its log.
    place = replace(place_here(plan, folder, order["replicas"]), log_config=log_config(folder))

    def on_started(url: str) -> None:
        running.set()
        _answer(answers, {"started": url})

    if plan.run == "untilCaughtUp":
        raise InputError("a bounded run ends by itself; test it with `run: continuous`")
    # Its Java process serves the next app too: no stop may end it early, however slow the machine.
    options = Options(state_dir=folder, place=place, look_seconds=LOOK_SECONDS, stop_seconds=STOP_SECONDS)
    run_app(plan, KafkaConfig(order["bootstrapServers"]), options, on_started=on_started)


_ANSWERING = threading.Lock()


def _answer(answers: IO[str], answer: dict[str, Any]) -> None:
    with _ANSWERING:
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
