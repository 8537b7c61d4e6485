# SPDX-License-Identifier: Apache-2.0
"""The Java process that Spark runs in: its start, its noise, and its death."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from threading import Thread, Timer
from types import TracebackType
from typing import Any

from py4j.java_gateway import JavaClass, JavaGateway, JavaMember
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.accumulators import AccumulatorTCPServer
from pyspark.errors import PySparkRuntimeError
from pyspark.find_spark_home import _find_spark_home
from pyspark.java_gateway import launch_gateway

from streamapp.errors import InputError, RunError
from streamapp.spark.allowed import require_allowed

_NOISE = (b"WARNING: Using incubator modules",)
"""Java's output at each start, caused by Spark's own choice of modules."""
_STDERR = 2
_OURS = "org.apache.spark.sql.streamapp."
_PYSPARKS = {"PythonUtils": "org.apache.spark.api.python.PythonUtils"} | dict.fromkeys(
    ("functions", "org.apache.spark.sql.functions"), "org.apache.spark.sql.functions"
)
"""The classes that PySpark looks up for each column, by the name that it looks for."""
_DEATH_SECONDS = 5.0


def start_jvm(settings: Mapping[str, str]) -> None:
    """Starts it with Spark's settings about memory, class path and options; if it runs already, nothing happens.

    Raises:
        RunError: when it does not start; its output is on stderr.
        InputError: when it has Spark settings that are not on the list of allowed ones, or was started by somebody
            else.
    """
    if SparkContext._gateway is not None:
        if "listener" not in vars(SparkContext._gateway):
            raise InputError(
                "this process has started Spark already, without what an app needs; run the app in a process of its own"
            )
        return
    # Py4J prints a stack trace for each call that fails because the process is gone; `jvm_missed` has better words.
    logging.getLogger("py4j").propagate = False
    logging.getLogger().addFilter(_not_of_py4j)
    setattr(AccumulatorTCPServer, "handle_error", _say_nothing)  # noqa: B010  that the process is gone, as a stack trace
    read_end, write_end = os.pipe()
    listener = Thread(target=_pass_on, args=(read_end,), name="jvm-stderr", daemon=True)
    listener.start()
    try:
        conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
        gateway: Any = launch_gateway(conf, {"stderr": write_end})  # type: ignore[no-untyped-call]
    except PySparkRuntimeError:
        raise RunError("the engine's Java process did not start; its complaint stands above") from None
    finally:
        os.close(write_end)
    gateway.listener = listener
    SparkContext._ensure_initialized(gateway=gateway)
    for looked_for, name in _PYSPARKS.items():
        setattr(gateway.jvm, looked_for, _KnownClass(name, gateway._gateway_client))
    try:
        given = gateway.jvm.org.apache.spark.SparkConf(True).toDebugString()
        require_allowed(given, settings, os.environ, Path(_find_spark_home()))
    except InputError:
        end_jvm()
        raise


def java_class(name: str) -> Any:
    """One of our classes, by its name below our package."""
    return _java_class(name, SparkContext._gateway)


@lru_cache(maxsize=100)
def _java_class(name: str, of: JavaGateway) -> Any:
    return _KnownClass(_OURS + name, of._gateway_client)


class _KnownClass(JavaClass):  # type: ignore[misc]
    """A class whose methods are looked up once. Py4J asks the Java process at each call, for each part of a dotted
    name, and Java looks through all jars for what may be a package."""

    def __getattr__(self, name: str) -> Any:
        found = super().__getattr__(name)
        if isinstance(found, JavaMember):
            setattr(self, name, found)
        return found


def end_jvm(seconds: float = 2.0) -> None:
    """Ends it and waits: until it has ended, it still holds, and deletes, files of the state folder."""
    gateway: Any = SparkContext._gateway
    process = _process()
    if process is None:
        return
    SparkContext._gateway = SparkContext._jvm = None
    with suppress(Py4JError, OSError):
        gateway.shutdown()
    with suppress(OSError):
        process.stdin.close()  # which PySpark's JVM takes as its end
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
    gateway.listener.join(seconds)  # its last words


class JvmLimit:
    """A time limit for the Java process, from `begin` to the end of this context. Past it the process is killed,
    whatever it is doing, and calls that wait for it fail."""

    def __init__(self) -> None:
        self._killer: Timer | None = None

    def begin(self, seconds: float) -> None:
        """Starts the limit: the process has so many seconds from now on."""
        process = _process()
        if self._killer is None and process is not None:
            self._killer = Timer(seconds, process.kill)
            self._killer.daemon = True
            self._killer.start()

    def __enter__(self) -> JvmLimit:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._killer is not None:
            self._killer.cancel()


@contextmanager
def jvm_missed(log: str) -> Iterator[None]:
    """Reports the death of the process in plain words, whichever call within this context meets it. `log` is the file
    that the message names.

    Raises:
        RunError: the process is gone.
    """
    try:
        yield
    except (Py4JError, OSError):
        if not jvm_is_gone(_DEATH_SECONDS):
            raise
        raise RunError(
            f"the engine's Java process has ended ({_end_of(_process().returncode)}); nothing is lost or doubled: "
            f"start the app again; its log is {log}"
        ) from None


def jvm_is_gone(seconds: float = 0.0) -> bool:
    """Whether it has ended, or ends within so many seconds: its connections are closed a little before it ends."""
    process = _process()
    if process is None:
        return False
    with suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
    return process.returncode is not None


def _process() -> Any:
    return getattr(SparkContext._gateway, "proc", None)


def _end_of(code: int) -> str:
    if code != -signal.SIGKILL:
        return f"exit code {code}" if code >= 0 else f"by {signal.Signals(-code).name}"
    return "by SIGKILL, as the system does when memory is short"


def _pass_on(read_end: int) -> None:
    with os.fdopen(read_end, "rb") as lines:
        for line in lines:
            if not line.startswith(_NOISE):
                os.write(_STDERR, line)


def _say_nothing(*_: object) -> None:
    pass


def _not_of_py4j(record: logging.LogRecord) -> bool:
    return os.sep + "py4j" + os.sep not in record.pathname
