# SPDX-License-Identifier: Apache-2.0
"""Where in a manifest's text a problem is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from streamapp.errors import Problem
from streamapp.manifest import shape
from streamapp.manifest.text import Document, Path


@dataclass(frozen=True)
class Places:
    """The nodes of a manifest in its text. All are equal: the place in a text is no part of a manifest."""

    document: Document = field(compare=False, repr=False)
    """A document that was not read from a text has no lines, and adds none."""

    @cached_property
    def _nodes(self) -> list[Any]:
        return shape.nodes_of(self.document.data)

    @cached_property
    def _paths(self) -> dict[str, Path]:
        """The paths, by the name of a node, or of an arm whose name no node has."""
        paths: dict[str, Path] = {}
        for i, node in enumerate(self._nodes):
            paths.setdefault(shape.label(node, i), ("spec", "topology", i))
        for i, node in enumerate(self._nodes):
            for j, name in enumerate(arm_names(node)):
                paths.setdefault(name, ("spec", "topology", i, "branch", j))
        return paths

    def located(self, problems: Iterable[Problem]) -> list[Problem]:
        """Each problem once, with the line that it is about, from the top of the text to its end."""
        found = [p if p.line is not None else replace(p, line=self._line(p)) for p in problems]
        return sorted(dict.fromkeys(found), key=lambda p: p.line if p.line is not None else 0)

    def _line(self, problem: Problem) -> int | None:
        if not self.document.lines:
            return None
        below = tuple((problem.field or "").split(".")) if problem.field else ()
        if problem.node is None:
            return self.document.line(("spec", *below)) if below else None
        base = self._paths.get(problem.node)
        return None if base is None else self.document.line((*base, *below))


def arm_names(node: Any) -> tuple[str, ...]:
    """The names that a node brings with it besides its own, so that a broken branch does not make its arms
    unknown."""
    arms = node.get("branch") if isinstance(node, dict) else None
    if not isinstance(arms, list):
        return ()
    return tuple(arm["name"] for arm in arms if isinstance(arm, dict) and isinstance(arm.get("name"), str))
