# SPDX-License-Identifier: Apache-2.0
"""Tools that read the status of any kind are not misled: Argo CD's script, run by Lua, and kstatus' rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import lupa
import pytest

from lib.simulated import Simulation, live, works

SPEC: dict[str, Any] = {
    "kafka": {"bootstrapServers": "k:9092"},
    "topology": [
        {"name": "lines", "stream": {"topic": "t", "value": "text"}},
        {"name": "out", "to": {"topic": "o", "value": "text"}},
    ],
}
Health = Callable[[Mapping[str, Any]], tuple[str, str]]


def behaviour(spec: Mapping[str, Any], seconds: float) -> Mapping[str, Any]:
    if spec.get("image") == "stuck":
        return {"live": live(lag=1000 + int(seconds), epochs=0)}
    if spec.get("image") == "failing":
        return {"live": live("Failed", error="a topic is gone")}
    return works(spec, seconds)


@pytest.fixture(scope="module")
def argo(root: Path) -> Health:
    """Argo CD's health of a resource."""
    script = (root / "charts" / "streamapp-operator" / "files" / "argocd-health.lua").read_text()
    lua = lupa.LuaRuntime(unpack_returned_tuples=True)
    run = lua.eval(f"function(obj) {script}\nend")

    def health(body: Mapping[str, Any]) -> tuple[str, str]:
        found = run(lua.table_from(body, recursive=True))
        return found["status"], found["message"]

    return health


def kstatus(body: Mapping[str, Any]) -> str:
    """The status by kstatus' rules for a kind that it does not know."""
    metadata, status = body["metadata"], body.get("status") or {}
    if "deletionTimestamp" in metadata:
        return "Terminating"
    if status.get("observedGeneration") not in (None, metadata["generation"]):
        return "InProgress"
    conditions = {c["type"]: c["status"] for c in status.get("conditions", ())}
    assert not {"Reconciling", "Stalled"} <= set(conditions), "it takes the first of them"
    if "Reconciling" in conditions:
        return "InProgress"
    if "Stalled" in conditions:
        return "Failed"
    return "Current" if conditions.get("Ready", "True") == "True" else "InProgress"


def test_from_the_first_apply_to_a_version_that_was_taken_back(argo: Health) -> None:
    app = Simulation(behaviour)

    def said() -> tuple[str, str]:
        return argo(app.body)[0], kstatus(app.body)

    app.apply(0, **SPEC)
    assert said() == ("Progressing", "InProgress")
    app.run(60)
    assert said() == ("Healthy", "Current")
    app.apply(20, **SPEC, image="stuck")
    assert said() == ("Progressing", "InProgress")
    assert "generation 1 comes back" in argo(app.body)[1]
    app.run(400)
    assert said() == ("Degraded", "Failed")
    assert "generation 2 was taken back: within 300 s sub-topology" in argo(app.body)[1]
    app.apply(60, **SPEC, epochInterval="2s")
    assert said() == ("Healthy", "Current")
    app.body["metadata"]["generation"] += 1
    assert said() == ("Progressing", "InProgress"), "the operator has not seen it yet"


@pytest.mark.parametrize(
    ("spec", "health", "words"),
    [
        ({"suspend": True}, "Suspended", "spec.suspend is true"),
        ({"image": "failing"}, "Degraded", "a topic is gone"),
        ({"epochInterval": "never"}, "Degraded", "The running version goes on"),
    ],
)
def test_what_argo_says_after_a_change(argo: Health, spec: dict[str, Any], health: str, words: str) -> None:
    app = Simulation(behaviour)
    app.apply(60, **SPEC)
    app.apply(60, **SPEC, **spec)
    assert argo(app.body)[0] == health
    assert words in argo(app.body)[1]


def test_what_is_paused_deleted_or_new(argo: Health) -> None:
    app = Simulation(behaviour)
    app.apply(60, **SPEC)
    app.body["metadata"]["annotations"]["streamapp.dev/pause-reconciliation"] = "true"
    app.run(5)
    assert argo(app.body) == ("Suspended", "the annotation streamapp.dev/pause-reconciliation is true")
    app.body["metadata"]["deletionTimestamp"] = "2024-01-01T00:00:00Z"
    assert argo(app.body) == ("Progressing", "the app is deleted")
    assert argo({"metadata": {"generation": 1}})[0] == "Progressing"


@pytest.mark.parametrize("phase", ["Completed", "Scheduled"])
def test_a_run_that_is_over_is_healthy(argo: Health, phase: str) -> None:
    ready = {"type": "Ready", "status": "False", "message": "caught up"}
    status = {"observedGeneration": 1, "phase": phase, "conditions": [ready]}
    assert argo({"metadata": {"generation": 1}, "status": status}) == ("Healthy", "caught up")
