# SPDX-License-Identifier: Apache-2.0
"""The base classes of the builder's methods in Python, and their helpers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from streamapp.formats import Format

FormatLike = str | Format | Mapping[str, str]
ColumnMap = Mapping[str, str]


F = TypeVar("F")


class Starts(ABC, Generic[F]):
    """A collector of nodes: each method adds one that reads topics, or the outputs passed to it."""

    @abstractmethod
    def _add(self, name: str, source: str | None, **fields: Any) -> F:
        """The output of a new node with these fields of the manifest."""


class Steps(ABC):
    """A node's output, to which each method adds a node that reads it."""

    name: str

    @abstractmethod
    def _then(self, name: str, **fields: Any) -> Any:
        """The output of a node with these fields of the manifest that reads this one's."""

    @abstractmethod
    def _beside(self, name: str, **fields: Any) -> Any:
        """The output of a node with these fields of the manifest, which say what it reads."""

    @abstractmethod
    def _at(self, name: str) -> Any:
        """The output of a node that has been added."""


def given(**fields: Any) -> dict[str, Any]:
    """The fields that were given: None stands for absent."""
    return {key: value for key, value in fields.items() if value is not None}


def written_format(form: FormatLike | None) -> Any:
    """A format as the manifest has it."""
    if isinstance(form, Format):
        return form.name if form.schema is None else {"format": form.name, "schema": form.schema}
    return dict(form) if isinstance(form, Mapping) else form
