# SPDX-License-Identifier: Apache-2.0
"""Text or plain data to a Manifest, or to every problem it has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pydantic import ValidationError

from streamapp.check import check_topology
from streamapp.errors import ManifestError, Problem, shorten
from streamapp.manifest import shape
from streamapp.manifest.build import build_partial
from streamapp.manifest.complaints import problems_of
from streamapp.manifest.model import CodeSpec, Manifest
from streamapp.manifest.node import NodeSpec
from streamapp.manifest.places import Places, arm_names
from streamapp.manifest.salvage import Salvaged, salvage
from streamapp.manifest.text import Document, Path, read_text
from streamapp.nodes import Topology

MOST_NODES = 300
"""The most nodes of one manifest, here as on a cluster, whose API server bounds the cost of its rules by it."""
MOST_ENTRIES = 5_000
"""The most entries of all nodes: columns, fields, branches and topics together."""


ModulesAt = Callable[[str], Mapping[str, str]]


def parse_manifest(text: str, path: str = "<manifest>", modules_at: ModulesAt | None = None) -> Manifest:
    """The manifest of a YAML text.

    Args:
        text: one YAML document.
        path: where the text is from; only for messages.
        modules_at: gives the modules, file name to text, that `code.path` leads to; they take its place. None: nothing
            is known of them.

    Raises:
        ManifestError: with every problem of the text, each with its line.
    """
    document = read_text(text)
    if document.data is None:
        raise ManifestError(document.problems or (Problem(None, None, None, f"{path} is empty", None),))
    return _parse(document, modules_at)


def parse_object(data: Mapping[str, Any], modules_at: ModulesAt | None = None) -> Manifest:
    """The manifest of plain data, as a cluster or the Python builder gives it; `modules_at` as for a text.

    Raises:
        ManifestError: with every problem of the data.
    """
    return _parse(_with_keys_of_text(data), modules_at)


def _with_keys_of_text(data: Mapping[str, Any]) -> Document:
    """Plain data without the keys that are no text, and with a problem for each: Python's maps have keys of any type.

    It does not call itself: a pod template may be nested deeper than Python's stack is."""
    document = Document(dict(data))
    open_ones: list[tuple[Path, Any]] = [((), document.data)]
    for path, value in open_ones:
        if isinstance(value, dict):
            for key in [key for key in value if not isinstance(key, str)]:
                del value[key]
                message = f"the key {shorten(repr(key))} is no text"
                where = shape.field_of(path, document.data)
                document.problems.append(Problem(*where, None, message, "write a name in quotes"))
        for key, entry in value.items() if isinstance(value, dict) else enumerate(value):
            if isinstance(entry, dict | list):
                value[key] = entry.copy()
                open_ones.append(((*path, key), value[key]))
    return document


def _parse(document: Document, modules_at: ModulesAt | None = None) -> Manifest:
    data = document.data
    problems = list(document.problems)
    for path, message, fix, line in document.faults:
        problems.append(Problem(*shape.field_of(path, data), None, message, fix, line))
    if not isinstance(data, dict):
        raise ManifestError(
            [
                *problems,
                Problem(
                    None,
                    None,
                    None,
                    "a manifest is a map with apiVersion, kind, metadata and spec",
                    "start from one of the examples",
                    1,
                ),
            ]
        )
    if fault := _too_many(data):
        # Each node is checked together with all others, which takes too long for so many.
        problem = Problem(None, "topology", None, *fault, document.line(("spec", "topology")))
        raise ManifestError([*problems, problem])
    shaped, bad_nodes = shape.check(data, document)
    problems += shaped
    bad_nodes |= {int(path[2]) for path in document.cut if path[:2] == ("spec", "topology") and len(path) > 3}
    reported = {(problem.node, problem.field) for problem in shaped}
    manifest: Manifest | None = None
    try:
        manifest = Manifest.model_validate(data)
    except ValidationError as error:
        found, more_bad_nodes = problems_of(error, data, document)
        # Problems that the outline has already reported are not reported twice.
        problems += [problem for problem in found if (problem.node, problem.field) not in reported]
        bad_nodes |= more_bad_nodes
    modules = _modules_of(data, modules_at)
    topology, meant, unchecked = _meaning(data, manifest, bad_nodes, document, modules)
    problems += meant
    places = Places(document)
    if problems or manifest is None:
        raise ManifestError(places.located(problems), unchecked)
    if manifest.modules is None and modules is not None:
        spec = manifest.spec.model_copy(update={"code": CodeSpec(files=modules)})
        manifest = manifest.model_copy(update={"spec": spec})
    return manifest.with_topology(topology, places)


