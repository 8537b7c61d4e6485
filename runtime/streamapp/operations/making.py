# SPDX-License-Identifier: Apache-2.0
"""The source of an operation: its node of the manifest, and the other nodes as far as it names them."""

from __future__ import annotations

from typing import Protocol

from streamapp.errors import Problem


class Making(Protocol):
    """One node of the manifest on its way into a topology. Mistakes found on the way go to `problems`."""

    problems: list[Problem]

    @property
    def input(self) -> str:
        """The node that it reads: that of `from`, or the one above; a stand-in where there is none."""

    def resolve(self, field: str, name: str) -> str | None:
        """The name, when it is that of a node that can be read; else None, and a problem of that field."""

    def stand_in(self, field: str) -> str:
        """A node in the place of an input that does not exist, so that the rest can be checked."""
