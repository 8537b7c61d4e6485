# SPDX-License-Identifier: Apache-2.0
"""The operator has a connection to Kafka for each app that autoscales: hundreds of them must fit into its memory."""

from __future__ import annotations

import subprocess
import sys

MANY = 100
KILOBYTES = 250
"""The most that each of them may take: 150 were measured, and 50 more once it knows its brokers; with histograms for
metrics 550."""

WEIGH = f"""
import os
import psutil
from streamapp.kafka.config import KafkaConfig
from streamapp.kafka.group import GroupPosition

me, nobody = psutil.Process(), KafkaConfig("127.0.0.1:9")
first = GroupPosition(nobody, "first")
before = me.memory_info().rss
many = [GroupPosition(nobody, f"group-{{number}}") for number in range({MANY})]
print((me.memory_info().rss - before) // 1000 // {MANY}, flush=True)
os._exit(0)
"""


def test_a_connection_for_a_group_is_small() -> None:
    done = subprocess.run([sys.executable, "-c", WEIGH], capture_output=True, text=True, check=True, timeout=120)
    assert int(done.stdout) <= KILOBYTES
