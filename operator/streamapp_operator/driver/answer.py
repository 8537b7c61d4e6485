# SPDX-License-Identifier: Apache-2.0
"""The driver's answer as a typed value, read once, where it comes in. Pure.

A driver may be older or newer than the operator, and runs its author's code. A field that is unknown is ignored; one
that is missing, or of another type, is not known. Nothing in an answer is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from streamapp.plain import plain
from streamapp_operator.crd.status import LARGEST_NUMBER

STARTING, RESTORING, RUNNING, RESTARTING, STOPPED, FAILED = (
    "Starting",
    "Restoring",
    "Running",
    "Restarting",
    "Stopped",
    "Failed",
)
PHASES = (STARTING, RESTORING, RUNNING, RESTARTING, STOPPED, FAILED)
T = TypeVar("T")


@dataclass(frozen=True)
class SubTopology:
    """Numbers of one sub-topology."""

    epoch: int | None = None
    """The last committed epoch; -1: none since the driver began. None: not known."""
    epochs: int = 0
    """Epochs committed since the driver began."""
    watermark: str = ""
    """In event time; empty where there is none."""
    busy_seconds: float | None = None
    """Seconds spent on epochs since the driver began; None: not known, as from an older version."""
    epoch_ms: float = 0
    """Milliseconds that the last epoch took."""


@dataclass(frozen=True)
class Restore:
    """The progress of one store that is restored."""

    restoring: bool = False
    done: int = 0
    """Changelog offsets passed."""
    total: int = 0
    eta_seconds: float = 0


@dataclass(frozen=True)
class Answer:
    """The answer of a driver about itself."""

    phase: str = ""
    """One of PHASES; empty: not known."""
    error: str = ""
    lag: Mapping[str, int] | None = None
    """Records by TOPIC/PARTITION; None: not known."""
    parts: Mapping[str, SubTopology] = field(default_factory=dict)
    """By name of the sub-topology."""
    processed: int | None = None
    """Records that every reader of their topic has processed since the driver began; None: not known, as from an older
    version."""
    restores: Mapping[str, Restore] = field(default_factory=dict)
    """By name of the store."""
    wanted: int | None = None
    """Executors that the driver keeps; None: not known."""
    template: str = ""
    """Fingerprint of the template that it makes them from."""
    lost: int = 0
    """Executors that have ended without being asked to."""
    last_loss: str = ""
    """How the last of them ended."""


def read_answer(content: Any) -> Answer | None:
    """
    Args:
        content: any JSON.

    Returns:
        None when it is no object.

    >>> read_answer({"phase": "Running", "lag": {"t/0": 5, "t/1": "?"}, "replicas": 3}).lag
    {'t/0': 5}
    """
    if not isinstance(content, dict):
        return None
    phase, replicas = _text(content, "phase"), _map(content, "replicas")
    return Answer(
        phase=phase if phase in PHASES else "",
        error=_text(content, "error"),
        lag=_lag(content),
        parts=_each(content, "subTopologies", _sub_topology),
        processed=_count(content, "recordsProcessed"),
        restores=_each(content, "restore", _restore),
        wanted=_count(replicas, "wanted"),
        template=_text(replicas, "template"),
        lost=_count(replicas, "lost") or 0,
        last_loss=_text(replicas, "lastLoss"),
    )


def _lag(fields: Mapping[str, Any]) -> dict[str, int] | None:
    lag = fields.get("lag")
    if not isinstance(lag, dict):
        return None
    return {plain(partition): records for partition in lag if (records := _count(lag, partition)) is not None}


def _sub_topology(fields: Mapping[str, Any]) -> SubTopology:
    return SubTopology(
        epoch=_count(fields, "epoch", -1),
        epochs=_count(fields, "epochs") or 0,
        watermark=_text(fields, "watermark"),
        busy_seconds=_number(fields, "busySeconds"),
        epoch_ms=_number(_map(fields, "epochMs"), "triggerExecution") or 0,
    )


def _restore(fields: Mapping[str, Any]) -> Restore:
    return Restore(
        restoring=bool(_count(fields, "restoring")),
        done=_count(fields, "done") or 0,
        total=_count(fields, "total") or 0,
        eta_seconds=_number(fields, "etaSeconds") or 0,
    )


def _each(fields: Mapping[str, Any], name: str, read: Callable[[Mapping[str, Any]], T]) -> dict[str, T]:
    return {plain(key): read(value) for key, value in _map(fields, name).items() if isinstance(value, dict)}


def _map(fields: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = fields.get(name)
    return value if isinstance(value, dict) else {}


def _text(fields: Mapping[str, Any], name: str) -> str:
    """The text with control characters written out, as it goes into statuses and events."""
    value = fields.get(name)
    return plain(value) if isinstance(value, str) else ""


def _number(fields: Mapping[str, Any], name: str) -> float | None:
    """The number; None for a bool, and for NaN and Infinity, which Python's JSON takes for numbers."""
    value = fields.get(name)
    known = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= LARGEST_NUMBER
    return value if known else None


def _count(fields: Mapping[str, Any], name: str, least: int = 0) -> int | None:
    value = fields.get(name)
    known = isinstance(value, int) and not isinstance(value, bool) and least <= value <= LARGEST_NUMBER
    return value if known else None
