# SPDX-License-Identifier: Apache-2.0
"""The counters of `/status` are exact, however seldom they are read and whatever fails in between."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Consumer

from lib import counted
from lib.app import START_SECONDS, Bench
from lib.faults import failpoints, stopped_executor
from lib.wait import until
from streamapp.kafka.config import KafkaConfig

pytestmark = pytest.mark.kafka

ROUNDS = 10
"""At least so many epochs of each part: more than Spark kept reports of when the counters added these up."""


def test_no_epoch_is_lost_to_a_stall_or_a_failure(kafka: KafkaConfig, tmp_path: Path) -> None:
    # Epochs fail after all their tasks have committed, so that a replay does nothing in them.
    faults = failpoints("epoch.tasks-committed@0=fail", "metadata.before-write.commits@0=fail")
    with Bench(kafka, tmp_path, "counts", counted.TOPOLOGY, partitions=1, spec=counted.SPEC) as bench:
        sender = counted.Sender(kafka, bench.topics["numbers"])
        sender.first_round()
        app = bench.start(env=faults)

        def settled() -> bool:
            app.require_alive()
            return counted.counters(app.status()) == counted.expected(sender.rounds)

        until(settled, START_SECONDS, f"the first round is counted: {counted.expected(0)}")
        sender.round()
        until(settled, START_SECONDS, f"both parts go on: {counted.expected(1)}")
        assert app.said.count("FAILPOINT") == 2
        before = app.status()["subTopologies"]
        written = Counter[str]()
        reader = Consumer(
            {
                **kafka.for_librdkafka(),
                "group.id": f"{bench.prefix}-reader",
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
            }
        )

        def are_written() -> bool:
            for message in reader.consume(100, timeout=0.1):
                written[str(message.topic())] += message.error() is None
            found = written[bench.topics["echo"]], written[bench.topics["windows"]]
            return found == (1 + 2 * sender.rounds, 1 + sender.rounds)

        # The process that looks stands still, the one that works goes on.
        with closing(reader), stopped_executor(psutil.Process(app.pid)):
            reader.subscribe([bench.topics["echo"], bench.topics["windows"]])
            for _ in range(ROUNDS):
                sender.round()
                until(are_written, 60, f"round {sender.rounds} is written", every=0)
        until(settled, 30, f"all rounds are counted: {counted.expected(sender.rounds)}")
        status = app.status()
        for name, part in status["subTopologies"].items():
            assert part["epochs"] - before[name]["epochs"] >= ROUNDS
            assert part["epochs"] == part["epoch"] + 1  # an epoch that is done again counts once
            assert 0 < part["busySeconds"] < status["uptimeSeconds"]
        assert app.stop() == 0
