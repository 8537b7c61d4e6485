# SPDX-License-Identifier: Apache-2.0
"""Where in a manifest's text a problem is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from streamapp.errors import Problem
from streamapp.manifest import shape
from streamapp.manifest.text import Document, Path


class Places:
    """The nodes of a manifest in its text.

    Args:
        document: of a text; one that was not read of a text has no lines, and adds none.
    """

    def __init__(self, document: Document) -> None:
        self._document = document
        self._nodes: dict[str, int] = {}
        self._arms: dict[str, tuple[int, int]] = {}
        spec = document.data.get("spec") if isinstance(document.data, dict) else None
        nodes = spec.get("topology") if isinstance(spec, dict) else None
        for i, node in enumerate(nodes if isinstance(nodes, list) else ()):
            self._nodes.setdefault(shape.label(node, i), i)
            for j, name in enumerate(arm_names(node)):
                self._arms.setdefault(name, (i, j))

    def located(self, problems: Iterable[Problem]) -> list[Problem]:
        """Each problem once, with the line that it is about, from the top of the text to its end."""
        found = [p if p.line is not None else replace(p, line=self._line(p)) for p in problems]
        return sorted(dict.fromkeys(found), key=lambda p: p.line if p.line is not None else 0)

    def _line(self, problem: Problem) -> int | None:
        if not self._document.lines:
            return None
        field = tuple((problem.field or "").split(".")) if problem.field else ()
        if problem.node is None:
            return self._document.line(("spec", *field)) if field else None
        base: Path
        if problem.node in self._nodes:
            base = ("spec", "topology", self._nodes[problem.node])
        elif problem.node in self._arms:
            i, j = self._arms[problem.node]
            base = ("spec", "topology", i, "branch", j)
        else:
            return None
        return self._document.line((*base, *field))


def arm_names(node: Any) -> tuple[str, ...]:
    """The names that a node brings with it besides its own, so that a broken branch does not make its arms
    unknown."""
    arms = node.get("branch") if isinstance(node, dict) else None
    if not isinstance(arms, list):
        return ()
    return tuple(arm["name"] for arm in arms if isinstance(arm, dict) and isinstance(arm.get("name"), str))
