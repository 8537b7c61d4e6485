# SPDX-License-Identifier: Apache-2.0
"""Driver killed, and started again: exact results for a reader that looked on all the time (R2)."""

from __future__ import annotations

from pathlib import Path

import pytest

from lib.app import Bench
from lib.faults import kill, kill_python_only, require_work
from lib.verify import Proof
from streamapp.kafka.config import KafkaConfig

pytestmark = pytest.mark.kafka


def test_driver_killed_under_load(kafka: KafkaConfig, tmp_path: Path) -> None:
    with Bench(kafka, tmp_path, "kills") as bench, Proof(bench, load := bench.load(seed=201)) as proof:
        load.start()
        for fault in (kill, kill, kill_python_only):
            app = bench.start()
            app.await_work(epochs=2)
            require_work(bench, load)
            fault(app)
            proof.require_sound()
        app = bench.start()
        app.await_work()
        proof.finish(app)
