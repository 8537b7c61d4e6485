# SPDX-License-Identifier: Apache-2.0
"""The user's own functions, from topic to topic: by row, by pandas and by Arrow, on streams and tables, on branches."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import indent
from typing import Any

import psutil
import pytest

from lib.app import FUNCTION, FUNCTIONS_CODE, AppProcess, Bench
from lib.broker import in_order as records_in_order
from lib.faults import await_halt, failpoints, family, kill, open_transactions, quick_broker, require_work
from lib.inprocess import App, Record
from lib.verify import Proof, committed
from lib.wait import until
from streamapp.errors import CodeError
from streamapp.kafka.broker import EmbeddedBroker
from streamapp.kafka.config import KafkaConfig

pytestmark = pytest.mark.kafka

NOON = 1_704_110_400_000  # 2024-01-01T12:00:00Z
ORDERS = '{name: in, stream: {topic: $T-in, value: {format: json, schema: "user STRING, amount DOUBLE, items INT"}}}'

FUNCTIONS = '''import pyarrow.compute as pc

from rates import RATE


def taxed(row):
    """None for what is not worth it, several for what is split."""
    if row["amount"] is None or row["amount"] < 1:
        return None
    if row["user"] == "split":
        return [{"who": f"part-{n}", "total": row["amount"] / 2, "at": row["offset"]} for n in (1, 2)]
    return {"who": row["user"], "total": row["amount"] * RATE, "at": row["offset"]}


def large(frame):
    frame = frame[frame.amount > 10].sort_values("amount", ascending=False)
    return frame.assign(who=frame.user.str.upper(), items=frame["items"] + 1)[["who", "items"]]


def doubled(batch):
    return batch.select(["user"]).append_column("amount", pc.multiply(batch.column("amount"), 2))


def shouted(row):
    return None if row["n"] > 2 else {"said": f"{row['word']}! {row['n']}"}


def strict(row):
    return {"n": 10 // int(row["value"])}
'''
CODE = "  code:\n    files:\n      functions.py: |\n" + indent(FUNCTIONS, " " * 8) + "\n      rates.py: RATE = 1.5\n"
Make = Callable[[str], App]


@pytest.fixture
def app(kafka: KafkaConfig, tmp_path: Path) -> Make:
    def make(topology: str) -> App:
        made = App(kafka, tmp_path, topology, CODE)
        made.create("in")
        return made

    return make


def test_each_mode_gets_what_it_is_promised(app: Make) -> None:
    a = app(f"""
  - {ORDERS}
  - {{name: rows, python: {{function: "functions:taxed", schema: "who STRING, total DOUBLE, at LONG"}}}}
  - {{name: rows-out, to: {{topic: $T-rows}}}}
  - {{name: frames, from: in, python: {{function: "functions:large", mode: pandas, schema: "who STRING, items INT"}}}}
  - {{name: frames-out, to: {{topic: $T-frames}}}}
  - name: batches
    from: in
    python: {{function: "functions:doubled", mode: arrow, schema: "user STRING, amount DOUBLE"}}
  - {{name: batches-out, to: {{topic: $T-batches}}}}
