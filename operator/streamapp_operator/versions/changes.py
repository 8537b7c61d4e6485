# SPDX-License-Identifier: Apache-2.0
"""The effects that a changed manifest would have on an app. Pure, from the two versions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from streamapp.errors import shorten
from streamapp.manifest import Manifest
from streamapp_operator.manifest.app import App
from streamapp_operator.manifest.change_classes import (
    FORBIDDEN,
    NEEDS_STATE_MIGRATION,
    RESTART_QUERY,
    class_of_change,
    heaviest,
    is_divided,
)
from streamapp_operator.render import STARTERS, Credentials, render
from streamapp_operator.render.executors import executor_template
from streamapp_operator.render.meta import FINGERPRINT_ANNOTATION, TEMPLATE_ANNOTATION, Object
from streamapp_operator.render.pods import image_of
from streamapp_operator.settings import Settings
from streamapp_operator.versions.state_changes import REFUSED, StateChange, state_changes

NOTHING, EXECUTORS, DRIVER = "Nothing", "Executors", "Driver"
_FIXED = "this is fixed for the life of an app; set it back, or make another StreamApp"
_ANY = Credentials("any", "any")
_CONTEXT = 20
"""Characters that are shown before a difference of two long texts."""


@dataclass(frozen=True)
class FieldChange:
    """A field that has changed."""

    field: str
    """Its path in the spec; for a node, `topology[NAME]`."""
    kind: str
    """One of `classes.CLASSES`."""
    words: str
    """The old and the new value; for a node, only that it changes."""
    details: tuple[str, ...] = ()
    """Each field of a node that changes, with its old and its new value."""

    @property
    def full_words(self) -> str:
        return ": ".join(filter(None, (self.words, "; ".join(self.details))))


@dataclass(frozen=True)
class Changes:
    """The changes from one version of an app to another."""

    fields: tuple[FieldChange, ...]
    state: tuple[StateChange, ...]
    objects: tuple[str, ...]
    """The objects that change."""
    restarts: str
    """The part that is started anew: NOTHING, EXECUTORS or DRIVER."""

    @property
    def kind(self) -> str:
        """The heaviest class of all."""
        refused = any(change.outcome == REFUSED for change in self.state)
        return heaviest((*(change.kind for change in self.fields), *((NEEDS_STATE_MIGRATION,) if refused else ())))

    @property
    def refused(self) -> str:
        """Why the change is not made, in words; empty when it is."""
        if self.kind not in (NEEDS_STATE_MIGRATION, FORBIDDEN):
            return ""
        causes = [change.words for change in self.fields if change.kind in (NEEDS_STATE_MIGRATION, FORBIDDEN)]
        reasons = [change.words for change in self.state if change.outcome == REFUSED] or [_FIXED]
        return ": ".join(", ".join(group) for group in (causes, reasons) if group)


def changes_between(before: App, after: App, settings: Settings) -> Changes:
    """
    Args:
        before, after: the two versions.
        settings: of the operator; what they say does not matter, as both versions are rendered with them.
    """
    was, will = _by_name(render(before, settings, _ANY)), _by_name(render(after, settings, _ANY))
    differ = [key for key in will if key not in was or _mark(was[key]) != _mark(will[key])]
    restarts = NOTHING
    if not (before.manifest.spec.suspend or after.manifest.spec.suspend):
        rolls = executor_template(before, settings) != executor_template(after, settings)
        restarts = DRIVER if _start(was) != _start(will) else EXECUTORS if rolls else NOTHING
    state = tuple(state_changes(before.plan, after.plan))
    return Changes(
        fields=(*_fields(before.manifest, after.manifest, state), *_image(before, after, settings)),
        state=state,
        objects=tuple(f"{kind} {name}" for kind, name in differ),
        restarts=restarts,
    )


def _image(before: App, after: App, settings: Settings) -> Iterator[FieldChange]:
    """The change of the operator's image, where neither manifest names one."""
    was, will = image_of(before, settings), image_of(after, settings)
    if was != will and before.manifest.spec.image is None is after.manifest.spec.image:
        yield FieldChange("image", RESTART_QUERY, f"image: {was} becomes {will}, by the operator's settings")


def _fields(before: Manifest, after: Manifest, state: tuple[StateChange, ...]) -> Iterator[FieldChange]:
    old, new = _full_spec(before), _full_spec(after)
    for name in sorted({*old, *new} - {"topology"}):
        yield from _field(name, old.get(name), new.get(name))
    yield from _nodes(old["topology"], new["topology"], _migrated(before, after, state))


