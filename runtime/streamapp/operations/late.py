# SPDX-License-Identifier: Apache-2.0
"""`late`: a topic for the late records of a `groupBy` with windows, or of a join of two streams."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from streamapp.fields import Model
from streamapp.nodes import LateRecords, Node


class LateSpec(Model):
    """Where late records go."""

    topic: Annotated[str, Field(description="The topic that gets them, with headers that say why.")]


Given = Annotated[
    LateSpec | None,
    Field(description="With window: a topic for records that are late. Default: they are dropped, and counted."),
]
"""The field of the manifest."""


def late_name(node: str) -> str:
    """The name of the node that writes the late records of another."""
    return f"{node}-late"


def with_late_records(node: Node, topic: str | None, field: str = "late") -> tuple[Node, ...]:
    """The node, and the one that writes its late records, where a topic for them is named in that field."""
    return (node,) if topic is None else (node, LateRecords(late_name(node.name), node.name, topic, field))