""")
    orders = [("ada", 20, 1), ("bob", 0.5, 2), ("split", 12, None), ("eve", 30, 3)]
    values = [dict(zip(("user", "amount", "items"), order, strict=True)) for order in orders]
    a.send("in", *((f"k{i}", value, NOON + i) for i, value in enumerate(values)))
    a.run()
    assert len(a.plan.subtopologies) == 1, "all three read the same rows"
    # Key, time and order are those of the record that a row came of, whatever the function made of it.
    assert [(r.key, r.value, r.timestamp) for r in in_order(a, "rows")] == [
        ("k0", {"who": "ada", "total": 30.0, "at": 0}, NOON),
        ("k2", {"who": "part-1", "total": 6.0, "at": 2}, NOON + 2),
        ("k2", {"who": "part-2", "total": 6.0, "at": 2}, NOON + 2),
        ("k3", {"who": "eve", "total": 45.0, "at": 3}, NOON + 3),
    ]
    assert [(r.key, r.value, r.timestamp) for r in in_order(a, "frames")] == [
        ("k0", {"who": "ADA", "items": 2}, NOON),
        ("k2", {"who": "SPLIT", "items": None}, NOON + 2),
        ("k3", {"who": "EVE", "items": 4}, NOON + 3),
    ]
    amounts = [(r.key, r.value["amount"]) for r in in_order(a, "batches")]
    assert amounts == [("k0", 40), ("k1", 1), ("k2", 24), ("k3", 60)]


def in_order(a: App, topic: str) -> list[Record]:
    """The records by key, and those of one key as they lie on the topic."""
    return sorted(a.received(topic), key=lambda record: record.key or "")


def test_of_a_table_a_row_that_becomes_none_is_deleted(app: Make) -> None:
    a = app("""
  - {name: in, stream: {topic: $T-in, value: text}}
  - {name: counts, groupBy: [{word: value}], aggregate: {'n': count(*)}}
  - {name: said, python: {function: "functions:shouted", schema: "said STRING"}}
  - {name: out, to: {topic: $T-out}}
""")
    a.send("in", ("", "a"), ("", "b"), ("", "a"))
    a.run()
    assert a.latest("out") == {"a": {"said": "a! 2"}, "b": {"said": "b! 1"}}
    a.send("in", ("", "a"))
    a.run()
    assert a.latest("out") == {"a": None, "b": {"said": "b! 1"}}


SLOW = """import time


def slowly(row):
    time.sleep(0.002)
    with open({calls!r}, "a") as file:
        file.write(str(row["n"]) + "\\n")
    return {{"n": row["n"], "long": "x" * 1000}}
"""
"""A function whose results are so long that they leave the process batch by batch."""
SLOW_ECHO = """
  - {name: in, stream: {topic: $T-numbers, value: {format: json, schema: "n INT"}}}
  - {name: slow, python: {function: "slow:slowly", schema: "n INT, long STRING"}}
  - {name: out, to: {topic: $T-echo}}
"""


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    """A broker that allows shorter transactions than Kafka's clients ask for by default."""
    with quick_broker(tmp_path_factory.mktemp("broker"), transaction_max_timeout_ms="25000") as running:
        yield running


@pytest.mark.timeout(300)
def test_an_epoch_that_takes_longer_than_a_transaction_is_tried_again_with_more_time_and_the_next_are_smaller(
    own_kafka: KafkaConfig, tmp_path: Path
) -> None:
    """This holds also if the process is killed in the long try, with its transaction open."""
    calls = tmp_path / "calls"
    code = indent(SLOW.format(calls=str(calls)), " " * 8)
    spec = "transactionTimeout: 2s\n  code:\n    files:\n      slow.py: |\n" + code
    (tmp_path / "spark-defaults.conf").write_text("spark.sql.execution.arrow.maxRecordsPerBatch 100\n")
    run: dict[str, Any] = {"env": {"SPARK_CONF_DIR": str(tmp_path)}, "arguments": ["--until-caught-up"]}
    numbers = range(6_000)
    with Bench(own_kafka, tmp_path, "slow", SLOW_ECHO, partitions=1, spec=spec) as bench:
        producer = records_in_order(own_kafka)
        for n in numbers:
            producer.produce(bench.topics["numbers"], json.dumps({"n": n}))
        assert producer.flush(30) == 0
        app = bench.start(**run)

        def called() -> list[str]:
            app.require_alive()
            return calls.read_text().splitlines() if calls.exists() else []

        until(lambda: called().count("0") == 2, 120, "a transaction is ended at work, and the next try begins")
        until(lambda: open_transactions(bench), 30, "it has a transaction")
        # This takes a second longer than Kafka has allowed in the first try.
        least = len(called()) + 1500
        until(lambda: len(called()) > least, 60, "a long try is under way")
        assert open_transactions(bench), "there was nothing under way"
        kill(app)
        app = bench.start(**run)
        epochs = {-1}

        def ended() -> bool:
            epochs.update(app.epochs().values())
            return app.exit_code is not None

        until(ended, 120, "it ends", every=0.1)
        assert app.exit_code == 0, app.tail()
        echo = committed(own_kafka, bench.topics["echo"])
        assert sorted(json.loads(message.value() or b"")["n"] for message in echo) == list(numbers)
        assert max(epochs) > 1, "what came after the first epoch was cut smaller"


