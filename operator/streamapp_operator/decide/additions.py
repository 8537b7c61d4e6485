# SPDX-License-Identifier: Apache-2.0
"""Finds fields that somebody has added by hand to the template of a driver's pod, and that give it more than it is to
have. Pure.

Server-side apply leaves such additions alone: a container, a volume or a capability of another name belongs to another
manager. So they are taken away one by one. A field that nobody claims, or that we claim, stays: that is how it looks
when a policy of the cluster changes our writes, and it would do it again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from streamapp_operator.render.meta import MANAGER, Object

Path = tuple[str | int, ...]
_TEMPLATES: Mapping[str, Path] = {
    "StatefulSet": ("spec", "template", "spec"),
    "CronJob": ("spec", "jobTemplate", "spec", "template", "spec"),
}
"""By kind: the path of the pod's spec. A Job's cannot be changed."""
_OF_THE_NODE = ("hostNetwork", "hostPID", "hostIPC")
_OF_A_POD = {"initContainers": "name", "containers": "name", "volumes": "name"}
_OF_A_CONTAINER = {"env": "name", "volumeMounts": "mountPath"}
"""Lists, each with the field by which Kubernetes tells its items apart."""

_Found = tuple[Path, tuple[str, ...]]
"""The path of a field, and the words by which the API server notes its manager."""


def additions(wanted: Object, observed: Object) -> tuple[Path, ...]:
    """Paths of the additions in the observed object, those of a list in its order."""
    place = _TEMPLATES.get(wanted["kind"])
    if place is None:
        return ()
    notes = observed["metadata"].get("managedFields", ())
    others = [note.get("fieldsV1", {}) for note in notes if note["manager"] != MANAGER]
    marks = tuple(f"f:{step}" for step in place)
    found = _of_a_pod(_at(wanted, place), _at(observed, place), (place, marks))
    return tuple(path for path, marks in found if any(_is_in(fields, marks) for fields in others))


def _of_a_pod(wanted: Object, observed: Object, at: _Found) -> Iterator[_Found]:
    for field in _OF_THE_NODE:
        if observed.get(field) and not wanted.get(field):
            yield _field(at, field)
    yield from _of_a_map(wanted, observed, "securityContext", at)
    for field, key in _OF_A_POD.items():
        yield from _of_a_list(wanted, observed, field, key, at)
    ours = {container["name"]: container for container in wanted["containers"]}
    for i, container in enumerate(observed["containers"]):
        if container["name"] in ours:
            here = _item(_field(at, "containers"), i, "name", container)
            yield from _of_a_container(ours[container["name"]], container, here)


def _of_a_container(wanted: Object, observed: Object, at: _Found) -> Iterator[_Found]:
    yield from _of_a_map(wanted, observed, "securityContext", at)
    for field, key in _OF_A_CONTAINER.items():
        yield from _of_a_list(wanted, observed, field, key, at)
    if observed.get("envFrom") and not wanted.get("envFrom"):
        yield _field(at, "envFrom")


def _of_a_map(wanted: Object, observed: Object, field: str, at: _Found) -> Iterator[_Found]:
    ours, here = wanted.get(field) or {}, _field(at, field)
    for key, value in (observed.get(field) or {}).items():
        if key not in ours:
            yield _field(here, key)
        elif isinstance(value, dict):
            yield from _of_a_map(ours, observed[field], key, here)


def _of_a_list(wanted: Object, observed: Object, field: str, key: str, at: _Found) -> Iterator[_Found]:
    ours = {item[key] for item in wanted.get(field, ())}
    for i, item in enumerate(observed.get(field) or ()):
        if item[key] not in ours:
            yield _item(_field(at, field), i, key, item)


def _field(at: _Found, name: str) -> _Found:
    return (*at[0], name), (*at[1], f"f:{name}")


def _item(at: _Found, i: int, key: str, item: Object) -> _Found:
    return (*at[0], i), (*at[1], f"k:{json.dumps({key: item[key]}, separators=(',', ':'))}")


def _at(item: Any, path: Path) -> Any:
    for step in path:
        item = item[step]
    return item


def _is_in(fields: Mapping[str, Any], marks: Iterable[str]) -> bool:
    for mark in marks:
        if mark not in fields:
            return False
        fields = fields[mark]
    return True
