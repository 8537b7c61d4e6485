# SPDX-License-Identifier: Apache-2.0
"""`make demo`: a word count on a real broker, killed with -9 in the middle of its work, and continued from Kafka alone.

1. starts a broker and sends it the first part of a real text: the sources of Python's standard library
2. runs examples/word-count.yaml, and kills the runtime with SIGKILL while it counts the rest, which is still being sent
3. deletes every local file of its state
4. starts it again, shows the progress of the restore, and compares every count with one made here: a line that was
   counted twice or never would show
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from streamapp.here.progress import ProgressLine
from streamapp.kafka.admin import Admin, TopicSpec
from streamapp.kafka.broker import EmbeddedBroker
from streamapp.kafka.config import KafkaConfig

ROOT = Path(__file__).resolve().parents[1]
MANIFEST = ROOT / "examples" / "word-count.yaml"
STATE = Path(".streamapp") / "demo"
LINES = 250_000
FIRST = 50_000
"""The lines that are there when the app starts; the rest keeps it at work when it is killed."""
DEADLINE_SECONDS = 240.0


def main() -> int:
    # The end of the demo, whatever its cause, ends all that it has started: by exceptions, through every `with`.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        demo()
    except KeyboardInterrupt:
        print("\nstopped", file=sys.stderr)
        return 130
    return 0


def demo() -> None:
    shutil.rmtree(STATE, ignore_errors=True)
    STATE.mkdir(parents=True)
    step("1. A real broker, and a real text")
    with EmbeddedBroker(STATE / "broker") as broker:
        kafka = KafkaConfig(broker.bootstrap_servers)
        say(f"Kafka {broker.bootstrap_servers} (data in {broker.data_dir})")
        Admin(kafka).create([TopicSpec("text-lines", "lines", 4), TopicSpec("word-counts", "out", 4)])
        lines = list(library_lines(LINES))
        expected = Counter(word for line in lines for word in line.split(" "))
        send(kafka, lines[:FIRST])
        say(f"sent {FIRST:,} of {len(lines):,} lines of Python's standard library ({expected.total():,} words)")

        step("2. streamapp run examples/word-count.yaml, and kill -9 in the middle of it")
        with Run(kafka) as first:
            first.wait(lambda status: lines_in(status) >= FIRST, "count the first lines")
            show_top(read_counts(kafka))
            say(f"the first {FIRST:,} lines are counted; sending the rest")
            with ThreadPoolExecutor(1) as beside:
                sending = beside.submit(send, kafka, lines[FIRST:])
                status = first.wait(
                    lambda status: status.get("totalLag", 0) > 0 or lines_in(status) > FIRST, "go on with the rest"
                )
                first.kill()
                sending.result()
            left = len(lines) - lines_in(status)
        if left == 0:
            raise SystemExit("this machine was done before it could be killed: raise LINES in this file")
        say(f"runtime killed (SIGKILL to process group {first.pid}) while it was counting the other {left:,} lines")

        step("3. Every local file of its state deleted")
        shutil.rmtree(STATE / "app" / "work")
        say(f"{STATE}/app/work is gone; what is left is in Kafka: the counts' changelog, and how far they go")

        step("4. Started again: the state comes back from its changelog topic, and the rest of the lines is counted")
        with Run(kafka) as second:
            status = second.wait(lambda status: lines_in(status) > 0 and status.get("totalLag") == 0, "catch up")
            restore = status["restore"]["word-counts"]
            say(
                f"caught up; before, {restore['restored']:,} changelog offsets were read, and {restore['partitions']} "
                "partitions restored from them"
            )
            counts = read_counts(kafka)
            check(counts, expected)
            show_top(counts)
            say(f"all {len(counts):,} counts are exactly those of the text: nothing lost, nothing counted twice")
            second.stop()
    print("\nDone. To write your own, start from examples/word-count.yaml and docs/manifest.md.", flush=True)


class Run:
    """`streamapp run` as a process of its own, in its own process group, which does not outlive its `with`."""

    def __init__(self, kafka: KafkaConfig) -> None:
        self._kafka = kafka

    def __enter__(self) -> Run:
        (STATE / "app" / "app.json").unlink(missing_ok=True)  # the address of an earlier run
        command = [
            sys.executable,
            "-m",
            "streamapp.cli.main",
            "run",
            str(MANIFEST),
            "--state-dir",
            str(STATE / "app"),
            "--bootstrap-servers",
            self._kafka.bootstrap_servers,
        ]
        with (STATE / "run.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self.kill()

    @property
    def pid(self) -> int:
        return self._process.pid

    def status(self) -> dict[str, Any]:
        """The running app's status; empty while it starts."""
        with contextlib.suppress(OSError, ValueError, TypeError, urllib.error.URLError):
            url = json.loads((STATE / "app" / "app.json").read_text())["url"]
            with urllib.request.urlopen(f"{url}/status", timeout=5) as answer:
                status: dict[str, Any] = json.load(answer)
                return status
        return {}

    def wait(self, until: Callable[[dict[str, Any]], bool], what: str) -> dict[str, Any]:
        """Shows the status until it is as wanted; returns it."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        line = ProgressLine(sys.stdout)
        try:
            while True:
                if self._process.poll() is not None:
                    raise SystemExit(f"the app ended with exit code {self._process.returncode}; see {STATE}/run.log")
                if time.monotonic() > deadline:
                    raise SystemExit(f"the app did not {what} within {DEADLINE_SECONDS:.0f} s; see {STATE}/run.log")
                status = self.status()
                line.show(status)
                if until(status):
                    return status
                time.sleep(0.2)
        finally:
            line.end()

    def kill(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def stop(self) -> None:
        self._process.terminate()
        code = self._process.wait(timeout=30)
        say(f"stopped by SIGTERM, exit code {code}")


def lines_in(status: dict[str, Any]) -> int:
    """The number of lines that the app has counted since it was started."""
    return sum(part["recordsIn"] for part in status.get("subTopologies", {}).values())


def library_lines(most: int) -> Iterator[str]:
    """The words of each line of the standard library's sources, the same on every machine with the same Python."""
    sent = 0
    for path in sorted(Path(sysconfig.get_path("stdlib")).rglob("*.py")):
        if "site-packages" in path.parts:
            continue
        for line in path.read_text(encoding="utf-8", errors="ignore").splitlines():
            words = re.findall("[a-z]+", line.lower())
            if words:
                yield " ".join(words)
                sent += 1
                if sent == most:
                    return


