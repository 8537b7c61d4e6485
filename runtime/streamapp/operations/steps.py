# SPDX-License-Identifier: Apache-2.0
"""What the methods of the builder in Python are made with."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any


class Steps(ABC):
    """A node's output, to which each method adds a node that reads it."""

    @abstractmethod
    def _then(self, name: str, **fields: Any) -> Any:
        """The output of a node with these fields of the manifest that reads this one's."""
