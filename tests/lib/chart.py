# SPDX-License-Identifier: Apache-2.0
"""Helpers for the tests of the chart."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

Object = dict[str, Any]
Helm = Callable[..., subprocess.CompletedProcess[str]]
"""A function that runs Helm with these arguments, without a cluster; returns its output and its exit code."""
Render = Callable[..., list[Object]]
"""A function that returns the objects of the chart with these options: release `ops`, in `namespace`, which is
`streams`."""

CHART = Path(__file__).parents[2] / "charts" / "streamapp-operator"
VALUES = sorted((Path(__file__).parents[1] / "chart" / "values").glob("*.yaml"))
"""Files of values that the chart is tested with."""
RULES = CHART / "files" / "rules.yaml"
DASHBOARDS = sorted((CHART / "files" / "dashboards").glob("*.json"))


def alerts() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def queries() -> Iterator[tuple[str, str]]:
    """Each query with its place."""
    for alert in alerts():
        yield alert["alert"], alert["expr"]
    for file in DASHBOARDS:
        for panel in json.loads(file.read_text())["panels"]:
            for target in panel.get("targets", ()):
                yield f"{file.stem}: {panel['title']}", target["expr"]


def variables() -> Iterator[tuple[str, str]]:
    """Each variable of the dashboards, and the query for its values, as Prometheus has it."""
    for file in DASHBOARDS:
        for variable in json.loads(file.read_text())["templating"]["list"]:
            if variable["type"] == "query":
                asked = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["query"]["query"])
                assert asked is not None, variable
                yield f"{file.stem}: ${variable['name']}", f"group by ({asked[2]}) ({asked[1]})"