def send(kafka: KafkaConfig, lines: list[str]) -> None:
    producer = Producer({**kafka.for_librdkafka(), "linger.ms": 20, "enable.idempotence": True})
    for line in lines:
        while True:
            try:
                producer.produce("text-lines", line.encode())
                break
            except BufferError:
                producer.poll(0.1)
    if producer.flush(60) > 0:
        raise SystemExit("the broker did not take all lines")


def read_counts(kafka: KafkaConfig) -> Counter[str]:
    """The last committed count of every word, from the output topic."""
    ends = Admin(kafka).end_offsets("word-counts")
    consumer = Consumer(
        {
            **kafka.for_librdkafka(),
            "group.id": "demo",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition("word-counts", partition, OFFSET_BEGINNING) for partition in ends])
    counts: Counter[str] = Counter()
    open_partitions = {partition for partition, end in ends.items() if end > 0}
    while open_partitions:
        for message in consumer.consume(10_000, timeout=1.0):
            if message.error():
                raise SystemExit(str(message.error()))
            counts[(message.key() or b"").decode()] = json.loads(message.value() or b"{}")["count"]
        for position in consumer.position([TopicPartition("word-counts", p) for p in open_partitions]):
            if position.offset >= ends[position.partition]:
                open_partitions.discard(position.partition)
    consumer.close()
    return counts


def check(counts: Counter[str], expected: Counter[str]) -> None:
    if counts != expected:
        wrong = [word for word in expected.keys() | counts.keys() if counts[word] != expected[word]]
        raise SystemExit(
            f"{len(wrong)} counts are wrong, e.g. {wrong[0]!r}: {counts[wrong[0]]}, and not {expected[wrong[0]]}"
        )


def show_top(counts: Counter[str]) -> None:
    top = counts.most_common(20)
    widest = top[0][1]
    for word, count in top:
        print(f"   {word:>12} {count:>9,} {'█' * max(1, 50 * count // widest)}")


def step(title: str) -> None:
    print(f"\n== {title}", flush=True)


def say(text: str) -> None:
    print(f"   {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
