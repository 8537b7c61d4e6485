# SPDX-License-Identifier: Apache-2.0
"""A driver older or newer than the operator may answer anything in any place: the operator goes on."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest

from lib.manifests import JUNK, places
from lib.misfits import misfits
from lib.simulated import Simulation, live
from streamapp_operator.crd.status import status_schema
from streamapp_operator.driver.answer import Answer, SubTopology, read_answer

PART = {"epoch": 3, "epochs": 3, "watermark": "2024-01-01T00:00:00Z", "busySeconds": 1.5}
STORE = {"restoring": 1, "done": 5, "total": 10, "etaSeconds": 2.5}
WHOLE = live(
    lag=7,
    error="Kafka does not answer",
    subTopologies={"counts": {**PART, "epochMs": {"triggerExecution": 90}}},
    restore={"counts": STORE},
    replicas={"wanted": 1, "running": 1, "lost": 1, "lastLoss": "an executor was lost", "template": "t"},
)
ODD: tuple[Any, ...] = (*JUNK, float("nan"), float("inf"), -(2**70), 2**70, [1], "Draining", {"epoch": {}}, "\ud800")


def odd_answer(chooser: random.Random) -> dict[str, Any]:
    """An answer with other values in one or two places, or without them, or with fields that the operator does not
    know."""
    said = copy.deepcopy(WHOLE)
    for _ in range(chooser.choice((1, 1, 2))):
        holder, key = chooser.choice(list(places(said)))
        deed = chooser.randrange(3)
        if deed == 0:
            del holder[key]
        else:
            holder[key if deed == 1 else "unheard"] = copy.deepcopy(chooser.choice(ODD))
    return said


@pytest.mark.parametrize("hundred", range(5))
def test_any_answer_makes_a_status_that_the_definition_takes(hundred: int) -> None:
    for seed in range(100 * hundred, 100 * (hundred + 1)):
        said = odd_answer(random.Random(seed))
        app = Simulation(lambda version, seconds, said=said: {"live": said})  # type: ignore[misc]
        topology = [
            {"name": "lines", "stream": {"topic": "t", "value": "text"}},
            {"name": "out", "from": "lines", "to": {"topic": "out", "value": "text"}},
        ]
        try:
            app.apply(seconds=15, topology=topology, kafka={"bootstrapServers": "kafka:9092"})
        except Exception as error:
            raise AssertionError(f"seed {seed}: {said}") from error
        assert list(misfits(app.status, status_schema(), "status")) == [], f"seed {seed}: {said}"


def test_what_would_act_on_a_terminal_is_written_out() -> None:
    evil = "a\x1b[2J\u202eb"
    whole = {**WHOLE, "error": evil, "lag": {f"{evil}/0": 1}, "restore": {evil: STORE}}
    whole["subTopologies"] = {evil: {**PART, "watermark": evil}}
    whole["replicas"] = {**WHOLE["replicas"], "lastLoss": evil, "template": evil}
    answer = read_answer(whole)
    assert answer is not None
    told = (*(answer.lag or ()), *answer.parts, *answer.restores, answer.error, answer.last_loss, answer.template)
    for text in (*told, *(part.watermark for part in answer.parts.values())):
        assert text.removesuffix("/0") == r"a\x1b[2J\u202eb"


def test_replicas_that_are_no_map_are_not_known() -> None:
    assert read_answer({"phase": "Running", "replicas": 3}) == Answer(phase="Running")


def test_what_is_missing_or_new_is_not_known() -> None:
    said = {"phase": "Draining", "new": {}, "subTopologies": {"a": {"epoch": "3", "epochs": True}, "b": 1}}
    assert read_answer(said) == Answer(parts={"a": SubTopology()})
    assert read_answer([]) is None


def test_a_phase_of_a_newer_version_is_neither_ready_nor_a_failure() -> None:
    app = Simulation(lambda version, seconds: {"live": live("Draining")})
    topology = [
        {"name": "lines", "stream": {"topic": "t", "value": "text"}},
        {"name": "out", "from": "lines", "to": {"topic": "out", "value": "text"}},
    ]
    app.apply(seconds=15, topology=topology, kafka={"bootstrapServers": "kafka:9092"})
    assert (app.condition("Ready")["status"], app.condition("Degraded")["status"]) == ("Unknown", "False")
