# SPDX-License-Identifier: Apache-2.0
"""The decisions about an app that is deleted."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import yaml

from lib.operator import WORD_COUNT
from streamapp_operator.deletion.finalizer import outcome_event
from streamapp_operator.deletion.kafka import Cleaner, Outcome
from streamapp_operator.observe.observation import Observation
from streamapp_operator.observe.remains import (
    DEADLINE_SECONDS,
    FINALIZER,
    driver_makers,
    has_finalizer,
    is_late,
    remains_of,
    running,
    wants_finalizer,
)
from streamapp_operator.render.meta import Object

NOW = datetime(2024, 3, 13, 10, 17, tzinfo=UTC)
TOPICS = ("word-count-word-counts-changelog", "word-count-metadata")


def body(**spec: Any) -> Object:
    found: Object = yaml.safe_load(WORD_COUNT)
    found["metadata"] |= {"namespace": "shop", "uid": "app-uid", "generation": 1}
    found["spec"] |= spec
    return found


def test_only_an_app_whose_topics_go_with_it_waits_for_us() -> None:
    assert not wants_finalizer(body())
    assert not wants_finalizer(body(deletionPolicy="Retain"))
    assert wants_finalizer(body(deletionPolicy="Delete"))
    held = body()
    assert not has_finalizer(held)
    held["metadata"]["finalizers"] = ["other.dev/x", FINALIZER]
    assert has_finalizer(held)


def test_it_is_late_when_the_time_is_over() -> None:
    found = body()
    found["metadata"]["deletionTimestamp"] = "2024-03-13T10:17:00Z"
    assert not is_late(found, NOW)
    assert not is_late(found, NOW + timedelta(seconds=DEADLINE_SECONDS))
    assert is_late(found, NOW + timedelta(seconds=DEADLINE_SECONDS + 1))


def test_what_remains_on_kafka() -> None:
    remains = remains_of(Observation(body()))
    assert remains is not None
    assert (remains.application_id, remains.owner) == ("word-count", "shop/word-count/app-uid")
    assert remains.topics == TOPICS  # not those that it reads and writes


def test_of_a_manifest_that_is_wrong_by_now_the_plan_that_ran_counts() -> None:
    from streamapp_operator.manifest.app import read_app

    plan = read_app(body(applicationId="words")).plan.to_json()
    config = {("ConfigMap", "word-count-config"): {"data": {"plan.json": plan}}}
    wrong = body(topology=[{"name": "x", "from": "nowhere", "filter": "a > 1"}])
    assert remains_of(Observation(wrong)) is None
    remains = remains_of(Observation(wrong, children=config))
    assert remains is not None
    assert remains.topics == ("words-word-counts-changelog", "words-metadata")
    renamed = body()
    renamed["spec"]["topology"][2]["store"] = "other"
    both = remains_of(Observation({**renamed, "spec": {**renamed["spec"], "applicationId": "words"}}, children=config))
    assert both is not None
    assert both.topics == ("words-other-changelog", "words-word-counts-changelog", "words-metadata")


def pod(name: str, phase: str) -> Object:
    return {"metadata": {"name": name}, "status": {"phase": phase}}


def test_kafka_comes_when_nothing_runs_and_nothing_would_make_it_run() -> None:
    def item(kind: str, **metadata: str) -> Object:
        return {"kind": kind, "metadata": {"name": kind, "uid": kind, **metadata}}

    kinds = ("ConfigMap", "StatefulSet", "CronJob")
    children = {(kind, kind): item(kind) for kind in kinds}
    seen = Observation(body(), children, jobs=(item("Job"), item("Job", uid="gone", deletionTimestamp="now")))
    assert sorted(found["metadata"]["uid"] for found in driver_makers(seen)) == ["CronJob", "Job", "StatefulSet"]
    pods = Observation(body(), drivers=(pod("a", "Running"), pod("b", "Succeeded")), executors=(pod("c", "Pending"),))
    assert running(pods) == ("a", "c")


@pytest.mark.parametrize(
    ("outcome", "reason", "words"),
    [
        (Outcome(TOPICS, group=True), "Deleted", "changelog, word-count-metadata and the consumer group word-count"),
        (Outcome(), "Deleted", "deleted no topic"),
        (Outcome(("a",), why="'b' is unproven"), "TopicsLeft", "'b' is unproven; deleted a"),
        (Outcome(left=TOPICS, why="no answer"), "TopicsLeft", "left on Kafka at kafka:9092, delete by hand: word-"),
        (Outcome(why="it belongs to 'x'"), "TopicsLeft", "it belongs to 'x'"),
        (Outcome(left=tuple(map(str, range(99))), why="no answer"), "TopicsLeft", "18, 19 and others. Why: no answer"),
    ],
)
def test_what_is_told(outcome: Outcome, reason: str, words: str) -> None:
    event = outcome_event(remains_of(Observation(body())), outcome)
    assert event.reason == reason
    assert words in event.message


def test_kafka_at_an_address_that_is_not_allowed_holds_no_deletion_up() -> None:
    remains = remains_of(Observation(body(kafka={"bootstrapServers": "169.254.169.254:80"})))
    assert remains is not None
    outcome = Cleaner().clean(remains)
    assert outcome.left == outcome.deleted == ()
    assert f"not deleted: {', '.join(TOPICS)} (`kafka.bootstrapServers`: " in outcome.why


def test_a_secret_that_is_gone_leaves_the_topics_and_is_named() -> None:
    kafka = {"bootstrapServers": "kafka:9093", "tls": {"secretRef": {"name": "kafka-ca"}}}
    seen = Observation(body(kafka=kafka), secrets={"kafka-ca": None})
    remains = remains_of(seen)
    assert remains is not None
    outcome = Cleaner().clean(remains)
    assert outcome.left == TOPICS
    assert "kafka-ca" in outcome.why
