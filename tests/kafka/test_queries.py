# SPDX-License-Identifier: Apache-2.0
"""Interactive queries: stores can be read as tables, whatever happens to the app meanwhile."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
import urllib.error
import urllib.parse
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lib.app import START_SECONDS, TOTALS, WINDOW_MS, WINDOWS, AppProcess, Bench, Fold, Load
from lib.faults import executors, kill_executor, require_work
from lib.verify import Proof, TotalsCheck, Violation
from lib.wait import until
from lib.windows import SessionModel, SlidingModel, Span
from streamapp.kafka.config import KafkaConfig

pytestmark = pytest.mark.kafka

PAIRS = """
  - name: pairs
    from: numbers
    groupBy: [{parity: "pmod(n, 2)"}, {who: key}]
    aggregate: {mean: avg(n), some: "array_sort(collect_set(pmod(n, 3)))"}
"""
"""A store that no node writes from, with a key of two columns, one of them a number."""
KEPT = """
  - name: by-parity
    from: totals
    groupBy: [{odd: "pmod(count, 2)"}]
    aggregate: {lows: sort_array(collect_list(low))}
"""
"""The same for a table whose rows are kept."""
IN_ORDER = """
  - name: trails
    from: ticks
    groupBy: [key]
    window: {tumbling: 10s}
    retention: 8 minutes
    aggregate: {all: collect_list(n)}
"""
"""Windows whose records are taken in their order."""
BESIDE_A_TABLE = """
  - {name: known, table: {topic: $T-tocks, value: text}}
  - {name: met, from: ticks, join: {with: known, type: left, select: {'n': ticks.n}}}
"""
"""Nodes with the table's key, which share its task."""
LENGTH_MS = 1_000
OF_RECORDS = """
  - name: %(kind)s
    from: ticks
    groupBy: [key]
    window: {%(kind)s: 1s}
    retention: 8 minutes
    aggregate: {'n': count(*)}
"""
KINDS = {"session": SessionModel, "sliding": SlidingModel}


def ask(app: AppProcess, path: str, **fields: str) -> Any:
    """Returns the answer. Raises urllib.error.HTTPError, or OSError where nothing answers."""
    query = f"?{urllib.parse.urlencode(fields)}" if fields else ""
    with urllib.request.urlopen(app.address + path + query, timeout=60) as answer:
        return json.load(answer)


