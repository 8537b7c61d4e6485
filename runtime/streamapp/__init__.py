# SPDX-License-Identifier: Apache-2.0
"""Stream processing applications from one manifest: exactly-once on Spark, with their state in Kafka.

The pure core reads top to bottom: `manifest` (text to a validated model), `nodes` (the typed topology),
`check` (its problems, all at once), `compile` (cuts it into sub-topologies), `plan` (the input of the
runtime), `describe` (a picture for people). None of it does I/O, reads a clock, or knows Spark,
Kafka or Kubernetes.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamapp.builder import StreamBuilder as StreamBuilder

_EXPORTS = {"StreamBuilder": "streamapp.builder"}

__all__ = ["StreamBuilder"]


def __getattr__(name: str) -> Any:
    # On demand: the command line and Spark's Python workers should not load the parsers just to import this
    # package.
    if name in _EXPORTS:
        return getattr(importlib.import_module(_EXPORTS[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
