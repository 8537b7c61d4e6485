# SPDX-License-Identifier: Apache-2.0
"""Refuses fields of a user's pod template that an app rests on, and those that would break it without a word."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from streamapp.errors import ManifestError, Problem
from streamapp_operator.render.meta import Object

JAVA_OPTIONS = "JDK_JAVA_OPTIONS"
_READ_BY_JAVA = (JAVA_OPTIONS, "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS")
_SETTING = re.compile(r"-D(spark\.[\w.-]*)")
_OUT_OF_SIGHT = re.compile(r"(?:^|\s)@|-XX:VMOptionsFile|\$\(")
_NOT_HERE = "Spark's settings are not given there"
_NO_TOKEN = "executors get no token for the API server"


def require_maps(component: str, template: Object) -> None:
    """
    Raises:
        ManifestError: when it has not the shape of a template, so that nothing could be laid over ours.
    """
    metadata = template.get("metadata", {})
    parts = {"metadata": metadata, "spec": template.get("spec", {})}
    if isinstance(metadata, dict):
        parts |= {f"metadata.{name}": metadata.get(name, {}) for name in ("labels", "annotations")}
    wrong = [name for name, part in parts.items() if not isinstance(part, dict)]
    raise_for(_problem(component, name, "is no map", "see the API reference of a pod's template") for name in wrong)


def require_java_options(component: str, template: Object) -> None:
    """
    Raises:
        ManifestError: when the environment of our container has settings of Spark's, or may have without showing them.
    """
    raise_for(
        _problem(component, f"spec.containers[{component}].env[{name}]", *fault)
        for name, value in ((item.get("name"), item.get("value")) for item in environment(component, template))
        if (fault := _fault(name, value)) is not None
    )


def require_no_token(template: Object) -> None:
    """
    Raises:
        ManifestError: when an executor of this template would get a token of the API server.
    """
    spec = template["spec"]
    fields = [] if spec.get("automountServiceAccountToken") is False else ["spec.automountServiceAccountToken"]
    fields += [f"spec.volumes[{volume.get('name')}]" for volume in _items(spec, "volumes") if _has_token(volume)]
    raise_for(_problem("executor", field, _NO_TOKEN, "leave it out") for field in fields)


def environment(component: str, template: Object) -> list[Object]:
    """The variables of our container."""
    ours = (item for item in _items(template.get("spec", {}), "containers") if item.get("name") == component)
    return [variable for container in ours for variable in _items(container, "env")]


def raise_for(problems: Iterator[Problem]) -> None:
    if found := list(problems):
        raise ManifestError(found)


def _fault(name: Any, value: Any) -> tuple[str, str] | None:
    """The problem of a variable, and its fix; None when there is none."""
    text = re.sub(r"[\"']", "", value) if isinstance(value, str) else ""  # Java takes them away, too
    if (found := _SETTING.search(text)) is not None:
        return f"`{found[1]}`: {_NOT_HERE}", f"take -D{found[1]} out"
    if name in _READ_BY_JAVA and (not isinstance(value, str) or _OUT_OF_SIGHT.search(text)):
        return f"the options in it are not visible, and {_NOT_HERE}", "write Java's options as its `value`"
    return None


def _has_token(volume: Object) -> bool:
    projected = volume.get("projected")
    return isinstance(projected, dict) and any("serviceAccountToken" in s for s in _items(projected, "sources"))


def _items(parent: Object, name: str) -> list[Object]:
    """The maps in a list; none where it is no list of maps, which the API server reports."""
    items = parent.get(name)
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _problem(component: str, field: str, message: str, fix: str) -> Problem:
    return Problem(None, f"{component}.podTemplate.{field}", None, message, fix)
