# SPDX-License-Identifier: Apache-2.0
"""The outline of the nodes, before their fields: one operation each, and nothing left blank.

It is apart from the models because a model can only say that a field is unknown, and not that a node does two
things.
"""

from __future__ import annotations

from typing import Any

from streamapp.errors import Problem, near_miss
from streamapp.manifest.node import NOT_YET_OPERATIONS, OPERATIONS
from streamapp.manifest.text import Document, Path, dotted, said

_COMPANIONS = {
    "aggregate": ("groupBy",),
    "window": ("groupBy",),
    "grace": ("groupBy",),
    "emit": ("groupBy",),
    "store": ("groupBy", "join"),
}
"""Fields that only make sense beside an operation."""
_FREE = ("driver", "executor", "metadata", "status")
"""Parts of Kubernetes' own language, where a blank may mean something."""


def check(data: dict[str, Any], document: Document) -> tuple[list[Problem], set[int]]:
    """Problems of the outline, and the places of the nodes of which it is not clear what they do."""
    spec = data.get("spec")
    nodes = spec.get("topology") if isinstance(spec, dict) else None
    problems = list(_blanks({k: v for k, v in data.items() if k not in _FREE}, (), document))
    bad: set[int] = set()
    for i, node in enumerate(nodes if isinstance(nodes, list) else ()):
        name = label(node, i)
        fatal = _operation_problems(node, name)
        problems += fatal
        if fatal or None in node.values():
            bad.add(i)
        else:
            problems += _companion_problems(node, name)
    return problems, bad


def label(node: Any, place: int) -> str:
    """What to call a node in a message: its name, or its place."""
    name = node.get("name") if isinstance(node, dict) else None
    return name if isinstance(name, str) and name else f"#{place + 1}"


def field_of(path: Path, data: dict[str, Any]) -> tuple[str | None, str | None]:
    """A path into the manifest as the node it is in and the field."""
    if len(path) >= 3 and path[:2] == ("spec", "topology") and isinstance(path[2], int):
        nodes = data["spec"]["topology"]
        return label(nodes[path[2]], path[2]), dotted(path[3:]) or None
    return None, dotted(path[1:] if path[:1] == ("spec",) else path) or None


def _operation_problems(node: Any, name: str) -> list[Problem]:
    """Problems that leave open what the node does."""
    if not isinstance(node, dict):
        return [
            Problem(
                name,
                None,
                None,
                f"a node is a map with a name and an operation, and this is {said_text(node)}",
                "write e.g. {name: words, filter: length(value) > 3}",
            )
        ]
    present = [field for field in node if field in OPERATIONS]
    later = [field for field in node if field in NOT_YET_OPERATIONS]
    if len(present) + len(later) > 1:
        both = " and ".join(f"`{field}`" for field in (*present, *later))
        return [Problem(name, None, None, f"has {both}, and a node has one operation", "make a node of each")]
    if not present and not later:
        return _no_operation(node, name)
    if "groupBy" in present and "aggregate" not in node and "reduce" not in node:
        fix = 'say what to compute, e.g. aggregate: {count: "count(*)"}'
        return [Problem(name, "aggregate", None, "`aggregate` is missing", fix)]
    return []


def _companion_problems(node: dict[str, Any], name: str) -> list[Problem]:
    """Fields that do not go with the node's operation, or with each other."""
    problems = []
    for field, operations in _COMPANIONS.items():
        if field in node and not any(operation in node for operation in operations):
            wanted = " or ".join(f"`{operation}`" for operation in operations)
            problems.append(
                Problem(name, field, None, f"`{field}` is only for {wanted}", f"remove `{field}`")
            )
    if "groupBy" in node:
        problems += _group_problems(node, name)
    for operation, why in (
        ("stream", "a stream, which reads topics"),
        ("merge", "merge, which names what it reads"),
    ):
        if operation in node and "from" in node:
            problems.append(Problem(name, "from", None, f"`from` is not for {why}", "remove `from`"))
    return problems


