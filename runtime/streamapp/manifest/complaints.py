# SPDX-License-Identifier: Apache-2.0
"""The model's complaints as problems that people can act on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError

from streamapp.errors import Problem, near_miss
from streamapp.fields import FormatSpec
from streamapp.manifest import model
from streamapp.manifest.node import NOT_YET, NodeSpec
from streamapp.manifest.shape import field_of
from streamapp.manifest.text import Document, Path, quoted, rendered


def _objects(path: Path, name: str, kind: type[BaseModel]) -> Iterator[tuple[Path, tuple[str, type[BaseModel]]]]:
    """An object and those in it, each with its name."""
    yield path, (name, kind)
    for field, info in kind.model_fields.items():
        alias = info.alias or field
        for place, inner in _models(info.annotation):
            yield from _objects((*path, alias, *place), "format" if inner is FormatSpec else alias, inner)


def _models(annotation: Any) -> Iterator[tuple[Path, type[BaseModel]]]:
    """The models in a field's type; those in a list are at 0."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield (), annotation
    for part in get_args(annotation):
        yield from (((0, *place) if get_origin(annotation) is list else place, kind) for place, kind in _models(part))


_OBJECTS: dict[Path, tuple[str, type[BaseModel]]] = {
    (): ("manifest", model.Manifest),
    ("spec",): ("spec", model.Spec),
    ("spec", "kafka"): ("kafka", model.KafkaSpec),
    ("spec", "kafka", "tls"): ("tls", model.TlsSpec),
    ("spec", "kafka", "sasl"): ("sasl", model.SaslSpec),
    ("spec", "code"): ("code", model.CodeSpec),
    ("spec", "code", "configMapRef"): ("configMapRef", model.ConfigMapRef),
    ("spec", "autoscaling"): ("autoscaling", model.AutoscalingSpec),
    ("spec", "autoscaling", "lag"): ("lag", model.LagTarget),
    ("spec", "upgrade"): ("upgrade", model.UpgradeSpec),
    ("spec", "driver"): ("driver", model.PodSpec),
    ("spec", "executor"): ("executor", model.PodSpec),
    ("spec", "onBadRecord"): ("onBadRecord", model.DeadLetterSpec),
    **dict(_objects(("spec", "topology", 0), "node", NodeSpec)),
}
"""The name and the model of each object of the manifest, by its path; places in lists are 0."""

_EXAMPLES = {
    "name": "name: words",
    "topic": "topic: orders",
    "with": "with: payments",
    "topology": "topology: [{name: lines, stream: {topic: text-lines, value: text}}, …]",
    "metadata": "metadata: {name: word-count}",
    "spec": "spec: {topology: […]}",
    "apiVersion": f"apiVersion: {model.API_VERSION}",
    "kind": f"kind: {model.KIND}",
    "bootstrapServers": "bootstrapServers: kafka:9092",
    "maxReplicas": "maxReplicas: 4",
    "mechanism": "mechanism: SCRAM-SHA-512",
    "format": "format: text",
    "deadLetter": "deadLetter: bad-records",
}


def problems_of(error: ValidationError, data: dict[str, Any], document: Document) -> tuple[list[Problem], set[int]]:
    """The problems, and the places of the nodes that have any."""
    problems: list[Problem] = []
    bad_nodes: set[int] = set()
    for complaint in error.errors(include_url=False):
        path, tags = _path(complaint["loc"], data, complaint["type"])
        if path[:2] == ("spec", "topology") and len(path) > 2 and isinstance(path[2], int):
            bad_nodes.add(path[2])
        problem = _problem(dict(complaint), path, tags, data, document)
        if problem is not None:
            problems.append(problem)
    return problems, bad_nodes


def _path(loc: tuple[int | str, ...], data: Any, kind: str) -> tuple[Path, tuple[str, ...]]:
    """Where in the data; the model's names for the members of a union are put aside."""
    path: list[int | str] = []
    tags: list[str] = []
    at = data
    for i, part in enumerate(loc):
        last = i == len(loc) - 1
        in_map = isinstance(at, dict) and part in at
        in_list = isinstance(at, list) and isinstance(part, int)
        if in_map or in_list:
            at = at[part]
        elif last and kind == "missing":
            at = None
        else:
            tags.append(str(part))
            continue
        path.append(part)
    return tuple(path), tuple(tags)


