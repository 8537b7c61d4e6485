# SPDX-License-Identifier: Apache-2.0
"""The fields of an operation by their places in the manifest alone, before they are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from streamapp.companions import Rules

Place = tuple[str, ...]
"""A path from a field of the node inwards; the items of a list have their list's place."""


@dataclass(frozen=True)
class Outline:
    """The fields of one operation. They are declared once, for messages, JSON Schema and the cluster's rules."""

    rules: Rules = ()
    """The rules of which fields of the node go only with it, and which not."""
    inner_rules: Mapping[str, Rules] = field(default_factory=dict)
    """The same for the objects in fields of the node, by field."""
    expressions: tuple[Place, ...] = ()
    """The places of single expressions."""
    columns: tuple[Place, ...] = ()
    """The places of maps of columns to expressions."""
    aside: tuple[Place, ...] = ()
    """Places where a mistake does not change the node's columns."""
