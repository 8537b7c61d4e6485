# SPDX-License-Identifier: Apache-2.0
"""A mistake in an expression."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """What is wrong with an expression, and what to write instead."""

    message: str
    fix: str | None = None
