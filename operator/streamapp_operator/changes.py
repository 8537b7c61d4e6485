# SPDX-License-Identifier: Apache-2.0
"""What a changed manifest would do to an app: pure, of the two versions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from streamapp.errors import shorten
from streamapp.plan import Plan
from streamapp_operator.app import App
from streamapp_operator.render import STARTERS, Credentials, render
from streamapp_operator.render.meta import FINGERPRINT_ANNOTATION, TEMPLATE_ANNOTATION, Object
from streamapp_operator.settings import Settings

_ANY = Credentials("any", "any")


@dataclass(frozen=True)
class Changes:
    """From one version of an app to another."""

    fields: tuple[str, ...]
    """Of the spec, with what they were and what they become."""
    stores: tuple[str, ...]
    """What becomes of state."""
    objects: tuple[str, ...]
    """That become others."""
    restarts: bool
    """Whether the driver is started anew."""


def changes_between(
    before: App, after: App, old: Mapping[str, Any], new: Mapping[str, Any], settings: Settings
) -> Changes:
    """
    Args:
        before, after: the two versions.
        old, new: their specs as the API server has them.
        settings: of the operator; what they say does not matter, as both versions are rendered with them.
    """
    was, will = _by_name(render(before, settings, _ANY)), _by_name(render(after, settings, _ANY))
    differ = [key for key in will if key not in was or _mark(was[key]) != _mark(will[key])]
    runs = not (before.manifest.spec.suspend or after.manifest.spec.suspend)
    return Changes(
        fields=tuple(_fields(old, new)),
        stores=tuple(_stores(before.plan, after.plan)),
        objects=tuple(f"{kind} {name}" for kind, name in differ),
        restarts=runs and _start(was) != _start(will),
    )


def _fields(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    for name in sorted({*old, *new}):
        if old.get(name) == new.get(name):
            continue
        if name == "topology":
            yield from _nodes(old.get(name, ()), new.get(name, ()))
        elif name not in old:
            yield f"{name}: {shorten(str(new[name]))} is new"
        elif name not in new:
            yield f"{name}: {shorten(str(old[name]))} goes"
        else:
            yield f"{name}: {shorten(str(old[name]))} becomes {shorten(str(new[name]))}"


def _nodes(old: Any, new: Any) -> Iterator[str]:
    was, will = {node["name"]: node for node in old}, {node["name"]: node for node in new}
    for name in (*was, *(name for name in will if name not in was)):
        if was.get(name) != will.get(name):
            yield f"node '{name}' {'goes' if name not in will else 'is new' if name not in was else 'changes'}"


def _stores(before: Plan, after: Plan) -> Iterator[str]:
    was, will = {store.name: store for store in before.stores}, {store.name: store for store in after.stores}
    for name, store in was.items():
        if name not in will:
            yield f"store '{name}' is not used any more; its changelog {store.changelog_topic} stays"
        elif will[name].partitions != store.partitions:
            yield (
                f"store '{name}' has {store.partitions} partitions, spec.maxParallelism becomes "
                f"{will[name].partitions}: refused at start; it is fixed for the store's life"
            )
        elif will[name].fingerprint != store.fingerprint:
            yield (
                f"store '{name}' holds state of another meaning: refused at restore; give the node another `store`, "
                "which begins empty, or undo the change"
            )
    yield from (f"store '{name}' is new and begins empty" for name in will if name not in was)


def _by_name(objects: tuple[Object, ...]) -> dict[tuple[str, str], Object]:
    return {(item["kind"], item["metadata"]["name"]): item for item in objects}


def _mark(item: Object) -> str:
    return str(item["metadata"]["annotations"][FINGERPRINT_ANNOTATION])


def _start(objects: Mapping[tuple[str, str], Object]) -> tuple[str, str]:
    """What starts the driver, and what of it must not change while that runs."""
    (kind, name), item = next((key, item) for key, item in objects.items() if key[0] in STARTERS)
    if kind == "StatefulSet":
        return kind, str(item["spec"]["template"]["metadata"]["annotations"][TEMPLATE_ANNOTATION])
    return kind, name  # a run that a schedule has begun goes on as it is; another one is another Job
