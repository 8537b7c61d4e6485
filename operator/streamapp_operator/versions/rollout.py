# SPDX-License-Identifier: Apache-2.0
"""Finds the version of an app that is to run: the one that the resource asks for, unless something speaks against it.
Pure, from the resource and the versions that are kept beside it; nothing is remembered elsewhere."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from streamapp.errors import ManifestError
from streamapp_operator.manifest.app import App, read_app
from streamapp_operator.manifest.change_classes import LIVE, class_of
from streamapp_operator.manifest.versions import (
    RUNTIME_IMAGE,
    Spec,
    Verdict,
    Version,
    as_resource,
    read_version,
    version_name,
    without_image,
)
from streamapp_operator.names import base_name, config_name
from streamapp_operator.render.config import LIVE_ANNOTATION, VERSION_ANNOTATION
from streamapp_operator.render.meta import Object
from streamapp_operator.render.revision import control_revision
from streamapp_operator.settings import Settings
from streamapp_operator.versions.changes import Changes, changes_between
from streamapp_operator.versions.state_changes import would_miss

INVALID, ROLLED_BACK, PAUSED = "Invalid", "RolledBack", "Paused"
_WHEN_PAUSED = "reconciliation is paused: it is done when the annotation streamapp.dev/pause-reconciliation is gone"
Children = Mapping[tuple[str, str], Object]


@dataclass(frozen=True)
class Rollout:
    """The version that is to run, and the fate of the one that is asked for."""

    app: App | None
    """The app to run, with the live fields of now; None: there is nothing that could run."""
    held: str = ""
    """Why that is not the version that is asked for: INVALID, ROLLED_BACK, PAUSED, or a class of changes that are not
    made."""
    why: str = ""
    """The same in words."""
    problems: tuple[str, ...] = ()
    """The problems of the manifest."""
    changes: Changes | None = None
    """The changes from the version that was acted upon last to the one that is asked for; None when that is the same,
    or the first."""
    kept: Mapping[str, Version] = field(default_factory=dict)
    """Versions that are in the cluster, by name."""
    rejected: Version | None = None
    """The version that is asked for, where it was taken back."""
    no_way_back: str = ""
    """Why the version that proved itself last could not follow on this one; empty when it could."""

    @property
    def healthy(self) -> Version | None:
        """The version that proved itself last."""
        return _newest_healthy(self.kept)

    @property
    def on_trial(self) -> bool:
        """Whether what is to run still has to prove itself."""
        if self.app is None or self.app.plan.run != "continuous" or self.app.manifest.spec.suspend:
            return False
        found = self.kept.get(self.app.version_name)
        return found is None or not found.is_healthy

    @property
    def can_go_back(self) -> bool:
        """Whether there is another version that has proved itself, and can follow on this one."""
        other = self.app is not None and self.healthy is not None and self.healthy.name != self.app.version_name
        return other and not self.no_way_back


def rollout_of(body: Mapping[str, Any], children: Children, settings: Settings, paused: bool = False) -> Rollout:
    """
    Args:
        body: the resource.
        children: the objects of the app that there are.
        settings: of the operator.
        paused: whether nothing may be done: the version that was acted upon last runs on, with the live fields that it
        had.
    """
    kept = _kept(children)
    name, live = _acted_upon(body, children)
    try:
        wanted = read_app(body, settings.image)
        kept |= _of_before(kept, wanted)
    except ManifestError as error:
        return without(body, children, error)
    healthy = _newest_healthy(kept)
    current = kept.get(name) or healthy
    try:
        changes = None
        if current is not None and (current.name, live) != (wanted.version_name, wanted.live_spec):
            before = _read(body, current.spec, live)
            changes = changes_between(before, wanted, settings) if before is not None else None
    except ManifestError as error:
        return without(body, children, error)
    mine = kept.get(wanted.version_name)
    if mine is not None and mine.is_rejected(wanted.verdict_attempt) and healthy is not None:
        app = _going_on(body, healthy, live)
        return Rollout(app, ROLLED_BACK, _taken_back(mine, healthy, wanted.name), (), changes, kept, mine)
    if changes is not None and changes.refused:
        return Rollout(_going_on(body, current, live), changes.kind, changes.refused, (), changes, kept)
    if paused and current is not None and changes is not None:
        return Rollout(_read(body, current.spec, live), PAUSED, _WHEN_PAUSED, (), changes, kept)
    return Rollout(wanted, changes=changes, kept=kept, no_way_back=_no_way_back(body, wanted, healthy, live))


def acted_upon(body: Mapping[str, Any], children: Children) -> Mapping[str, Any]:
    """The resource as it was acted upon last, with the live fields of now: that is what runs, whatever is asked for
    meanwhile. The resource itself, while nothing was."""
    name, _ = _acted_upon(body, children)
    version = _kept(children).get(name)
    if version is None:
        return body
    return as_resource(body, version.spec, _live(body))


def version_acted_upon(body: Mapping[str, Any], children: Children) -> str:
    """The name of the version that was acted upon last; empty when there is none."""
    return _acted_upon(body, children)[0]


def without(body: Mapping[str, Any], children: Children, error: ManifestError) -> Rollout:
    """The rollout where the resource asks for something that cannot be run: the version before runs on."""
    kept = _kept(children)
    name, live = _acted_upon(body, children)
    app = _going_on(body, kept.get(name) or _newest_healthy(kept), live)
    return Rollout(app, INVALID, "", tuple(str(problem) for problem in error.problems), kept=kept)


def control_revisions(rollout: Rollout, generation: int, verdict: Verdict | None) -> tuple[Object, ...]:
    """The versions that are to be kept: the one that runs, the one to go back to, and the one that was taken back.

    Args:
        rollout: what is to run.
        generation: of the resource.
        verdict: on the version that runs, if there is one now.
    """
    app, healthy = rollout.app, rollout.healthy
    if app is None:
        return ()
    runs = rollout.kept.get(app.version_name) or Version(app.version_name, generation, app.version_spec)
    if verdict is not None or not runs.is_healthy:  # one that was rejected, and runs, is tried again
        runs = replace(runs, verdict=verdict)
    keep = {runs.name: runs}
    for other in (rollout.rejected, healthy if not runs.is_healthy else None):
        if other is not None:
            keep.setdefault(other.name, other)
    return tuple(control_revision(app, version) for version in sorted(keep.values(), key=lambda each: each.number))


def _newest_healthy(kept: Mapping[str, Version]) -> Version | None:
    return max((version for version in kept.values() if version.is_healthy), key=lambda each: each.number, default=None)


def _kept(children: Children) -> dict[str, Version]:
    found = [read_version(item) for (kind, _), item in children.items() if kind == "ControllerRevision"]
    return {version.name: version for version in found if version is not None}


def _of_before(kept: Mapping[str, Version], wanted: App) -> dict[str, Version]:
    """The version that is asked for, if an operator that did not note images has found it healthy."""
    before = kept.get(version_name(wanted.base, without_image(wanted.version_spec)))
    if before is None or not before.is_healthy or wanted.version_name in kept:
        return {}
    return {wanted.version_name: replace(before, name=wanted.version_name, spec=wanted.version_spec)}


def _acted_upon(body: Mapping[str, Any], children: Children) -> tuple[str, Spec]:
    """The name of the version that was acted upon last, and its live fields; empty when there is none."""
    config = children.get(("ConfigMap", config_name(base_name(body["metadata"]["name"]))), {"metadata": {}})
    notes = config["metadata"].get("annotations", {})
    try:
        live = json.loads(notes.get(LIVE_ANNOTATION, "{}"))
    except ValueError:
        live = {}
    return notes.get(VERSION_ANNOTATION, ""), live if isinstance(live, dict) else {}


def _going_on(body: Mapping[str, Any], version: Version | None, live: Spec) -> App | None:
    """The app of a version with the live fields of now; where those are wrong, with the ones it had."""
    if version is None:
        return None
    return _read(body, version.spec, _live(body)) or _read(body, version.spec, live)


def _live(body: Mapping[str, Any]) -> Spec:
    """The live fields of now."""
    return {name: value for name, value in body["spec"].items() if class_of(name) == LIVE}


def _read(body: Mapping[str, Any], spec: Spec, live: Spec) -> App | None:
    """The app of a version that is kept; None when an earlier operator has kept it and this one cannot read it."""
    try:
        return read_app(as_resource(body, spec, live), str(spec.get(RUNTIME_IMAGE, "")))
    except ManifestError:
        return None


def _no_way_back(body: Mapping[str, Any], wanted: App, healthy: Version | None, live: Spec) -> str:
    if healthy is None or healthy.name == wanted.version_name:
        return ""
    before = _read(body, healthy.spec, live)
    return would_miss(wanted.plan, before.plan) if before is not None else ""


def _taken_back(rejected: Version, healthy: Version, name: str) -> str:
    assert rejected.verdict is not None
    images = [version.spec.get(RUNTIME_IMAGE, "") for version in (rejected, healthy)]
    if images[0] != images[1] and without_image(rejected.spec) == without_image(healthy.spec):
        return (
            f"the operator's new image {images[0]} was taken back: {rejected.verdict.reason}. {images[1]} runs. "
            f"Give the operator's release another image; to try the same once more, type: kubectl streamapp restart "
            f"{name}"
        )
    if rejected.number == healthy.number:  # the manifest is the same, and the content of its ConfigMap is not
        return (
            f"the new code was taken back: {rejected.verdict.reason}. The code before it runs. Change the ConfigMap; "
            f"to try the same once more, type: kubectl streamapp restart {name}"
        )
    return (
        f"generation {rejected.number} was taken back: {rejected.verdict.reason}. Generation {healthy.number} runs. "
        "Change the manifest, or give it more time by upgrade.progressDeadline; to try the same once more, type: "
        f"kubectl streamapp restart {name}"
    )
