# SPDX-License-Identifier: Apache-2.0
"""Crashes at moments that must not coincide, and the proof that the checks would notice."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lib.app import ECHO, Bench
from lib.faults import await_halt, failpoints
from lib.verify import Proof
from streamapp.kafka.config import KafkaConfig

pytestmark = pytest.mark.kafka


@pytest.mark.timeout(600)
def test_a_position_behind_a_sibling_that_did_not_commit(kafka: KafkaConfig, tmp_path: Path) -> None:
    """Positions of several source partitions lie in one partition of the position topic. The last one's is sent and not
    committed, then the first one's is sent and committed, then all dies: the first one's lies behind an open
    transaction, where a reader of committed records does not see it before the sibling's transaction is ended. It was
    committed all the same, and its records must not be sent again."""
    partitions = 2 * (os.cpu_count() or 1) + 1
    last = partitions - 1
    with (
        Bench(kafka, tmp_path, "sibling", ECHO, parallelism=1, partitions=partitions) as bench,
        Proof(bench, load := bench.load(seed=701)) as proof,
    ):
        load.send(1000)
        first = "sink.rows-sent#0=pause:20000"
        sibling = f"transaction.before-commit#{last}=pause:90000"
        app = bench.start(env=failpoints(first, sibling, "transaction.after-commit#0=halt"))
        line = await_halt(app, "transaction.after-commit")
        assert f"FAILPOINT transaction.before-commit epoch=0 partition={last}" in app.said, line
        app = bench.start()
        proof.finish(app)
