# SPDX-License-Identifier: Apache-2.0
"""What is known of an operation's fields of the manifest by their places alone, before they are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from streamapp.companions import Rules

Place = tuple[str, ...]
"""From a field of the node inwards; the items of a list have their list's place."""


@dataclass(frozen=True)
class Outline:
    """The fields of one operation. They are declared once, for messages, JSON Schema and the cluster's rules."""

    rules: Rules = ()
    """Which fields of the node go only with it, and which not."""
    inner_rules: Mapping[str, Rules] = field(default_factory=dict)
    """The same of the objects in fields of the node, by field."""
    expressions: tuple[Place, ...] = ()
    """Where one expression stands."""
    columns: tuple[Place, ...] = ()
    """Where maps of columns to expressions stand."""
    aside: tuple[Place, ...] = ()
    """Whatever is wrong here, the node has the columns that it would have without."""
