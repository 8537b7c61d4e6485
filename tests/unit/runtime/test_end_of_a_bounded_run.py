# SPDX-License-Identifier: Apache-2.0
"""The last line of a bounded run names the results that have not been written yet, and why they wait."""

from __future__ import annotations

from typing import Any

import pytest

from streamapp.compile import compile_manifest
from streamapp.here.ending import ending
from streamapp.manifest import parse_manifest
from streamapp.plan import Plan

HEAD = """
apiVersion: streamapp.dev/v1alpha1
kind: StreamApp
metadata: {name: app}
spec:
  topology:
  - {name: a, stream: {topic: a, key: text, value: text}}
"""
WINDOWS = '- {name: counts, groupBy: [key], window: {tumbling: 1 hour}, aggregate: {count: "count(*)"}, emit: EMIT}'
PAIRS = """  - {name: b, stream: {topic: b, key: text, value: text}}
  - {name: pairs, from: a, join: {with: b, type: TYPE, within: 1s, select: {l: left.value, r: right.value}}}
"""
DONE = "app has caught up: 1,200 records read, 30 written, 2 late, 1 bad"


def _plan(nodes: str) -> Plan:
    return compile_manifest(parse_manifest(f"{HEAD}{nodes}"))


def _status(**rows: int) -> dict[str, Any]:
    part = {"lateRecords": 2, "badRecords": {"a": 1}, "lostRecords": 0}
    stores = {name: {"rowsEstimate": count} for name, count in rows.items()}
    return {"recordsRead": 1200, "recordsWritten": 30, "subTopologies": {"a": part}, "stores": stores}


@pytest.mark.parametrize(
    ("nodes", "rows", "waiting"),
    [
        (
            WINDOWS.replace("EMIT", "final"),
            7000,
            "; about 7,000 entries in counts wait for windows that are still open",
        ),
        (WINDOWS.replace("EMIT", "final"), 0, ""),
        (WINDOWS.replace("EMIT", "updates"), 7000, ""),
        (PAIRS.replace("TYPE", "left"), 40, "; about 40 entries in pairs wait for a partner that may still come"),
        (PAIRS.replace("TYPE", "outer"), 40, "; about 40 entries in pairs wait for a partner that may still come"),
        (PAIRS.replace("TYPE", "inner"), 40, ""),
    ],
)
def test_what_waits_is_named(nodes: str, rows: int, waiting: str) -> None:
    nodes = nodes if nodes.startswith(" ") else f"  {nodes}\n"
    plan = _plan(nodes)
    (store,) = (store.name for store in plan.stores)
    assert ending(plan, _status(**{store: rows})) == DONE + waiting


def test_each_kind_of_waiting_is_said_once() -> None:
    windows = WINDOWS.replace("EMIT", "final")
    plan = _plan(f"  {windows}\n  {windows.replace('counts', 'more, from: a')}\n{PAIRS.replace('TYPE', 'left')}")
    assert ending(plan, _status(counts=3, more=4, pairs=5)) == (
        f"{DONE}; about 7 entries in counts, more wait for windows that are still open; "
        "about 5 entries in pairs wait for a partner that may still come"
    )
