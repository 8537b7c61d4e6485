# SPDX-License-Identifier: Apache-2.0
"""docs/kubernetes/conditions.md has every condition, reason, phase and event, and none that there is not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from streamapp_operator.status.conditions import REASONS
from streamapp_operator.status.events import REASONS as EVENTS
from streamapp_operator.status.facts import PHASES


@pytest.fixture(scope="module")
def sections(root: Path) -> dict[str, set[str]]:
    """The words in the first column of each section's table."""
    text = (root / "docs" / "kubernetes" / "conditions.md").read_text()
    found = {}
    for part in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        title, body = part.split("\n", 1)
        cells = re.findall(r"^\| (`[^|]*) \|", body, re.MULTILINE)
        found[title] = {word for cell in cells for word in re.findall(r"`(\w+)`", cell)}
    return found


@pytest.mark.parametrize("condition", REASONS)
def test_every_reason_of_a_condition(condition: str, sections: dict[str, set[str]]) -> None:
    assert sections[condition] == set(REASONS[condition])


def test_every_condition_phase_and_event(sections: dict[str, set[str]]) -> None:
    assert set(sections) - set(REASONS) == {"Phase", "Events"}
    assert sections["Phase"] == set(PHASES)
    assert sections["Events"] == set(EVENTS) - set(PHASES)


AS_ASKED_FOR = {"Suspended", "Scheduled", "Completed", "Stopped", "DriverStopping", "Deleting"}
"""Reasons for not being Ready that need no attention."""


def troubles(root: Path) -> set[str]:
    """The reasons of conditions that report trouble, by their status in the manual's tables."""
    text = (root / "docs" / "kubernetes" / "conditions.md").read_text()
    bad = {"Ready": "False Unknown", "Degraded": "True", "TopologyValid": "False", "ScalingActive": "Unknown"}
    found = set()
    for part in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        title, body = part.split("\n", 1)
        for reason, status in re.findall(r"^\| `(\w+)` \| (\w+) \|", body, re.MULTILINE):
            if status in bad.get(title, "").split():
                found.add(reason)
    return found - AS_ASKED_FOR


def test_every_trouble_is_in_the_page_about_symptoms(root: Path) -> None:
    wanted = troubles(root)
    assert {"DriverFailed", "KafkaTrouble", "NeedsStateMigration", "MetricsMissing"} <= wanted
    text = (root / "docs" / "kubernetes" / "troubleshooting.md").read_text()
    told = {*re.findall(r"`(\w+)`", text), *re.findall(r"^### (\w+)$", text, re.MULTILINE)}
    assert wanted - told == set()


def test_every_link_leads_somewhere(root: Path) -> None:
    """Each link on the pages about clusters leads to a file that exists, and to a heading that it has."""
    pages = [*(root / "docs" / "kubernetes").glob("*.md"), root / "docs" / "security.md"]
    assert len(pages) > 3
    broken = []
    for page in pages:
        for target in re.findall(r"\]\(([^)]+)\)", page.read_text()):
            name, _, anchor = target.partition("#")
            file = (page.parent / name).resolve() if name else page
            if not file.exists() or (anchor and anchor not in anchors(file.read_text())):
                broken.append(f"{page.name}: {target}")
    assert broken == []


def anchors(text: str) -> set[str]:
    """The anchors that code hosts make of headings."""
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
