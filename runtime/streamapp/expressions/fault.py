# SPDX-License-Identifier: Apache-2.0
"""A mistake in an expression."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """A mistake in an expression, and its fix."""

    message: str
    fix: str | None = None