def _meaning(
    data: dict[str, Any],
    manifest: Manifest | None,
    bad_nodes: set[int],
    document: Document,
    modules: dict[str, str] | None,
) -> tuple[Topology, list[Problem], tuple[str, ...]]:
    """The topology, made of what could be read of its nodes; its problems; and the nodes that they leave open."""
    specs: list[NodeSpec | str | None] = []
    in_part: dict[str, Salvaged] = {}
    nodes = shape.nodes_of(data)
    for i, node in enumerate(nodes):
        # As it is written: a name that YAML reads as something else is still meant as a name.
        written = document.written.get(("spec", "topology", i, "name")) if isinstance(node, dict) else None
        name = node["name"] if isinstance(node, dict) and isinstance(node.get("name"), str) else written
        if i not in bad_nodes and isinstance(node, dict):
            specs.append(manifest.spec.topology[i] if manifest is not None else NodeSpec.model_validate(node))
            continue
        cut = [path[3:] for path in document.cut if path[:3] == ("spec", "topology", i)]
        found = salvage(node, name or shape.label(node, i), cut) if isinstance(node, dict) else None
        if found is not None:
            in_part.setdefault(found.spec.name, found)
        specs.append(name if found is None else found.spec)
    unsure = frozenset(name for name, found in in_part.items() if not found.columns_known)
    lines = [document.line(("spec", "topology", i)) for i in range(len(nodes))]
    topology, problems = build_partial(specs, [arm_names(node) for node in nodes], unsure, lines)
    problems += check_topology(topology, _application_id(data, manifest), modules)
    kept = [p for p in problems if p.node not in in_part or not in_part[p.node].is_about_left_out(p.field)]
    places = {shape.label(node, i): i for i, node in reversed(list(enumerate(nodes)))}
    return topology, kept, tuple(sorted(topology.half_checked, key=lambda name: places.get(name, len(places))))


def _too_many(data: dict[str, Any]) -> tuple[str, str] | None:
    """The mistake of too many nodes or entries, and its fix; None where there are not too many."""
    nodes = shape.nodes_of(data)
    if len(nodes) > MOST_NODES:
        return f"has {len(nodes)} entries", f"at most {MOST_NODES}; make several apps of it"
    if (count := sum(map(_entries, nodes))) > MOST_ENTRIES:
        return f"has nodes with {count:,} entries", f"{MOST_ENTRIES:,} are the most; make several apps of it"
    return None


def _entries(node: Any) -> int:
    """The number of entries of all maps and lists in it."""
    count, open_ones = 0, [node]
    while open_ones:
        value = open_ones.pop()
        if isinstance(value, dict | list):
            count += len(value)
            open_ones += value.values() if isinstance(value, dict) else value
    return count


def _modules_of(data: dict[str, Any], modules_at: ModulesAt | None) -> dict[str, str] | None:
    """The modules that the manifest itself has, or leads to, as far as they can be read."""
    spec = data.get("spec")
    code = spec.get("code") if isinstance(spec, dict) else None
    if not isinstance(code, dict):
        return None
    files, path = code.get("files"), code.get("path")
    if isinstance(files, dict) and all(isinstance(text, str) for item in files.items() for text in item):
        return files
    return dict(modules_at(path)) if modules_at is not None and files is None and isinstance(path, str) else None


def _application_id(data: dict[str, Any], manifest: Manifest | None) -> str:
    if manifest is not None:
        return manifest.application_id
    spec, metadata = data.get("spec"), data.get("metadata")
    for where, field in ((spec, "applicationId"), (metadata, "name")):
        value = where.get(field) if isinstance(where, dict) else None
        if isinstance(value, str) and value:
            return value
    return "app"
