# SPDX-License-Identifier: Apache-2.0
"""Interactive queries: the running app's stores as tables.

An answer has all epochs that had ended when the question came, and nothing that is not committed: each partition is
read as it is at its last committed epoch, while the tasks go on changing it. A Spark job reads the partitions on the
executors that have them.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import IllegalArgumentException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

from streamapp.errors import InputError, RunError
from streamapp.http.server import Busy, NoSuchPage
from streamapp.nodes import StoredTable
from streamapp.plan import Plan, Store
from streamapp.question import Question
from streamapp.spark.formats import JSON_WRITE
from streamapp.spark.jvm import java_class

WAIT_SECONDS = 10.0
"""The longest wait for partitions that are on their way to another executor."""
LONGEST_SECONDS = 30.0
"""The longest time of a job that reads; then it is cancelled."""
MOST_AT_ONCE = 4
"""The most questions at a time; they share the executors with the app's own work."""
MOST_BYTES = 16 * 1024 * 1024
"""The largest size of an answer: as a whole, it passes through the memory of the driver's two processes."""
_AGAIN_SECONDS = 0.2
_POOL = "questions"


class Stores:
    """The tables of an app.

    Args:
        spark: the app's session.
        plan: the plan that runs.
    """

    def __init__(self, spark: SparkSession, plan: Plan) -> None:
        self._spark = spark
        self._application_id = plan.application_id
        self._tables = {
            store.name: _Table(store, table)
            for store in plan.stores
            if (table := _stored_table(plan, store)) is not None
        }
        self._others = {store.name for store in plan.stores} - self._tables.keys()
        # The threads are kept: each one that talks to the JVM has a connection and a thread there.
        self._threads = ThreadPoolExecutor(MOST_AT_ONCE, "question")
        self._free = threading.BoundedSemaphore(MOST_AT_ONCE)

    def listed(self) -> list[dict[str, Any]]:
        """The descriptions of the stores that can be asked for."""
        return [table.described() for table in self._tables.values()]

    def answer(self, question: Question) -> dict[str, Any]:
        """The rows, and whether the answer is complete.

        Raises:
            NoSuchPage: when there is no such store.
            InputError: when the question's key or windows do not fit the store.
            Busy: when the question cannot be answered now; later it can.
        """
        table = self._table(question)
        if not self._free.acquire(timeout=WAIT_SECONDS):
            raise Busy(f"{MOST_AT_ONCE} questions are being answered; ask again")
        try:
            rows = self._threads.submit(self._rows, table, question).result()
        finally:
            self._free.release()
        return {"store": question.store, "rows": rows[: question.limit], "complete": len(rows) <= question.limit}

    def _table(self, question: Question) -> _Table:
        table = self._tables.get(question.store)
        if table is None:
            if question.store in self._others:
                raise InputError(f"store '{question.store}' holds records that wait to be joined, and no table")
            there = ", ".join(self._tables) or "none"
            raise NoSuchPage(f"there is no store '{question.store}'; there are: {there}")
        table.require_fit(question)
        return table

    @contextmanager
    def _job(self) -> Iterator[None]:
        """Makes one group of this thread's Spark jobs within the context, and cancels it after LONGEST_SECONDS."""
        context, job = self._spark.sparkContext, f"question-{uuid4().hex[:8]}"
        context.setLocalProperty("spark.scheduler.pool", _POOL)
        context.setJobGroup(job, "a question about a store", interruptOnCancel=True)
        jvm_context = context._jsc.sc()
        timer = threading.Timer(LONGEST_SECONDS, jvm_context.cancelJobGroupAndFutureJobs, [job])
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _rows(self, table: _Table, question: Question) -> list[Any]:
        """The rows of the answer, and one more if there are more than the question's limit."""
        deadline = time.monotonic() + WAIT_SECONDS
        try:
            with self._job():
                while True:
                    reader = self._open(table, question)
                    if reader is None:
                        return []
                    frame = table.rows(ClassicDataFrame(reader.frame(), self._spark), question)
                    found = [json.loads(text) for text in self._take(frame, question.limit + 1)]
                    absent = sorted(reader.absent())
                    if not absent:
                        return found
                    if time.monotonic() > deadline:
                        where = f"store '{question.store}': partitions {absent}"
                        raise Busy(f"{where} are being moved or restored; ask again")
                    time.sleep(_AGAIN_SECONDS)
        except IllegalArgumentException as error:
            raise InputError(str(error).removeprefix("requirement failed: ")) from None
        except (Py4JError, PySparkException) as error:
            raise _own_error(error) from None

    def _take(self, frame: DataFrame, count: int) -> list[str]:
        return list(java_class("StoreReader").take(frame._jdf, count, MOST_BYTES))

    def _open(self, table: _Table, question: Question) -> JavaObject | None:
        return java_class("StoreReader").open(
            self._spark._jsparkSession,
            self._application_id,
            table.store.subtopology,
            question.store,
            list(question.key) or None,
        )


def _stored_table(plan: Plan, store: Store) -> StoredTable | None:
    topology = plan.subtopology(store.subtopology).topology
    node = topology.node(store.node)
    return node.stored_table(store.name, [topology.columns(name) for name in node.inputs])


class _Table:
    """A store whose rows are results."""

    def __init__(self, store: Store, table: StoredTable) -> None:
        self.store = store
        self.windowed = table.windowed
        self._keys = list(table.key)
        self._values = list(table.values)

    def described(self) -> dict[str, Any]:
        return {
            "name": self.store.name,
            "node": self.store.node,
            "key": self._keys,
            "values": self._values,
            "windowed": self.windowed,
            "partitions": self.store.partitions,
        }

    def require_fit(self, question: Question) -> None:
        name, columns = question.store, ", ".join(self._keys)
        if question.key and len(question.key) != len(self._keys):
            raise InputError(
                f"the key of store '{name}' has {len(self._keys)} columns ({columns}), and there are "
                f"{len(question.key)} values; give one for each, in that order"
            )
        if not self.windowed and (question.window_from or question.window_to):
            raise InputError(f"store '{name}' has no windows; ask without windowFrom and windowTo")

    def rows(self, results: DataFrame, question: Question) -> DataFrame:
        """The rows as JSON, under the names of the manifest."""
        groups = [F.col(f"__key_{i}") for i in range(self.windowed, self.windowed + len(self._keys))]
        columns = [group.alias(name) for group, name in zip(groups, self._keys, strict=True)]
        if self.windowed:
            start = F.col("__key_0.start")
            columns += [start.alias("window_start"), F.col("__key_0.end").alias("window_end")]
            if question.window_from:
                results = results.filter(start >= F.lit(question.window_from))
            if question.window_to:
                results = results.filter(start < F.lit(question.window_to))
        columns += [F.col(f"__result_{i}").alias(name) for i, name in enumerate(self._values)]
        return results.select(F.to_json(F.struct(*columns), JSON_WRITE))


def _own_error(error: Exception) -> Exception:
    """The JVM side's refusal as our own error."""
    words = str(error.java_exception.getMessage()) if isinstance(error, Py4JJavaError) else str(error)
    kind = error.java_exception.getClass().getSimpleName() if isinstance(error, Py4JJavaError) else ""
    if kind == "StoreNotReadyException":
        return Busy(words)
    if kind == "AnswerTooLargeException":
        return InputError(f"{words}; ask for fewer rows, by `limit`, or for one key")
    if "cancelled" in words:
        return Busy(f"there was no answer in {LONGEST_SECONDS:g} s; ask for a key, or for fewer rows")
    return RunError(f"the store could not be read: {words.splitlines()[0]}")
