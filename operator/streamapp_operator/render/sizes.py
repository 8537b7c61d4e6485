# SPDX-License-Identifier: Apache-2.0
"""Derives the settings of Java and Spark from a container's resources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from streamapp.errors import ManifestError, Problem
from streamapp_operator.manifest.app import App
from streamapp_operator.quantities import mebibytes, quantity
from streamapp_operator.settings import Settings

_DRIVER_HEAP = 0.5
"""The share of the memory for the heap. The rest is for Python, and for Java's memory outside of its heap."""
_EXECUTOR_HEAP = 0.55
"""The share of the memory for the heap. The rest is for RocksDB, whose memory is not Java's, and for buffers and
threads."""
_EXECUTOR_HEAP_BESIDE_FUNCTIONS = 0.45
"""The same where the user's functions run beside it, in Python processes: about 80 MiB together and 35 each."""
_LEAST_HEAP_MIB = 480
"""Spark starts with no less than 450 MiB that Java says it has: 300 MiB that it keeps for itself, half as much again
(`UnifiedMemoryManager`). With the serial collector Java says a thirtieth less than its heap: one survivor space is
never used."""
_LEAST_DRIVER_MIB = 928
_LEAST_EXECUTOR_MIB = 864
_LEAST_BESIDE_FUNCTIONS_MIB = 1024
"""Containers with less memory than these would leave too little of it beside the least heap."""


@dataclass(frozen=True)
class Size:
    """The size of one container. Memory is in mebibytes."""

    resources: dict[str, Any]
    """Requests and limits, as Kubernetes takes them."""
    cpu: str
    cpu_limit: str | None
    processors: int
    """As many as its tasks may keep busy: the requested number, rounded up."""
    heap: int
    overhead: int


def driver_size(given: Mapping[str, Any] | None, default: Mapping[str, Any]) -> Size:
    """
    Raises:
        ManifestError: when they cannot be read, or are too small to work.
    """
    return _size("driver", given, default, _DRIVER_HEAP, _LEAST_DRIVER_MIB)


def executor_size(app: App, settings: Settings) -> Size:
    """
    Raises:
        ManifestError: when they cannot be read, or are too small to work.
    """
    spec = app.manifest.spec.executor
    given = spec.resources if spec else None
    return executor_size_of(given, settings.executor_resources, app.plan.calls_functions)


def executor_size_of(given: Mapping[str, Any] | None, default: Mapping[str, Any], calls_functions: bool) -> Size:
    """The size of an executor. Where the user's functions run beside it, it leaves them memory.

    Raises:
        ManifestError: when they cannot be read, or are too small to work.
    """
    if calls_functions:
        share, least = _EXECUTOR_HEAP_BESIDE_FUNCTIONS, _LEAST_BESIDE_FUNCTIONS_MIB
    else:
        share, least = _EXECUTOR_HEAP, _LEAST_EXECUTOR_MIB
    return _size("executor", given, default, share, least)


def _size(
    role: str,
    given: Mapping[str, Any] | None,
    default: Mapping[str, Any],
    heap_share: float,
    least: int,
) -> Size:
    field = f"{role}.resources"
    try:
        requests, limits = dict((given or {}).get("requests") or {}), dict((given or {}).get("limits") or {})
        memory = limits.get("memory", requests.get("memory", default["limits"]["memory"]))
        cpu = str(requests.get("cpu", limits.get("cpu", default["requests"]["cpu"])))
        processors = max(1, -int(-quantity(cpu) // 1))
        total = mebibytes(memory)
    except (ValueError, TypeError, AttributeError) as error:
        raise ManifestError([Problem(None, field, None, str(error), None)]) from None
    if total < least:
        why = " beside python functions" if least == _LEAST_BESIDE_FUNCTIONS_MIB else ""
        raise ManifestError(
            [Problem(None, field, str(memory), f"memory of {memory} is too little{why}", f"at least {least}Mi")]
        )
    # With a request below the limit the node could run out of memory, and would end this pod for it.
    resources = {
        "requests": {**requests, "cpu": cpu, "memory": str(memory)},
        "limits": {**limits, "memory": str(memory)},
    }
    heap = max(int(total * heap_share), _LEAST_HEAP_MIB)
    limit = limits.get("cpu")
    return Size(resources, cpu, None if limit is None else str(limit), processors, heap, total - heap)
