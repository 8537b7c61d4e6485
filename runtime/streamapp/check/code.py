# SPDX-License-Identifier: Apache-2.0
"""The user's own functions: each is in a module of the app's code, and the modules can be read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from streamapp.errors import Invalid, Problem, near_miss
from streamapp.modules import names_of, require_file_name, split_function, without_function
from streamapp.nodes import Node, Topology

_FIELD = "code.files"


def check_code(topology: Topology, modules: Mapping[str, str]) -> Iterator[Problem]:
    """Modules that could not be imported, and functions that are in none of them. Nothing is run.

    Args:
        topology: with the nodes that call functions.
        modules: file name to text.
    """
    known: dict[str, tuple[str, ...] | None] = {}
    for file, text in sorted(modules.items()):
        known[file.removesuffix(".py")] = None
        try:
            require_file_name(file)
            known[file.removesuffix(".py")] = names_of(text, file)
        except Invalid as error:
            yield Problem(None, _FIELD, None, error.message, error.fix)
    for node in topology.nodes:
        for function in node.functions:
            yield from _check_function(node, function, known)


def _check_function(node: Node, function: str, known: Mapping[str, tuple[str, ...] | None]) -> Iterator[Problem]:
    module, name = split_function(function)
    field = f"{node.operation}.function"
    if module not in known:
        fix = near_miss(module, known) or f"there are: {', '.join(known)}"
        yield Problem(node.name, field, function, f"there is no module '{module}' in spec.code", fix)
        return
    names = known[module]
    if names is not None and name not in names:
        fix = without_function(name, names)
        yield Problem(node.name, field, function, f"module '{module}' has no '{name}'", fix)