def rows(app: AppProcess, path: str, **fields: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = ask(app, path, **fields)["rows"]
    return found


def rows_so_far(app: AppProcess, path: str, **fields: str) -> list[dict[str, Any]]:
    """The rows; empty while the app starts, or answers that it cannot be asked now."""
    try:
        return rows(app, path, limit="1000", **fields)
    except urllib.error.HTTPError as error:
        if error.code != 503:
            raise
    except (OSError, ValueError):  # there is no address yet
        pass
    return []


def refusal(app: AppProcess, path: str) -> tuple[int, str]:
    with pytest.raises(urllib.error.HTTPError) as refused:
        ask(app, path)
    return refused.value.code, refused.value.read().decode().strip()


def fold_of(row: dict[str, Any]) -> Fold:
    return Fold(row["count"], row["total"], row["low"], row["high"])


def query(app: AppProcess, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "streamapp.cli.main", "query", *arguments, "--state-dir", str(app.state_dir)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


@pytest.mark.timeout(300)
def test_rows_are_the_results(kafka: KafkaConfig, tmp_path: Path) -> None:
    with Bench(kafka, tmp_path, "asked", TOTALS + PAIRS + KEPT + WINDOWS) as bench:
        load = bench.load(seed=1301, rate=0, keys=40)
        app = bench.start()
        load.send(1000)
        load.send_each_key()
        totals = {key: folds[-1] for key, folds in load.history.prefixes.items()}

        def all_counted() -> bool:
            app.require_alive()
            return bool(sum(row["count"] for row in rows_so_far(app, "/stores/totals")) == load.history.records)

        until(all_counted, START_SECONDS, lambda: f"all counted; it said:\n{app.tail()}", every=0.5)

        by_name = {store["name"]: store for store in ask(app, "/stores")["stores"]}
        assert by_name.keys() == {"totals", "pairs", "by-parity", "windows"}
        assert by_name["pairs"] == {
            "name": "pairs",
            "node": "pairs",
            "key": ["parity", "who"],
            "values": ["mean", "some"],
            "windowed": False,
            "partitions": 2,
        }
        native = list(app.state_dir.glob("work/tmp/librocksdb*"))
        assert native, "what a killed process leaves is removed by the next start"
        # All rows, and each of them by its key, in whichever executor that lies.
        told = ask(app, "/stores/totals", limit="1000")
        assert told["complete"] is True
        assert {row["key"]: fold_of(row) for row in told["rows"]} == totals
        for key, fold in totals.items():
            assert [fold_of(row) for row in rows(app, f"/stores/totals/{key}")] == [fold]
        assert ask(app, "/stores/totals/nobody") == {"store": "totals", "rows": [], "complete": True}
        told = ask(app, "/stores/totals", limit="7")
        assert (len(told["rows"]), told["complete"]) == (7, False)

        # Aggregates that are finished when they are read, by a key of two columns.
        numbers = load.history.numbers
        pairs = {(p, who): [n for n in ns if n % 2 == p] for who, ns in numbers.items() for p in (0, 1)}
        until(lambda: len(rows(app, "/stores/pairs", limit="1000")) == sum(map(bool, pairs.values())), 60, "all pairs")
        for (parity, who), ns in list(pairs.items())[:10]:
            found = ask(app, f"/stores/pairs?key={parity}&key={who}")["rows"]
            wanted = {"parity": parity, "who": who, "some": sorted({n % 3 for n in ns})}
            assert [{k: v for k, v in row.items() if k != "mean"} for row in found] == ([wanted] if ns else [])
            assert [row["mean"] for row in found] == pytest.approx([sum(ns) / len(ns)] if ns else [])

        # Groups of rows that are kept.
        lows = {odd: sorted(fold.low for fold in totals.values() if fold.count % 2 == odd) for odd in (0, 1)}
        kept = {odd: [{"odd": odd, "lows": found}] for odd, found in lows.items()}
        until(
            lambda: all(rows(app, f"/stores/by-parity/{odd}") == kept[odd] for odd in (0, 1)), 60, f"{kept}", every=0.5
        )
        assert sorted(row["odd"] for row in rows(app, "/stores/by-parity")) == [0, 1]

        assert refusal(app, "/stores/totls") == (
            404,
            "there is no store 'totls'; there are: totals, pairs, windows, by-parity",
        )
        assert refusal(app, "/stores/pairs/0") == (
            400,
            "the key of store 'pairs' has 2 columns (parity, who), and there are 1 values; give one for each, in that "
            "order",
        )
        assert refusal(app, "/stores/pairs?key=odd&key=a") == (400, "'odd' is no BIGINT")
        assert refusal(app, "/stores/totals?limit=0") == (400, "limit '0' is not a whole number from 1 to 10000")
        assert refusal(app, "/stores/totals?lmit=5")[1].startswith("there is no parameter 'lmit'; there are key, limit")
        assert "has no windows" in refusal(app, "/stores/totals?windowFrom=2024-01-01T00:00:00Z")[1]
        assert "windowFrom 'noon' is no timestamp" in refusal(app, "/stores/windows?windowFrom=noon")[1]

        # Many questions at once wait for their turn.
        with ThreadPoolExecutor(12) as askers:
            found = list(askers.map(lambda key: rows(app, f"/stores/totals/{key}"), [*totals] * 2))
        assert [fold_of(each[0]) for each in found] == [*totals.values()] * 2

        # The same from the command line.
        some = next(iter(totals))
        answer = query(app, "totals", some)
        assert (answer.returncode, json.loads(answer.stdout)["count"]) == (0, totals[some].count)
        assert "pairs: parity, who -> mean, some\n" in query(app).stdout
        answer = query(app, "totals", "nobody")
        assert (answer.returncode, answer.stdout) == (0, "")
        assert answer.stderr == "note: store 'totals' has no row for that key\n"
        answer = query(app, "totls")
        assert answer.returncode == 1
        assert answer.stderr == "error: there is no store 'totls'; there are: totals, pairs, windows, by-parity\n"
        epochs = app.epochs()
        assert app.stop() == 0
        answer = query(app, "totals")
        assert answer.returncode == 1
        assert "no app runs in" in answer.stderr

        # A later run restores the stores that have any state, in one epoch with nothing to read.
        for run in (1, 2):
            again = bench.start()
            until(lambda: rows_so_far(again, "/stores/totals"), START_SECONDS, "restored", every=0.5)  # noqa: B023
            assert {row["key"]: fold_of(row) for row in rows(again, "/stores/totals", limit="1000")} == totals
            assert again.status()["recordsRead"] == 0
            assert rows(again, "/stores/windows") == []
            one_each = {name: epoch + run for name, epoch in epochs.items()}
            until(lambda: again.epochs() == one_each, 60, f"epochs {one_each}", every=0.5)  # noqa: B023
            assert again.stop() == 0


@pytest.mark.timeout(300)
def test_windows_by_key_and_time(kafka: KafkaConfig, tmp_path: Path) -> None:
    """Open windows, and closed ones that are kept."""
    topology = WINDOWS.replace("emit: final", "emit: final\n    retention: 8 minutes")
    topology += IN_ORDER + OF_RECORDS % {"kind": "sliding"}
    in_task = IN_ORDER.replace("trails", "trails-there") + OF_RECORDS % {"kind": "session"}
    topology += BESIDE_A_TABLE + in_task.replace("from: ticks", "from: met")
    with Bench(kafka, tmp_path, "panes", topology) as bench:
        load = bench.load(seed=1302, rate=0)
        app = bench.start()
        load.send(400)
        windows = load.history.windows

        def found(**fields: str) -> dict[tuple[str, int], tuple[int, int]]:
            path = f"/stores/windows/{fields.pop('key')}" if "key" in fields else "/stores/windows"
            return {
                (row["key"], _millis(row["window_start"])): (row["count"], row["total"])
                for row in rows_so_far(app, path, **fields)
            }

        def all_there() -> bool:
            app.require_alive()
            return found() == windows

        until(all_there, START_SECONDS, lambda: f"all windows; it said:\n{app.tail()}", every=0.5)
        assert found(key="a") == {where: row for where, row in windows.items() if where[0] == "a"}
        starts = sorted({start for _, start in windows})
        first, last = starts[1], starts[-2]
        assert found(key="b", windowFrom=_iso(first), windowTo=_iso(last)) == {
            where: row for where, row in windows.items() if where[0] == "b" and first <= where[1] < last
        }

        def trails(path: str) -> dict[tuple[str, int], tuple[int, int]]:
            found = rows_so_far(app, path)
            return {(row["key"], _millis(row["window_start"])): (len(row["all"]), sum(row["all"])) for row in found}

        for name in ("trails", "trails-there"):
            until(lambda: trails(f"/stores/{name}") == windows, 60, f"all of {name}", every=0.5)  # noqa: B023
            assert trails(f"/stores/{name}/a") == found(key="a")
        row = rows(app, "/stores/windows", limit="1")[0]
        assert _millis(row["window_end"]) - _millis(row["window_start"]) == WINDOW_MS

        def spans(kind: str, **fields: str) -> dict[Span, int]:
            path = f"/stores/{kind}/{fields.pop('key')}" if "key" in fields else f"/stores/{kind}"
            return {
                (row["key"], _millis(row["window_start"]), _millis(row["window_end"])): row["n"]
                for row in rows_so_far(app, path, **fields)
            }

        wanted: dict[str, dict[Span, int]] = {}
        for kind, cls in KINDS.items():
            model = cls(LENGTH_MS, 0)
            model.read({0: load.history.ticks})
            every = wanted[kind] = {(key[0], start, end): n for (key, start, end), n in model.all.items()}
            assert len(windows) < len(every) < 1000
            until(lambda: spans(kind) == every, 60, f"all windows of {kind}", every=0.5)  # noqa: B023
            of_one = {span: n for span, n in every.items() if span[0] == "a"}
            assert spans(kind, key="a") == of_one
            assert spans(kind, key="a", windowFrom=_iso(first), windowTo=_iso(last)) == {
                span: n for span, n in of_one.items() if first <= span[1] < last
            }
            assert spans(kind, key="nobody") == {}

        app.stop()
        app = bench.start()
        for kind, every in wanted.items():
            until(lambda: spans(kind) == every, START_SECONDS, f"{kind} restored", every=0.5)  # noqa: B023

        # Sixteen minutes later all of them have been kept for long enough.
        load.close_windows()
        at = load.history.last_tick
        only = {("last", at, at): 1}
        until(lambda: spans("session") == only, 60, "sessions are gone", every=0.5)
        until(lambda: spans("sliding") == {("last", at - LENGTH_MS, at): 1}, 60, "sliding windows are gone", every=0.5)
        until(
            lambda: found() == {("last", at - at % WINDOW_MS): windows["last", at - at % WINDOW_MS]}, 60, "all are gone"
        )


def test_a_question_that_takes_too_long_is_given_up(kafka: KafkaConfig, tmp_path: Path, root: Path) -> None:
    with Bench(kafka, tmp_path, "asked", TOTALS) as bench:
        load = bench.load(seed=1305, rate=0)
        app = bench.start(program="lib.impatient", env={"PYTHONPATH": str(root / "tests")})
        load.send(100)
        app.await_work()
        told = (503, "there was no answer in 0 s; ask for a key, or for fewer rows")
        until(lambda: refusal(app, "/stores/totals") == told, 60, "given up", every=0.5)
        assert refusal(app, "/stores/totals/key-1") == told


def test_an_answer_that_is_too_large_is_refused(kafka: KafkaConfig, tmp_path: Path, root: Path) -> None:
    with Bench(kafka, tmp_path, "asked", TOTALS, parallelism=4) as bench:
        load = bench.load(seed=1306, rate=0, keys=40)
        app = bench.start(program="lib.frugal", env={"PYTHONPATH": str(root / "tests")})
        load.send_each_key()
        each = load.history.prefixes

        def all_there() -> bool:
            app.require_alive()
            return all(rows_so_far(app, f"/stores/totals/{key}") for key in each)

        until(all_there, START_SECONDS, lambda: f"every key; it said:\n{app.tail()}", every=0.5)
        told = (400, "the answer has more than 1000 bytes; ask for fewer rows, by `limit`, or for one key")
        assert refusal(app, "/stores/totals?limit=40") == told
        # Any ten of them, although a look at several partitions at once finds more.
        assert len(rows(app, "/stores/totals", limit="10")) == 10


class Asker:
    """Asks all the time. Each answer must be the fold of a prefix, and none may be older than one before it."""

    def __init__(self, app: AppProcess, load: Load) -> None:
        self._app, self._check = app, TotalsCheck(load.history)
        self._keys = list(load.history.prefixes)
        self._random = random.Random(1303)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="asker", daemon=True)
        self.answers = 0
        self.violation: BaseException | None = None

    def __enter__(self) -> Asker:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(90)

    def await_more(self, count: int) -> None:
        before = self.answers

        def come() -> bool:
            self.require_sound()
            self._app.require_alive()
            return self.answers >= before + count

        until(come, START_SECONDS, lambda: f"{count} more answers; it said:\n{self._app.tail()}")

    def require_sound(self) -> None:
        if self.violation is not None:
            raise self.violation

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self._ask()
        except BaseException as error:
            self.violation = error

    def _ask(self) -> None:
        key = self._random.choice([None, *self._keys])
        try:
            found = rows(self._app, f"/stores/totals/{key}" if key else "/stores/totals", limit="1000")
        except urllib.error.HTTPError as error:
            if error.code != 503:
                raise Violation("I3", f"{error.code}: {error.read().decode()}") from None
            return
        for row in found:
            self._check.see(row["key"], row, again=True)
        if found:
            self.answers += 1


def await_executors(app: AppProcess, count: int) -> None:
    until(lambda: len(executors(app)) == count, START_SECONDS, f"{count} executors", every=0.2)


@pytest.mark.chaos
@pytest.mark.timeout(600)
def test_answers_while_executors_come_and_go(kafka: KafkaConfig, tmp_path: Path) -> None:
    chooser = random.Random(1304)
    with (
        Bench(kafka, tmp_path, "asked", TOTALS, parallelism=4) as bench,
        Proof(bench, load := bench.load(seed=1303, rate=200, keys=50)) as proof,
    ):
        load.send_each_key()
        app = bench.start(arguments=["--replicas", "2"])
        load.start()
        app.await_work()
        with Asker(app, load) as asker:
            asker.await_more(20)
            require_work(bench, load)
            kill_executor(app, chooser)
            asker.await_more(20)
            for count in (3, 1):
                app.scale(count)
                await_executors(app, count)
                app.await_epochs_beyond(app.epochs())
                asker.await_more(20)
        asker.require_sound()
        print(f"{asker.answers} answers")
        proof.finish(app)


def _millis(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1000)


def _iso(millis: int) -> str:
    return datetime.fromtimestamp(millis / 1000, UTC).isoformat()
