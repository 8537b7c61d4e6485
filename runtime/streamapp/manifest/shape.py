# SPDX-License-Identifier: Apache-2.0
"""The outline of the nodes, before their fields: one operation each, and nothing left blank.

It is apart from the models because a model can only say that a field is unknown, and not that a node does two
things.
"""

from __future__ import annotations

from typing import Any

from streamapp.companions import faults
from streamapp.errors import Problem, near_miss
from streamapp.manifest.node import COMPANIONS, INNER_RULES, NOT_YET_OPERATIONS, OPERATIONS, RULES
from streamapp.manifest.text import Document, Path, dotted, rendered
from streamapp.operations.group_by import GROUP
from streamapp.operations.window import KINDS

_FREE = ("driver", "executor", "metadata", "status")
"""Parts of Kubernetes' own language, where a blank may mean something."""


def check(data: dict[str, Any], document: Document) -> tuple[list[Problem], set[int]]:
    """Problems of the outline, and the places of the nodes whose operation is not clear."""
    problems = list(_blanks({k: v for k, v in data.items() if k not in _FREE}, (), document))
    bad: set[int] = set()
    for i, node in enumerate(nodes_of(data)):
        name = label(node, i)
        fatal = _operation_problems(node, name)
        problems += fatal
        if fatal or None in node.values():
            bad.add(i)
        else:
            problems += _companion_problems(node, name)
    return problems, bad


def nodes_of(data: Any) -> list[Any]:
    """The nodes in a manifest's plain data, of whatever form they are; none where they are no list."""
    spec = data.get("spec") if isinstance(data, dict) else None
    nodes = spec.get("topology") if isinstance(spec, dict) else None
    return nodes if isinstance(nodes, list) else []


def label(node: Any, place: int) -> str:
    """A node's name for a message: its own, or its place."""
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
                f"a node is a map with a name and an operation, and this is {rendered(node)}",
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
    if fault := GROUP.fault(node):
        return [Problem(name, *fault)]
    return []


def _companion_problems(node: dict[str, Any], name: str) -> list[Problem]:
    """Fields that do not go with the node's operation, or with each other."""
    problems = [Problem(name, *fault) for fault in faults(RULES, node)]
    for place in INNER_RULES:
        inner = node.get(place)
        # Without groupBy a window is wrong as a whole.
        if isinstance(inner, dict) and (place != "window" or "groupBy" in node):
            problems += _inner_problems(place, inner, name)
    return problems


def _no_operation(node: dict[str, Any], name: str) -> list[Problem]:
    if any(field in node for field in ("aggregate", "reduce", "top")):
        return [
            Problem(
                name,
                "groupBy",
                None,
                "`groupBy` is missing",
                "say what to aggregate by, e.g. groupBy: [user]",
            )
        ]
    unknown = [field for field in node if field not in ("name", "from", *COMPANIONS)]
    if unknown:
        fix = near_miss(unknown[0], (*OPERATIONS, *NOT_YET_OPERATIONS)) or f"there are: {', '.join(OPERATIONS)}"
        return [Problem(name, unknown[0], None, f"unknown operation `{unknown[0]}`", fix)]
    return [Problem(name, None, None, "has no operation", f"add one of: {', '.join(OPERATIONS)}")]


def _inner_problems(place: str, inner: dict[str, Any], name: str) -> list[Problem]:
    """Fields that do not go with each other in an object of the node."""
    problems = []
    for field, value, message, fix in faults(INNER_RULES[place], inner):
        if place == "window" and not inner.keys() & set(KINDS.fields):  # then another word may be meant as one of them
            value = next((given for given in inner if given != "every"), None)
            fix = (near_miss(value, ("tumbling", "hopping")) if value else None) or fix
        problems.append(Problem(name, f"{place}.{field}" if field else place, value, message, fix))
    return problems


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
