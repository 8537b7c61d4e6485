# SPDX-License-Identifier: Apache-2.0
"""JSON Schema to Kubernetes' structural schema: no references, no alternatives, a type at every place.

What a structural schema cannot say is left to rules (`rules.py`) or, where those cannot either, to the operator, which
parses every manifest again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from streamapp.manifest.model import LONGEST_PATH, LONGEST_SCOPE
from streamapp.manifest.reading import MOST_NODES
from streamapp.operations.branch import MOST_BRANCHES
from streamapp.operations.stream import MOST_TOPICS

Schema = dict[str, Any]

_KEPT = ("type", "description", "default", "enum", "minimum", "maximum", "minLength", "maxLength", "minItems")
_KEPT_OF_MAPS = ("minProperties", "maxProperties")

# Bounds that make the cost of rules finite, by the field's path. No legal value comes near them: a node's name becomes
# part of a topic's name, which has at most 249 characters.
_LONGEST = {
    **dict.fromkeys(("name", "from", "with", "topic", "store"), 249),
    **dict.fromkeys(("pattern", "bootstrapServers", "tokenEndpoint", "path"), 1000),
    **dict.fromkeys(("caFile", "certificateFile", "keyFile", "credentialsFile"), LONGEST_PATH),
    "scope": LONGEST_SCOPE,
    "function": 500,
    "applicationId": 200,
    "startFrom": 60,
}
_LONGEST_DURATION = 40
_MOST = {"topology": MOST_NODES, "branch": MOST_BRANCHES, "schedule": 50, "topics": MOST_TOPICS}


def structural(schema: Schema, definitions: dict[str, Schema]) -> Schema:
    """The schema with every reference written out."""
    return _converted(schema, definitions, "")


def _converted(schema: Schema, definitions: dict[str, Schema], name: str) -> Schema:
    schema = _resolved(schema, definitions)
    choices = schema.get("anyOf")
    if choices is not None:
        return _alternatives(schema, [_resolved(choice, definitions) for choice in choices])
    found: Schema = {key: schema[key] for key in _KEPT if key in schema}
    if "const" in schema:
        found["enum"] = [schema["const"]]
    if found.get("type") == "array":
        found["items"] = _converted(schema["items"], definitions, "")
        found["items"].setdefault("description", "One of them.")
        if name in _MOST:
            found["maxItems"] = _MOST[name]
    elif found.get("type") == "object":
        found |= _object(schema, definitions)
    elif found.get("type") == "string":
        examples = schema.get("examples", ())
        if "100ms" in examples:
            # For the rules, which take `x-positive` away again.
            found |= {"maxLength": _LONGEST_DURATION, "x-positive": "0s" not in examples}
        elif name in _LONGEST:
            found.setdefault("maxLength", _LONGEST[name])
    return found


def _object(schema: Schema, definitions: dict[str, Schema]) -> Schema:
    found: Schema = {key: schema[key] for key in _KEPT_OF_MAPS if key in schema}
    if "properties" in schema:
        found["properties"] = {
            name: _converted(field, definitions, name) for name, field in schema["properties"].items()
        }
        if schema.get("required"):
            found["required"] = list(schema["required"])
    elif isinstance(schema.get("additionalProperties"), dict):
        found["additionalProperties"] = _converted(schema["additionalProperties"], definitions, "")
        found["additionalProperties"].setdefault("description", "An expression; of `code.files`, a text.")
    else:
        # A part of Kubernetes' own language, such as a pod's template.
        found["x-kubernetes-preserve-unknown-fields"] = True
    return found


def _alternatives(schema: Schema, choices: list[Schema]) -> Schema:
    """A text or an object: a structural schema has no words for it, so the operator checks it."""
    head: Schema = {key: schema[key] for key in ("description", "default") if key in schema}
    enums = [choice.get("enum") for choice in choices]
    if all(enums) and {choice.get("type") for choice in choices} == {"string"}:
        return {**head, "type": "string", "enum": [word for enum in enums for word in enum or ()]}
    return {**head, "x-kubernetes-preserve-unknown-fields": True}


def _resolved(schema: Schema, definitions: dict[str, Schema]) -> Schema:
    """The definition that a reference names; the keys beside the reference take its keys' place."""
    if "$ref" not in schema:
        return schema
    target = definitions[schema["$ref"].rsplit("/", 1)[1]]
    beside = {key: value for key, value in schema.items() if key != "$ref"}
    return {**_resolved(target, definitions), **beside}


def undescribed(schema: Schema, path: str = "") -> Iterator[str]:
    """Paths of the fields without a description: `kubectl explain` would have nothing to say about them."""
    for name, field in schema.get("properties", {}).items():
        here = f"{path}.{name}"
        if "description" not in field:
            yield here
        yield from undescribed(field, here)
    for inner in ("items", "additionalProperties"):
        if isinstance(schema.get(inner), dict):
            yield from undescribed(schema[inner], path + "[]")
