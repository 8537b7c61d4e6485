# SPDX-License-Identifier: Apache-2.0
"""The number of tasks that run at a time in an executor's pod."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamapp.spark.kubernetes import DriverPod, Executors, pods_of

DRIVER = DriverPod("app-driver-0", "here", "10.0.0.1", 7078, 7079, 512, Path("/secret"))


@pytest.mark.parametrize(
    ("processors", "partitions", "slots"),
    [
        (1, 8, "4"),  # small tasks mostly wait for Kafka
        (1, 2, "2"),  # more would have no use
        (4, 8, "8"),
        (4, 2, "4"),
    ],
)
def test_slots_are_more_than_processors_and_cpu_is_what_was_asked_for(
    processors: int, partitions: int, slots: str
) -> None:
    executors = Executors(Path("/template"), "image", "Always", "app", processors, "100m", None, 512, 384)
    settings = pods_of(DRIVER, executors, replicas=2, partitions=partitions).settings
    assert settings["spark.executor.cores"] == slots
    assert settings["spark.kubernetes.executor.request.cores"] == "100m"
    assert settings["spark.streamapp.processors"] == str(processors)


def test_the_stores_of_an_executor_fit_beside_its_heap() -> None:
    executors = Executors(Path("t"), "image", "Always", "app-exec", 1, "500m", None, 844, 692)
    assert pods_of(DRIVER, executors, replicas=1, partitions=8).stores_mib == 250
