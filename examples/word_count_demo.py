# SPDX-License-Identifier: Apache-2.0
"""`make demo`: a word count on a real broker, killed with -9 on purpose, and continued from Kafka alone.

1. starts a broker and sends it a real text: the sources of Python's standard library
2. runs examples/word-count.yaml and shows the twenty most frequent words
3. kills the runtime with SIGKILL and deletes every local file of its state
4. starts it again, shows what was restored, and proves each count: every word is sent once more, and every count
   must then be higher by exactly one
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from streamapp.kafka.admin import Admin, TopicSpec
from streamapp.kafka.broker import EmbeddedBroker
from streamapp.kafka.config import KafkaConfig

ROOT = Path(__file__).resolve().parents[1]
MANIFEST = ROOT / "examples" / "word-count.yaml"
STATE = Path(".streamapp") / "demo"
LINES = 250_000
DEADLINE_SECONDS = 240.0


def main() -> int:
    shutil.rmtree(STATE, ignore_errors=True)
    STATE.mkdir(parents=True)
    step("1. A real broker, and a real text")
    with EmbeddedBroker(STATE / "broker") as broker:
        kafka = KafkaConfig(broker.bootstrap_servers)
        say(f"Kafka {broker.bootstrap_servers} (data in {broker.data_dir})")
        Admin(kafka).create([TopicSpec("text-lines", "lines", 4), TopicSpec("word-counts", "out", 4)])
        lines = list(library_lines(LINES))
        send(kafka, lines)
        expected = Counter(word for line in lines for word in line.lower().split(" "))
        say(f"sent {len(lines):,} lines of Python's standard library, {sum(expected.values()):,} words")

        step("2. streamapp run examples/word-count.yaml")
        first = Run(kafka)
        first.wait_until_caught_up()
        before = read_counts(kafka)
        check(before, expected, "the input's own count")
        show_top(before)

        step("3. kill -9, and every local file of the state deleted")
        first.kill()
        shutil.rmtree(STATE / "app" / "work")
        say(f"runtime killed (SIGKILL to process group {first.pid}); {STATE}/app/work is gone")

        step("4. Started again: the state comes back from its changelog topic")
        second = Run(kafka)
        send(kafka, sorted(expected))  # every word once, one per line
        second.wait_until_caught_up()
        restore = second.status()["restore"]["word-counts"]
        say(
            f"restored {restore['done']:,} changelog offsets in {restore['partitions']} partitions in "
            f"{restore['millis'] / 1000:.1f} s ({restore['recordsPerSecond']:,}/s)"
        )
        after = read_counts(kafka)
        check(after, expected + Counter(expected.keys()), "one more than before the kill")
        say(
            f"every one of the {len(after):,} counts is exactly one higher than before the kill: "
            "nothing lost, nothing doubled"
        )
        second.stop()
    print("\nDone. To write your own, start from examples/word-count.yaml and docs/manifest.md.", flush=True)
    return 0


class Run:
    """`streamapp run` as a process of its own, in its own process group."""

    def __init__(self, kafka: KafkaConfig) -> None:
        self._log = (STATE / "run.log").open("ab")
        command = [sys.executable, "-m", "streamapp.cli.main", "run", str(MANIFEST), "--state-dir", str(STATE / "app"),
                   "--bootstrap-servers", kafka.bootstrap_servers]  # fmt: skip
        self._process = subprocess.Popen(command, stdout=self._log, stderr=self._log, start_new_session=True)
        self._started = time.monotonic()

    @property
    def pid(self) -> int:
        return self._process.pid

    def status(self) -> dict[str, Any]:
        """What the running app says of itself; empty while it starts."""
        with contextlib.suppress(OSError, ValueError, TypeError, urllib.error.URLError):
            url = json.loads((STATE / "app" / "app.json").read_text())["url"]
            with urllib.request.urlopen(f"{url}/status", timeout=5) as answer:
                status: dict[str, Any] = json.load(answer)
                return status
        return {}

    def wait_until_caught_up(self) -> None:
        while True:
            if self._process.poll() is not None:
                raise SystemExit(
                    f"the app ended with exit code {self._process.returncode}; see {STATE}/run.log"
                )
            if time.monotonic() - self._started > DEADLINE_SECONDS:
                raise SystemExit(
                    f"the app did not catch up within {DEADLINE_SECONDS:.0f} s; see {STATE}/run.log"
                )
            status = self.status()
            parts = status.get("subTopologies", {}).values()
            done = sum(part["recordsIn"] for part in parts)
            if parts:
                rate = sum(part["recordsPerSecond"] for part in parts)
                store = sum(size["bytes"] for size in status["stores"].values())
                say(
                    f"{done:>9,} lines in  {rate:>9,.0f}/s  epoch {max(part['epoch'] for part in parts):>3}  "
                    f"lag {status.get('totalLag', 0):>9,}  state {store / 1e6:6.1f} MB",
                    end="\r" if sys.stdout.isatty() else "\n",
                )
            if done > 0 and status.get("totalLag") == 0:
                say("caught up".ljust(90))
                return
            time.sleep(1)

    def kill(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def stop(self) -> None:
        self._process.terminate()
        code = self._process.wait(timeout=30)
        say(f"stopped by SIGTERM, exit code {code}")


def library_lines(most: int) -> Iterator[str]:
    """Lines of the standard library's sources, the same on every machine with the same Python."""
    sent = 0
    for path in sorted(Path(sysconfig.get_path("stdlib")).rglob("*.py")):
        if "site-packages" in path.parts:
            continue
        for line in path.read_text(encoding="utf-8", errors="ignore").splitlines():
            line = " ".join(line.split())
            if line and line.isascii():  # lower-casing of other letters differs between Java and Python
                yield line
                sent += 1
                if sent == most:
                    return


def send(kafka: KafkaConfig, lines: list[str]) -> None:
    producer = Producer({**kafka.for_librdkafka(), "linger.ms": 20})
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


def check(counts: Counter[str], expected: Counter[str], what: str) -> None:
    if counts != expected:
        wrong = [word for word in expected.keys() | counts.keys() if counts[word] != expected[word]]
        raise SystemExit(
            f"{len(wrong)} counts are wrong, e.g. {wrong[0]!r}: {counts[wrong[0]]}, not {expected[wrong[0]]} ({what})"
        )


def show_top(counts: Counter[str]) -> None:
    top = [(word or "(empty)", count) for word, count in counts.most_common(20)]
    widest = top[0][1]
    for word, count in top:
        print(f"   {word:>12} {count:>9,} {'█' * max(1, 50 * count // widest)}")
    say(f"{len(counts):,} distinct words, {counts.total():,} in all: each count equals the input's own")


def step(title: str) -> None:
    print(f"\n== {title}", flush=True)


def say(text: str, end: str = "\n") -> None:
    print(f"   {text}", end=end, flush=True)


if __name__ == "__main__":
    sys.exit(main())
