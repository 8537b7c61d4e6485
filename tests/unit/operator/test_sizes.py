# SPDX-License-Identifier: Apache-2.0
"""How the memory of a pod is divided."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial

import pytest

from streamapp.errors import ManifestError
from streamapp_operator.render.sizes import Size, driver_size, executor_size_of

SPARK_STARTS_WITH_MIB = 450
"""`UnifiedMemoryManager`: 300 MiB that it keeps for itself, half as much again; both drivers and executors have one."""
SERIAL_COLLECTOR_SHOWS = 0.966
"""The part of its heap that the serial collector shows, measured with 460 and 512 MiB: 444.7 and 494.9."""
DEFAULT = {"requests": {"cpu": "500m"}, "limits": {"memory": "2Gi"}}
Sized = Callable[[dict[str, dict[str, str]]], Size]
ROLES: dict[str, Sized] = {
    "driver": partial(driver_size, default=DEFAULT),
    "executor": partial(executor_size_of, default=DEFAULT, calls_functions=False),
    "executor beside functions": partial(executor_size_of, default=DEFAULT, calls_functions=True),
}


@pytest.mark.parametrize("role", ROLES)
def test_a_size_that_is_taken_is_one_that_spark_starts_with(role: str) -> None:
    taken: list[Size] = []
    for mib in range(400, 2200, 4):
        given = {"limits": {"memory": f"{mib}Mi"}}
        if taken:  # more memory is never refused where less was taken
            taken.append(ROLES[role](given))
            continue
        with contextlib.suppress(ManifestError):
            taken.append(ROLES[role](given))
    with pytest.raises(ManifestError, match="memory of 400Mi is too little"):
        ROLES[role]({"limits": {"memory": "400Mi"}})
    assert min(size.heap for size in taken) * SERIAL_COLLECTOR_SHOWS >= SPARK_STARTS_WITH_MIB
    assert min(size.overhead for size in taken) >= 384, "what is outside of the heap"
