# SPDX-License-Identifier: Apache-2.0
"""The chart's annotations for Artifact Hub, which hold YAML, are well-formed and true."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from lib.chart import CHART, Render
from streamapp.compile import compile_manifest
from streamapp.manifest import parse_manifest
from streamapp_operator.crd import crd

HEAD = "artifacthub.io/"
CATEGORIES = {
    "ai-machine-learning",
    "database",
    "integration-delivery",
    "monitoring-logging",
    "networking",
    "security",
    "storage",
    "streaming-messaging",
    "skip-prediction",
}
CAPABILITIES = ("Basic Install", "Seamless Upgrades", "Full Lifecycle", "Deep Insights", "Auto Pilot")


@pytest.fixture(scope="module")
def chart() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((CHART / "Chart.yaml").read_text())
    return found


@pytest.fixture(scope="module")
def notes(chart: dict[str, Any]) -> dict[str, str]:
    """The annotations, by their names without the common prefix."""
    assert all(name.startswith(HEAD) and isinstance(value, str) for name, value in chart["annotations"].items())
    return {name.removeprefix(HEAD): value for name, value in chart["annotations"].items()}


def test_words_are_those_that_it_knows(notes: dict[str, str], chart: dict[str, Any], root: Path) -> None:
    assert set(notes) == {
        "license",
        "category",
        "operator",
        "operatorCapabilities",
        "prerelease",
        "images",
        "crds",
        "crdsExamples",
    }
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    assert notes["license"] == project["license"]
    assert notes["category"] in CATEGORIES
    assert notes["operator"] == "true"
    assert notes["operatorCapabilities"] in CAPABILITIES
    assert notes["prerelease"] == str(str(chart["version"]).startswith("0.")).lower()


@pytest.mark.cluster  # needs Helm
def test_images_are_those_that_the_chart_brings(notes: dict[str, str], chart: dict[str, Any], render: Render) -> None:
    told = yaml.safe_load(notes["images"])
    assert all(set(each) == {"name", "image"} for each in told)
    (deployment,) = [item for item in render() if item["kind"] == "Deployment"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    (settings,) = [each["value"] for each in container["env"] if each["name"] == "STREAMAPP_SETTINGS"]
    assert {each["name"]: each["image"] for each in told} == {
        "operator": container["image"],
        "runtime": yaml.safe_load(settings)["image"],
    }
    assert {each["image"].rpartition(":")[2] for each in told} == {str(chart["appVersion"])}


def test_the_definition_is_ours(notes: dict[str, str]) -> None:
    (told,) = yaml.safe_load(notes["crds"])
    assert set(told) == {"kind", "version", "name", "displayName", "description"}
    ours = crd()
    (version,) = ours["spec"]["versions"]
    assert (told["kind"], told["version"]) == (ours["spec"]["names"]["kind"], version["name"])
    assert told["name"] == ours["metadata"]["name"]
    assert told["description"]


def test_examples_can_be_run(notes: dict[str, str]) -> None:
    examples = yaml.safe_load(notes["crdsExamples"])
    assert examples
    for example in examples:
        assert compile_manifest(parse_manifest(yaml.safe_dump(example))).subtopologies
