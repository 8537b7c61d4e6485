# SPDX-License-Identifier: Apache-2.0
"""Processes that must not outlive their parent, however that one ends."""

from __future__ import annotations

import ctypes
import signal

_SET_DEATH_SIGNAL = 1


def end_with_parent() -> None:
    """Makes Linux kill a process that has just been forked as soon as its parent has ended."""
    ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)
