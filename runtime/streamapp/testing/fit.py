# SPDX-License-Identifier: Apache-2.0
"""Whether cases fit the apps that they name; nothing runs here."""

from __future__ import annotations

from pathlib import Path

from streamapp.compile import compile_manifest
from streamapp.errors import near_miss
from streamapp.kafka.topics import topics_of
from streamapp.local import load_manifest, require_modules
from streamapp.manifest import Manifest
from streamapp.nodes import Node
from streamapp.operations import Stream
from streamapp.plan import Plan
from streamapp.testing.cases import CaseFile, Step


def manifest_of(file: Path) -> Manifest:
    """The manifest of an app, whose modules are checked to be here.

    Raises:
        InputError, ManifestError: when it cannot be read or is wrong.
    """
    manifest = load_manifest(file)
    require_modules(manifest, file)
    return manifest


def misfits(file: CaseFile) -> list[str]:
    """A line for each step that a case's app cannot do, for example because it lacks a topic or a store.

    Raises:
        InputError, ManifestError: when a manifest cannot be read or is wrong.
    """
    problems = []
    plans = {app: compile_manifest(manifest_of(app)) for app in file.apps()}
    for i, case in enumerate(file.cases):
        plan = plans[file.app_of(case)]
        for j, step in enumerate(case.steps):
            if step.upgrade is not None:
                plan = plans[file.path.parent / step.upgrade]
            wrong = _misfit(step, plan)
            if wrong is not None:
                problems.append(f"{file.path}: case '{case.name}': {wrong} (line {file.lines[i, j]})")
    return problems


def _misfit(step: Step, plan: Plan) -> str | None:
    written = (*plan.sink_topics, *(spec.name for spec in topics_of(plan) if not spec.internal))
    if step.send is not None and not any(part.reads(step.send.topic) for part in plan.subtopologies):
        fix = near_miss(step.send.topic, plan.source_topics) or f"it reads {', '.join(plan.source_topics)}"
        return f"`send`: the app does not read topic '{step.send.topic}'; {fix}"
    if step.expect is not None and step.expect.topic not in written:
        fix = near_miss(step.expect.topic, written) or f"it has {', '.join(sorted(set(written)))}"
        return f"`expect`: the app has no topic '{step.expect.topic}'; {fix}"
    stores = [store.name for store in plan.stores]
    if step.store is not None and step.store.name not in stores:
        fix = near_miss(step.store.name, stores) or (f"there are: {', '.join(stores)}" if stores else "it has none")
        return f"`store`: the app has no store '{step.store.name}'; {fix}"
    by_clock = next((node.name for part in plan.subtopologies for node in part.nodes if _by_clock(node)), None)
    if step.advance is not None and by_clock is not None:
        return (
            f"`advance`: node '{by_clock}' has `timestamp: processing`, and a case cannot move the clock; "
            "test with the time of the records"
        )
    return None


def _by_clock(node: Node) -> bool:
    return isinstance(node, Stream) and node.timestamp == "processing"