def _field(path: str, old: Any, new: Any) -> Iterator[FieldChange]:
    if is_divided(path):
        old, new = old or {}, new or {}
    if isinstance(old, dict) and isinstance(new, dict):
        for name in sorted({*old, *new}):
            yield from _field(f"{path}.{name}", old.get(name), new.get(name))
    elif old != new:
        kind = class_of_change(path, comes_or_goes=old is None or new is None)
        yield FieldChange(path, kind, _words(path, old, new))


def _words(path: str, old: Any, new: Any) -> str:
    if old is None:
        return f"{path}: {shorten(str(new))} is new"
    if new is None:
        return f"{path}: {shorten(str(old))} goes"
    if path.startswith("code.files."):
        return f"{path}: the text changes"
    before, after = _apart(str(old), str(new))
    return f"{path}: {before} becomes {after}" if before != after else f"{path}: spaces or line ends change"


def _apart(old: str, new: str) -> tuple[str, str]:
    """Both on one line, from where they differ on if they are long: cut at the same place they might look alike.

    >>> one, other = _apart("x" * 200 + " = 1", "x" * 200 + " = 2")
    >>> one, other == one.replace("1", "2")
    ('…xxxxxxxxxxxxxxxxx = 1', True)
    """
    lines = [" ".join(text.split()) for text in (old, new)]
    if all(shorten(line) == line for line in lines):
        return lines[0], lines[1]
    alike = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(*lines, strict=False)))
    begin = max(0, alike - _CONTEXT)
    one, other = (("…" if begin else "") + line[begin:] for line in lines)
    return shorten(one), shorten(other)


def _details(old: Any, new: Any, path: str = "") -> Iterator[str]:
    """The differences between two forms of a node."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name in (*old, *(name for name in new if name not in old)):
            yield from _details(old.get(name), new.get(name), f"{path}.{name}" if path else name)
    elif old != new:
        yield _words(path, old, new)


def _nodes(old: Any, new: Any, migrated: set[str]) -> Iterator[FieldChange]:
    was, will = {node["name"]: node for node in old}, {node["name"]: node for node in new}
    if was == will and old != new:
        yield FieldChange("topology", RESTART_QUERY, "the order of the nodes changes")
    for name in (*was, *(name for name in will if name not in was)):
        if was.get(name) != will.get(name):
            how = "goes" if name not in will else "is new" if name not in was else "changes"
            kind = NEEDS_STATE_MIGRATION if name in migrated else RESTART_QUERY
            details = tuple(_details(was[name], will[name])) if how == "changes" else ()
            yield FieldChange(f"topology[{name}]", kind, f"node '{name}' {how}", details)


def _migrated(before: Manifest, after: Manifest, state: tuple[StateChange, ...]) -> set[str]:
    """The nodes behind state that is refused: one of them has changed."""
    found: set[str] = set()
    refused = [change for change in state if change.outcome == REFUSED]
    if any(change.node is None for change in refused):  # a position; the sources have changed
        return {node.name for manifest in (before, after) for node in manifest.spec.topology if node.stream}
    for topology in (before.topology, after.topology) if refused else ():
        names = {node.name for node in topology.nodes}
        for change in refused:
            assert change.node is not None
            if change.node in names:
                found |= {change.node, *(node.name for node in topology.ancestors(change.node))}
    return found


def _full_spec(manifest: Manifest) -> Mapping[str, Any]:
    """The spec with all defaults, so that a default that is written out is no change."""
    found: Mapping[str, Any] = manifest.model_dump(by_alias=True, exclude_none=True, mode="json")["spec"]
    return {**found, "applicationId": manifest.application_id}


def _by_name(objects: tuple[Object, ...]) -> dict[tuple[str, str], Object]:
    return {(item["kind"], item["metadata"]["name"]): item for item in objects}


def _mark(item: Object) -> str:
    return str(item["metadata"]["annotations"][FINGERPRINT_ANNOTATION])


def _start(objects: Mapping[tuple[str, str], Object]) -> tuple[str, str]:
    """The kind of the object that starts the driver, and the part of it that must not change while the driver runs."""
    (kind, name), item = next((key, item) for key, item in objects.items() if key[0] in STARTERS)
    if kind == "StatefulSet":
        return kind, str(item["spec"]["template"]["metadata"]["annotations"][TEMPLATE_ANNOTATION])
    return kind, name  # a run that a schedule has begun goes on as it is; another one is another Job
