# SPDX-License-Identifier: Apache-2.0
"""The manifest's JSON Schema, for editors. It is made from the same model that parses."""

from __future__ import annotations

from typing import Any

from streamapp.companions import Choice, Rule, of_version
from streamapp.manifest import Manifest
from streamapp.manifest.node import INNER_RULES, LATER, OPERATIONS, RULES

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def json_schema() -> dict[str, Any]:
    """The schema, as plain data.

    >>> sorted(json_schema()["properties"])
    ['apiVersion', 'kind', 'metadata', 'spec', 'status']
    """
    schema = Manifest.model_json_schema(by_alias=True)
    # A model cannot say that its fields exclude each other.
    models = schema["$defs"]
    node = models["NodeSpec"]
    node["oneOf"] = [{"required": [operation]} for operation in OPERATIONS]
    inner = ((models[_model_of(node["properties"][field])], rules) for field, rules in INNER_RULES.items())
    for model, rules in ((node, RULES), *inner):
        for rule in of_version(rules, LATER):
            _add_rule(model, rule)
    cleaned = _tidied(schema)
    assert isinstance(cleaned, dict)
    return {"$schema": DIALECT, "title": "StreamApp", **{k: v for k, v in cleaned.items() if k != "title"}}


def _model_of(field: dict[str, Any]) -> str:
    """The name of the model of an optional object."""
    (name,) = (choice["$ref"].rpartition("/")[2] for choice in field["anyOf"] if "$ref" in choice)
    return str(name)


def _add_rule(schema: dict[str, Any], rule: Rule | Choice) -> None:
    """Adds what fields go together to the schema of their object."""
    if isinstance(rule, Choice):
        schema["oneOf"] = [{"required": [name]} for name in rule.fields]
        return
    if rule.excludes:
        schemas = schema.setdefault("dependentSchemas", {})
        excluded = schemas.setdefault(rule.field, {"not": {"anyOf": []}})["not"]["anyOf"]
        excluded += [{"required": [name]} for name in rule.excludes]
        return
    one_of = [{"required": [name]} for name in rule.needs]
    wanted: dict[str, Any] = one_of[0] if len(one_of) == 1 else {"anyOf": one_of}
    if rule.value is not None:
        given = {"properties": {rule.field: {"const": rule.value}}, "required": [rule.field]}
        schema.setdefault("allOf", []).append({"if": given, "then": wanted})
    elif len(rule.needs) == 1:
        schema.setdefault("dependentRequired", {}).setdefault(rule.field, []).extend(rule.needs)
    else:
        schema.setdefault("dependentSchemas", {})[rule.field] = wanted


def _tidied(value: Any) -> Any:
    """Optional fields may be absent and not null: clusters drop nulls without a word, so they are errors."""
    if isinstance(value, list):
        return [_tidied(item) for item in value]
    if not isinstance(value, dict):
        return value
    found = {
        key: _tidied(item)
        for key, item in value.items()
        # A title is the field's name once more; a property may well be called `title`, and is then a map.
        if not (key == "default" and item is None) and not (key == "title" and isinstance(item, str))
    }
    choices = found.get("anyOf")
    if isinstance(choices, list):
        left = [choice for choice in choices if choice != {"type": "null"}]
        if len(left) == 1 and isinstance(left[0], dict):
            del found["anyOf"]
            return {**left[0], **found}
        found["anyOf"] = left
    return found
