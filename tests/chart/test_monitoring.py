# SPDX-License-Identifier: Apache-2.0
"""Rules and dashboards ask for metrics that exist, with labels that they have."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from lib.chart import DASHBOARDS, alerts, queries
from streamapp.spark.metrics import COUNTER
from streamapp.spark.metrics import TABLE as OF_APPS
from streamapp_operator.metrics import TABLE as OF_OPERATOR

SUFFIXES = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_count", "_sum")}


def metrics() -> dict[str, tuple[str, ...]]:
    """Every series that there is, with its labels."""
    found = {}
    for name, (kind, labels, _) in OF_APPS.items():
        found[f"{name}_total" if kind is COUNTER else name] = ("namespace", "name", *labels)
    for name, (how, labels, _) in OF_OPERATOR.items():
        for suffix in SUFFIXES[how]:
            found[name + suffix] = (*labels, "le") if suffix == "_bucket" else labels
    return found


@pytest.mark.parametrize(("place", "query"), list(queries()))
def test_a_query_asks_for_what_there_is(place: str, query: str) -> None:
    known = metrics()
    asked = re.findall(r"\bstreamapp_[a-z_]+", query)
    assert asked
    assert [name for name in asked if name not in known] == []
    labels = {label for name in asked for label in known[name]}
    used = set(re.findall(r"(\w+)(?:=~|!~|!=|=)\"", query))
    for by in re.findall(r"\bby \(([^)]*)\)", query):
        used |= {label.strip() for label in by.split(",")}
    assert used <= labels


def test_every_metric_of_an_app_and_of_the_operator_is_looked_at_by_somebody() -> None:
    text = " ".join(query for _, query in queries())
    left_out = {
        "streamapp_restore_done",
        "streamapp_restore_total",  # `_remaining_seconds` is made from their quotient
        "streamapp_operator_reconcile_duration_seconds_sum",
    }
    assert {name for name in metrics() if not re.search(rf"\b{name}\b", text)} == left_out


@pytest.mark.parametrize("alert", alerts(), ids=lambda alert: alert["alert"])
def test_an_alert_says_what_it_is_and_stands_in_the_manual(alert: dict[str, Any], root: Path) -> None:
    assert alert["labels"]["severity"] in ("critical", "warning")
    assert set(alert["annotations"]) == {"summary", "description"}
    named = set(re.findall(r"\$labels\.(\w+)", " ".join(alert["annotations"].values())))
    assert named <= set(re.findall(r"\w+", " ".join(re.findall(r"by \(([^)]*)\)", alert["expr"])))) or (
        " by " not in alert["expr"]
    )
    manual = (root / "docs" / "kubernetes" / "troubleshooting.md").read_text()
    assert f"### {alert['alert']}\n" in manual


def test_dashboards_are_whole() -> None:
    assert DASHBOARDS
    for file in DASHBOARDS:
        panels = json.loads(file.read_text())["panels"]
        ids = [panel["id"] for panel in panels]
        assert len(set(ids)) == len(ids)
        assert all(panel["description"] for panel in panels if panel["type"] != "row")
        assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in panels)


def test_every_metric_of_the_operator_stands_in_the_manual(root: Path) -> None:
    manual = (root / "docs" / "kubernetes" / "install.md").read_text()
    documented = set(re.findall(r"^\| `(streamapp_[a-z_]+)`", manual, re.MULTILINE))
    assert documented == set(OF_OPERATOR)
