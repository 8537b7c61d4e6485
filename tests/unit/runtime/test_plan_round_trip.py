# SPDX-License-Identifier: Apache-2.0
"""The plan crosses from one process to another as JSON, and comes out the same."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamapp.compile import compile_manifest
from streamapp.errors import InputError
from streamapp.manifest import parse_manifest
from streamapp.nodes import Node
from streamapp.plan import KafkaSettings, Plan
from streamapp.plan.codec import NODE_CLASSES, from_plain, to_plain

EXAMPLES = sorted((Path(__file__).parents[3] / "examples").glob("*.yaml"))


@given(st.one_of([st.from_type(cls) for cls in NODE_CLASSES.values()]))
@settings(max_examples=300)
def test_every_node_is_read_back_exactly(node: Node) -> None:
    assert from_plain(Node, json.loads(json.dumps(to_plain(node)))) == node


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_plans_of_the_examples_are_read_back_exactly(file: Path) -> None:
    plan = compile_manifest(parse_manifest(file.read_text()))
    assert Plan.from_json(plan.to_json()) == plan
    assert Plan.from_json(plan.to_json()).to_json() == plan.to_json()


def test_settings_reach_the_plan(plan: Callable[..., Plan]) -> None:
    made = plan(
        "- {name: in, stream: {topic: t}}\n- {name: out, to: {topic: o}}",
        """
        applicationId: other-id
        guarantee: at-least-once
        maxParallelism: 3
        epochInterval: 2s
        transactionTimeout: 90s
        run: untilCaughtUp
        closeWindows: true
        startFrom: '2024-01-31T00:00:00Z'
        onBadRecord: Drop
        onSourceLoss: Earliest
        replicas: 4
        kafka:
          bootstrapServers: kafka:9093
          tls: {caFile: ca.pem}
          sasl: {mechanism: SCRAM-SHA-512, secretRef: {name: app-kafka}}
        """,
    )
    assert (made.name, made.application_id, made.guarantee, made.max_parallelism) == (
        "app",
        "other-id",
        "at-least-once",
        3,
    )
    assert (made.epoch_interval_ms, made.transaction_timeout_ms, made.run) == (2_000, 90_000, "untilCaughtUp")
    assert made.close_windows
    assert (made.start_from, made.on_bad_record.kind, made.on_source_loss) == (
        "1706659200000",
        "Drop",
        "Earliest",
    )
    assert made.replicas == 4
    assert made.kafka == KafkaSettings(
        "kafka:9093", True, "ca.pem", sasl_mechanism="SCRAM-SHA-512", sasl_secret="app-kafka"
    )
    assert [(topic.name, topic.role, topic.partitions) for topic in made.topics] == [
        ("other-id-metadata", "metadata", 1),
        ("other-id-position", "position", 3),
    ]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda data: data | {"version": 1}, "the plan has version 1, and this runtime reads version 10"),
        (lambda data: data | {"replicas": "1"}, "expected int and not '1'"),
        (lambda data: data | {"replicas": True}, "expected int and not True"),
        (lambda data: data | {"more": 1}, "Plan has no field 'more'"),
        (lambda data: {k: v for k, v in data.items() if k != "run"}, "Plan needs the field 'run'"),
        (
            lambda data: data | {"subtopologies": [{"nodes": [{"operation": "Nothing"}]}]},
            "SubTopology needs the field",
        ),
        (lambda data: [data], "the plan has version None"),
    ],
)
def test_what_is_no_plan_is_refused(
    plan: Callable[..., Plan], change: Callable[[dict[str, object]], object], said: str
) -> None:
    data = json.loads(plan("- {name: in, stream: {topic: t}}\n- {name: out, to: {topic: o}}").to_json())
    with pytest.raises(InputError, match=said):
        Plan.from_json(json.dumps(change(data)))


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "null"])
def test_text_that_is_no_plan_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        Plan.from_json(text)