def _no_operation(node: dict[str, Any], name: str) -> list[Problem]:
    if "aggregate" in node or "reduce" in node:
        return [
            Problem(
                name,
                "groupBy",
                None,
                "`groupBy` is missing",
                "say what to aggregate by, e.g. groupBy: [user]",
            )
        ]
    unknown = [field for field in node if field not in ("name", "from", *_COMPANIONS)]
    if unknown:
        fix = (
            near_miss(unknown[0], (*OPERATIONS, *NOT_YET_OPERATIONS)) or f"there are: {', '.join(OPERATIONS)}"
        )
        return [Problem(name, unknown[0], None, f"unknown operation `{unknown[0]}`", fix)]
    return [Problem(name, None, None, "has no operation", f"add one of: {', '.join(OPERATIONS)}")]


def _group_problems(node: dict[str, Any], name: str) -> list[Problem]:
    problems = []
    window = node.get("window")
    if "window" not in node:
        if "grace" in node:
            problems.append(
                Problem(
                    name,
                    "grace",
                    None,
                    "`grace` is there without a `window`",
                    "add e.g. window: {tumbling: 5 minutes}",
                )
            )
        if node.get("emit") == "final":
            problems.append(
                Problem(
                    name,
                    "emit",
                    "final",
                    "`emit: final` needs a `window`: without one no result is ever final",
                    "add e.g. window: {tumbling: 5 minutes}, or emit: updates",
                )
            )
    elif isinstance(window, dict):
        problems += _window_problems(window, name)
    return problems


def _window_problems(window: dict[str, Any], name: str) -> list[Problem]:
    kinds = [kind for kind in ("tumbling", "hopping", "session", "sliding") if kind in window]
    if not kinds:
        unknown = next((field for field in window if field != "every"), None)
        fix = near_miss(unknown, ("tumbling", "hopping")) if unknown else None
        return [
            Problem(
                name,
                "window",
                unknown,
                "says no kind of window",
                fix or "write e.g. window: {tumbling: 5 minutes}",
            )
        ]
    if len(kinds) > 1:
        return [
            Problem(
                name, "window", None, f"has {' and '.join(f'`{kind}`' for kind in kinds)}", "keep one of them"
            )
        ]
    if kinds == ["hopping"] and "every" not in window:
        return [
            Problem(
                name,
                "window.every",
                None,
                "`every` is missing",
                "say how often a window starts, e.g. every: 1 minute",
            )
        ]
    if kinds == ["tumbling"] and "every" in window:
        return [
            Problem(
                name, "window.every", None, "`every` is for hopping windows", "remove it, or write hopping"
            )
        ]
    return []


def _blanks(value: Any, path: Path, document: Document) -> list[Problem]:
    """Fields with nothing after the colon: a cluster would drop them without a word."""
    problems = []
    waiting: list[tuple[Any, Path]] = [(value, path)]
    while waiting:
        item, at = waiting.pop()
        if item is None:
            node, field = field_of(at, document.data)
            written = document.written.get(at, "")
            if written:
                problems.append(
                    Problem(
                        node,
                        field,
                        None,
                        f"`{written}` is read by YAML as nothing",
                        f"write it in quotes: '{written}'",
                        document.line(at),
                    )
                )
            else:
                problems.append(
                    Problem(
                        node,
                        field,
                        None,
                        "there is nothing after the colon",
                        "write a value, or remove the field",
                        document.line(at),
                    )
                )
        elif isinstance(item, dict):
            waiting.extend((v, (*at, k)) for k, v in item.items() if not (at == ("spec",) and k in _FREE))
        elif isinstance(item, list):
            waiting.extend((v, (*at, i)) for i, v in enumerate(item))
    return problems


def said_text(value: Any) -> str:
    """A value of the wrong kind, in words."""
    return f"'{value}'" if isinstance(value, str) else said(value)
