# SPDX-License-Identifier: Apache-2.0
"""The condition TopologyValid has every mistake of a resource at once, from wherever it is found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from lib.operator import WORD_COUNT
from lib.simulated import Simulation
from streamapp.errors import ManifestError
from streamapp.manifest import parse_object
from streamapp_operator.crd.status import status_schema
from streamapp_operator.status.events import WARNING, Event, to_object
from streamapp_operator.status.verdicts import LONGEST_MESSAGE

SPEC = yaml.safe_load(WORD_COUNT)["spec"]
AT_RENDERING: dict[str, Any] = {
    "driver": {"resources": {"limits": {"memory": "1Mi"}}},
    "executor": {"resources": {"limits": {"memory": "lots"}}},
    "run": "untilCaughtUp",
    "schedule": "0 8 */2 * 1",
}
"""Mistakes that show only when objects are made of the spec."""
TOLD_OF_IT = [
    "`driver.resources`: memory of 1Mi is too little",
    "`executor.resources`: 'lots'",
    "`schedule`: a step in one field of days narrows the other one down",
]


def told(**spec: Any) -> list[str]:
    app = Simulation()
    app.apply(10, **spec)
    valid = app.condition("TopologyValid")
    assert (valid["status"], valid["reason"]) == ("False", "Invalid")
    lines: list[str] = valid["message"].split("\n")
    return lines


def test_mistakes_of_the_code_the_manifest_kafka_and_the_pods_together() -> None:
    lines = told(
        **{**SPEC, "kafka": {"bootstrapServers": "k:9092", "sasl": {"mechanism": "PLAIN"}}},
        **AT_RENDERING,
        guarantee="twice",
        code={"configMapRef": {"name": "gone"}},
    )
    assert len(lines) == 6
    for words in (
        "there is no ConfigMap 'gone'",
        "`guarantee`: there is no 'twice'",
        "`kafka.sasl`: `secretRef` is missing",
        *TOLD_OF_IT,
    ):
        assert [line for line in lines if words in line], words


def test_what_shows_at_rendering_is_told_of_a_manifest_that_is_right_otherwise() -> None:
    lines = told(**SPEC, **AT_RENDERING)
    assert len(lines) == len(TOLD_OF_IT)
    assert all(words in line for words, line in zip(TOLD_OF_IT, lines, strict=True))


def test_one_of_every_mistake_of_a_hurried_person(root: Path) -> None:
    body = yaml.safe_load((root / "tests" / "golden" / "mistakes" / "many.yaml").read_text())
    body["spec"]["kafka"] = {"bootstrapServers": "k:9092", "sasl": {"mechanism": "PLAIN"}}
    with pytest.raises(ManifestError) as error:
        parse_object({**yaml.safe_load(WORD_COUNT), "spec": body["spec"]})
    lines = told(**body["spec"])
    said = {str(problem) for problem in error.value.problems}
    assert len("\n".join(said)) > 4000
    assert said < set(lines)
    assert error.value.left_open() in lines
    assert "`kafka.sasl`: `secretRef` is missing; on a cluster, add secretRef: {name: SECRET}" in lines
    assert not [line for line in lines if line.startswith("and ")]


def test_more_than_there_is_room_for_is_counted() -> None:
    nodes = [{"name": f"n{i}", "from": "lines", "filter": f"{'x' * 160}_{i} > 0"} for i in range(250)]
    lines = told(**{**SPEC, "topology": [SPEC["topology"][0], *nodes]})
    text = "\n".join(lines)
    conditions = status_schema()["properties"]["conditions"]["items"]["properties"]
    assert LONGEST_MESSAGE - 300 < len(text) <= LONGEST_MESSAGE < conditions["message"]["maxLength"]
    assert lines[-1] == f"and {250 - (len(lines) - 1)} more"


def test_an_event_that_is_cut_says_so() -> None:
    about = {"apiVersion": "v1", "kind": "X", "metadata": {"name": "a", "namespace": "n", "uid": "u"}}
    words = to_object(Event(WARNING, "TopologyInvalid", "x" * 2000), about, Simulation().now)["message"]
    assert len(words) == 1000
    assert words.endswith("x…")


def test_a_node_that_leads_nowhere_is_told_once_and_is_no_mistake() -> None:
    app = Simulation()
    forgotten = {"name": "long", "from": "words", "filter": "length(word) > 9"}
    app.apply(60, **{**SPEC, "topology": [*SPEC["topology"], forgotten]})
    valid = app.condition("TopologyValid")
    assert (valid["status"], valid["reason"]) == ("True", "LeadsNowhere")
    assert "node 'long': leads nowhere: it has no `to`, and no node reads it" in valid["message"]
    assert app.driver is not None
    app.run(60)
    assert [event.kind for event in app.events if event.reason == "LeadsNowhere"] == [WARNING]
    app.apply(60, **SPEC)
    assert app.condition("TopologyValid")["reason"] == "Valid"