def _problem(
    complaint: dict[str, Any], path: Path, tags: tuple[str, ...], data: dict[str, Any], document: Document
) -> Problem | None:
    kind, value, context = complaint["type"], complaint["input"], complaint.get("ctx") or {}
    node, field = field_of(path, data)
    line = document.line(path)
    if value is None and kind != "missing":
        return None  # a blank is reported as one
    if kind == "literal_error" and isinstance(value, dict):
        return None  # the other member of the union has more to say
    if kind == "string_type" and "str" in tags:
        return None
    last = str(path[-1]) if path else ""
    if kind == "refused":
        return Problem(node, field, None, context["message"], context["fix"], line)
    if kind == "missing":
        fix = f"add it, e.g. {_EXAMPLES[last]}" if last in _EXAMPLES else "add it"
        return Problem(node, field, None, f"`{last}` is missing", fix, line)
    if kind == "extra_forbidden":
        return _unknown_field(node, field, path, line)
    if kind == "string_type" and not isinstance(value, dict | list | tuple):
        written = document.written.get(path, str(value))
        return Problem(
            node,
            field,
            None,
            f"`{written}` is read by YAML as {rendered(value)}, and a string is needed",
            f"write it in quotes: {quoted(written)}",
            line,
        )
    return Problem(node, field, None, *_plain(kind, value, context, last, _first_field(path)), line)


def _owner(path: Path) -> tuple[str, type[BaseModel] | None]:
    return _OBJECTS.get(tuple(0 if isinstance(part, int) else part for part in path), ("", None))


def _first_field(path: Path) -> str:
    """The field that an object of the manifest is mostly about: its first."""
    _, owner = _owner(path)
    return next((info.alias or name for name, info in owner.model_fields.items()), "name") if owner else "name"


def _unknown_field(node: str | None, field: str | None, path: Path, line: int | None) -> Problem | None:
    name = str(path[-1])
    owner, fields = _owner(path[:-1])
    if name in NOT_YET.get(owner, ()):
        message = f"`{name}` is not available yet in this version"
        return Problem(node, field, None, message, None, line)
    if owner == "sasl" and name in ("username", "password", "clientId", "clientSecret"):
        return Problem(
            node,
            field,
            None,
            f"`{name}` must not be in a manifest",
            "use secretRef, or credentialsFile on a laptop",
            line,
        )
    known = [info.alias or key for key, info in fields.model_fields.items()] if fields else []
    fix = near_miss(name, known) or (f"there are: {', '.join(known)}" if known else "remove it")
    return Problem(node, field, None, f"unknown field `{name}`", fix, line)


def _plain(kind: str, value: Any, context: dict[str, Any], name: str, first_field: str) -> tuple[str, str | None]:
    seen = rendered(value)
    if kind == "string_type" and isinstance(value, list) and len(value) == 1 and isinstance(value[0], str):
        return f"needs a string, and this is {seen}", f"write {value[0]}, without brackets"
    if kind == "string_type" and isinstance(value, list) and name == "from":
        return f"needs a string, and this is {seen}", "name one, or make a `merge` node of them before"
    if kind == "string_type":
        return f"needs a string, and this is {seen}", "write text in quotes"
    if kind in ("int_type", "int_parsing", "int_from_float"):
        return f"needs a whole number, and this is {seen}", "write a number without quotes"
    if kind in ("bool_type", "bool_parsing"):
        return f"needs true or false, and this is {seen}", "write true or false without quotes"
    if kind in ("list_type", "tuple_type"):
        if isinstance(value, dict):
            return f"needs a list, and this is {seen}", "begin each of its items with `- `"
        return f"needs a list, and this is {seen}", f"write [{value}]"
    if kind in ("dict_type", "model_type", "model_attributes_type"):
        example = value if isinstance(value, str) and value else "…"
        return f"needs a map, and this is {seen}", f"write {{{first_field}: {example}}}"
    if kind in ("greater_than_equal", "greater_than"):
        return f"{value} is too small", f"at least {context.get('ge', context.get('gt'))}"
    if kind in ("less_than_equal", "less_than"):
        return f"{value} is too large", f"at most {context.get('le', context.get('lt'))}"
    if kind == "too_short":
        least = context.get("min_length")
        return f"has {context.get('actual_length')} entries", f"at least {least}"
    if kind == "too_long":
        # For a map, pydantic does not count all entries.
        count = len(value) if isinstance(value, list | dict) else context.get("actual_length")
        return f"has {count} entries", f"at most {context.get('max_length')}"
    if kind == "string_too_short":
        return "is empty", "write a value"
    if kind == "literal_error":
        return f"there is no {seen}", f"use {context.get('expected')}"
    return str(context.get("message") or f"cannot be read ({kind.replace('_', ' ')})"), None
