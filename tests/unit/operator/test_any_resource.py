# SPDX-License-Identifier: Apache-2.0
"""R17, the pure part: whatever a resource says, the operator has a decision and a message for it."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from lib.manifests import broken
from lib.operator import WORD_COUNT
from streamapp_operator.decide.decision import Decision, decide
from streamapp_operator.driver.pods import ABSENT
from streamapp_operator.observe.observation import Observation
from streamapp_operator.render import Credentials
from streamapp_operator.settings import Settings
from streamapp_operator.status.conditions import REASONS
from streamapp_operator.status.events import events_between
from streamapp_operator.status.status import Status, status_of

NOW = datetime(2024, 1, 31, tzinfo=UTC)
KNOWN = {(kind, reason) for kind, reasons in REASONS.items() for reason in reasons}
EXAMPLES = sorted((Path(__file__).parents[3] / "examples").glob("*.yaml"))


def goods() -> list[dict[str, Any]]:
    found = [yaml.safe_load(WORD_COUNT), *(yaml.safe_load(file.read_text()) for file in EXAMPLES)]
    for body in found:
        body["spec"].setdefault("kafka", {"bootstrapServers": "kafka:9092"})
        body["metadata"] |= {"namespace": "n", "uid": "u", "generation": 2}
    return found


def decided(body: dict[str, Any]) -> tuple[Decision, Status]:
    decision = decide(Observation(body), Settings(), Credentials("token", "secret"), NOW)
    return decision, status_of(decision.facts, body["metadata"]["name"], decision.target, {}, NOW)


@pytest.mark.parametrize("thousand", range(10))
def test_it_is_run_or_it_is_told(thousand: int) -> None:
    good = goods()
    for seed in range(1000 * thousand, 1000 * (thousand + 1)):
        chooser = random.Random(seed)
        try:
            _run_or_told(broken(chooser.choice(good), chooser))
        except Exception as error:
            raise AssertionError(f"seed {seed}") from error


def _run_or_told(body: dict[str, Any]) -> None:
    decision, status = decided(body)
    list(events_between({}, status))
    assert {(each["type"], each["reason"]) for each in status["conditions"]} <= KNOWN
    valid = next(each for each in status["conditions"] if each["type"] == "TopologyValid")
    if decision.facts.app is None:
        assert decision.facts.driver.state == ABSENT
        assert decision.actions == ()
        assert valid["status"] == "False"
        assert all(line.strip() for line in valid["message"].splitlines())
        assert valid["message"]
        assert status["phase"] == "Invalid"
    else:
        assert valid["status"] == "True"
        assert decision.actions


def test_most_of_them_are_bad_but_not_all() -> None:
    """Otherwise the other test would show nothing."""
    choosers = [random.Random(seed) for seed in range(100)]
    bad = sum(decided(broken(goods()[0], chooser))[0].facts.app is None for chooser in choosers)
    assert 50 < bad < 100
