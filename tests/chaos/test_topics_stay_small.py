# SPDX-License-Identifier: Apache-2.0
"""Internal topics with the settings that an app gives them, after much has gone through: how much a start reads, and
how much lies on the disk."""

from __future__ import annotations

import base64
import json
import random
import threading
import time
from pathlib import Path

import pytest
from confluent_kafka import Message, Producer

from lib.app import ECHO, AppProcess, Bench
from lib.broker import in_order
from lib.faults import quick_broker
from lib.verify import committed
from lib.wait import until
from streamapp.kafka.config import KafkaConfig

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(3600)]

TRANSACTIONS = 300_000
PRODUCERS = 8
THROUGH_THE_HOP = 200_000
"""Records of 1 KB, which no compression makes smaller."""
SEGMENT = 50 << 20
HOP = """
  - {name: in, stream: {topic: $T-numbers, value: {format: json, schema: "n BIGINT, long STRING"}}}
  - {name: drawn, with: {'d': cast(rand() * 100 as int)}}
  - {name: totals, groupBy: [d], aggregate: {count: count(*), largest: max(long)}}
  - {name: totals-out, to: {topic: $T-totals}}
"""


def disk(folder: Path, topic: str) -> int:
    """Bytes of a topic's records and markers."""
    found = 0
    for file in folder.glob(f"data/{topic}-*/*.log"):
        try:
            found += file.stat().st_size
        except FileNotFoundError:  # deleted meanwhile
            continue
    return found


def test_a_start_after_300_000_transactions_reads_little(tmp_path: Path) -> None:
    with quick_broker(tmp_path / "broker") as broker:
        kafka = KafkaConfig(broker.bootstrap_servers)
        with Bench(kafka, tmp_path, "position", ECHO, parallelism=1, partitions=1) as bench:
            producer = in_order(kafka)
            topic = f"{bench.prefix}-position"

            def start(number: int) -> tuple[AppProcess, float]:
                """Starts the topology with one more record; returns the seconds from the start to the record's echo."""
                producer.produce(bench.topics["numbers"], json.dumps({"n": number}), b"k")
                assert producer.flush(30) == 0
                app = bench.start()
                until(lambda: app.status().get("phase") == "Running" or app.exit_code is not None, 60, "it runs", 0.01)
                begun = time.monotonic()
                echo = bench.topics["echo"]
                until(lambda: len(committed(kafka, echo)) == number, 120, "the record is echoed", every=0.01)
                return app, time.monotonic() - begun

            app, short = start(1)
            assert app.stop() == 0
            _commit_again(kafka, topic, committed(kafka, topic)[-1])
            (end,) = bench.admin.end_offsets(topic).values()
            assert end > 2 * TRANSACTIONS
            size = disk(tmp_path / "broker", topic)
            left = len(committed(kafka, topic))
            app, long = start(2)
            assert app.stop() == 0
            print(
                f"{TRANSACTIONS:,} transactions: {size >> 10:,} KiB and {left:,} records of {topic} are left; "
                f"the first record after a start took {long:.2f} s, {short:.2f} s before"
            )
            assert left < TRANSACTIONS // 10, "nothing was compacted"


def _commit_again(kafka: KafkaConfig, topic: str, last: Message) -> None:
    """Commits the same position again and again, each time in a transaction of its own."""

    def work(number: int) -> None:
        settings = {"transactional.id": f"{topic}/{number}", "linger.ms": 0}
        producer = Producer({**kafka.for_librdkafka(), **settings})
        producer.init_transactions(60)
        for _ in range(TRANSACTIONS // PRODUCERS):
            producer.begin_transaction()
            producer.produce(topic, last.value(), last.key(), partition=0)
            producer.commit_transaction(60)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(PRODUCERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_200_mb_through_a_hop_leave_two_segments(tmp_path: Path) -> None:
    """The broker looks for segments to delete every second here; its default is every five minutes."""
    with quick_broker(tmp_path / "broker", log_retention_check_interval_ms="1000") as broker:
        kafka = KafkaConfig(broker.bootstrap_servers)
        with Bench(kafka, tmp_path, "hop", HOP, parallelism=1, partitions=1) as bench:
            producer = in_order(kafka, **{"queue.buffering.max.messages": 1_000_000, "linger.ms": 50})
            chooser = random.Random(1)
            for n in range(THROUGH_THE_HOP):
                text = base64.b64encode(chooser.randbytes(750)).decode()
                producer.produce(bench.topics["numbers"], json.dumps({"n": n, "long": text}), b"k")
                if n % 1000 == 0:
                    producer.poll(0)
            assert producer.flush(120) == 0
            app = bench.start()
            (hop,) = until(lambda: [t for t in bench.all_topics() if t.endswith("-repartition")], 60, "the hop is made")
            sizes: list[int] = []

            def through() -> bool:
                app.require_alive()
                sizes.append(disk(tmp_path / "broker", hop))
                ends = bench.admin.end_offsets(hop)
                return sum(ends.values()) >= THROUGH_THE_HOP and app.status().get("totalLag") == 0

            until(through, 1800, "all has gone through the hop", every=0.2)
            until(lambda: disk(tmp_path / "broker", hop) <= 2 * SEGMENT, 120, "what was read of the hop is deleted")
            assert app.stop() == 0
            left = disk(tmp_path / "broker", hop)
            counts = {m.key(): json.loads(m.value() or b"")["count"] for m in committed(kafka, bench.topics["totals"])}
            assert sum(counts.values()) == THROUGH_THE_HOP
            written = sum(bench.admin.end_offsets(hop).values())
            print(f"{written:,} offsets of {hop}: at most {max(sizes) >> 20} MiB on disk, {left >> 20} MiB in the end")