def test_what_a_function_returns_can_be_grouped(app: Make) -> None:
    a = app(f"""
  - {ORDERS}
  - {{name: rows, python: {{function: "functions:taxed", schema: "who STRING, total DOUBLE, at LONG"}}}}
  - {{name: sums, groupBy: [who], aggregate: {{total: sum(total)}}}}
  - {{name: out, to: {{topic: $T-out}}}}
""")
    a.send("in", *(("", {"user": user, "amount": 2}) for user in ("ada", "split", "ada")))
    a.run()
    assert a.latest("out") == {"ada": {"total": 6.0}, "part-1": {"total": 1.0}, "part-2": {"total": 1.0}}


def test_a_failing_function_names_node_record_and_line(app: Make) -> None:
    a = app("""
  - {name: in, stream: {topic: $T-in, value: text}}
  - {name: scored, python: {function: "functions:strict", schema: "n INT"}}
  - {name: out, to: {topic: $T-out}}
""")
    a.send("in", ("k", "2"), ("k", "0"), ("k", "7"))
    with pytest.raises(CodeError) as caught:
        a.run()
    line = FUNCTIONS.strip().split("\n").index('    return {"n": 10 // int(row["value"])}') + 1
    assert str(caught.value) == (
        f"node 'scored': topic {a.topic('in')}, partition 0, offset 1: function 'functions:strict': ZeroDivisionError: "
        f"integer division or modulo by zero (functions.py, line {line})"
    )
    assert a.received("out") == [], "nothing of the epoch is committed"
    assert "functions" not in sys.modules, "the driver has no business with it"
    assert not [place for place in sys.path if "user-code" in place]


@pytest.mark.chaos  # the short form is among those of R3
@pytest.mark.timeout(900)
def test_results_are_exact_when_processes_of_functions_are_killed(kafka: KafkaConfig, tmp_path: Path) -> None:
    """R1 for them, then R2, and a halt between the commits of two partitions. The function's result differs each
    time."""
    with (
        Bench(kafka, tmp_path, "calls", FUNCTION, spec=FUNCTIONS_CODE) as bench,
        Proof(bench, load := bench.load(seed=203, rate=200)) as proof,
    ):
        load.start()
        app = bench.start()
        for _ in range(3):
            app.await_work()
            victims = until(lambda: callers(app), 60, "processes that call functions")
            require_work(bench, load)
            for victim in victims:
                victim.kill()
            _, alive = psutil.wait_procs(victims, timeout=10)
            assert not alive
            app.await_epochs_beyond(app.epochs())
            proof.require_sound()
        kill(app)
        app = bench.start(env=failpoints("transaction.after-commit#1=halt"))
        await_halt(app, "transaction.after-commit")
        require_work(bench, load)
        app = bench.start()
        app.await_work()
        proof.finish(app, twin=True)


def callers(app: AppProcess) -> list[psutil.Process]:
    """The processes that call functions, and the one that starts them."""
    return [process for process in family(app) if _calls(process)]


def _calls(process: psutil.Process) -> bool:
    try:
        return process.cmdline()[1:3] == ["-m", "streamapp.spark.daemon"]
    except psutil.NoSuchProcess:  # it has ended meanwhile
        return False


def test_a_module_of_the_image_is_found_too(kafka: KafkaConfig, tmp_path: Path) -> None:
    """Without `code` a function is one of an installed package."""
    a = App(
        kafka,
        tmp_path,
        """
  - {name: in, stream: {topic: $T-in, value: text}}
  - {name: said, python: {function: "json:loads", schema: "n INT"}}
  - {name: out, to: {topic: $T-out}}
""",
    )
    a.create("in")
    a.send("in", ("k", json.dumps({"n": 1})))
    with pytest.raises(CodeError, match="the JSON object must be str, bytes or bytearray, not dict"):
        a.run()
