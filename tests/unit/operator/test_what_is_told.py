# SPDX-License-Identifier: Apache-2.0
"""Events: each transition has one event, and nothing else has one."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from lib.operator import WORD_COUNT
from lib.simulated import LOOK_SECONDS, Simulation, live, works
from streamapp_operator.decide.decision import PAUSE_ANNOTATION
from streamapp_operator.observe.observation import Position
from streamapp_operator.status.events import REASONS
from streamapp_operator.times import stamp

SPEC = yaml.safe_load(WORD_COUNT)["spec"]


class Moody:
    """A driver that works, and reports what the test wants."""

    def __init__(self) -> None:
        self.silent, self.error = False, ""

    def __call__(self, version: Mapping[str, Any], seconds: float) -> Mapping[str, Any]:
        if self.silent:
            return {}
        return {"live": live(error=self.error)} if self.error else works(version, seconds)


@pytest.fixture
def driver() -> Moody:
    return Moody()


@pytest.fixture
def app(driver: Moody) -> Simulation:
    """An app that has proved itself; events up to then do not count."""
    made = Simulation(driver)
    made.apply(120, **SPEC)
    assert made.status["phase"] == "Running"
    made.events.clear()
    return made


def told(app: Simulation) -> list[tuple[str, str]]:
    return [(event.kind, event.reason) for event in app.events]


def test_one_missing_answer_changes_nothing(app: Simulation, driver: Moody) -> None:
    before, since = app.status, app.condition("Ready")["lastTransitionTime"]
    driver.silent = True
    app.now += timedelta(seconds=LOOK_SECONDS)
    app.look()
    assert app.status == before
    driver.silent = False
    app.run(60)
    assert app.condition("Ready")["lastTransitionTime"] == since
    assert told(app) == []


def test_a_driver_that_stays_silent_is_told_with_since_when_and_why(app: Simulation, driver: Moody) -> None:
    driver.silent = True
    app.run(300)
    assert app.status["phase"] == "Running"
    for kind, status in (("Ready", "Unknown"), ("Degraded", "True")):
        said = app.condition(kind)
        assert (said["status"], said["reason"]) == (status, "DriverSilent")
        assert said["message"] == "it does not answer (since 2024-01-01T00:02:00Z)"
        assert said["lastTransitionTime"] == "2024-01-01T00:02:10Z"
    driver.silent = False
    app.look()
    assert app.condition("Ready")["status"] == "True"
    assert told(app) == [("Warning", "DriverSilent"), ("Normal", "Recovered")]


def test_silence_of_a_driver_that_has_begun_anew_is_not_taken_for_what_it_said_before(
    app: Simulation, driver: Moody
) -> None:
    assert app.driver is not None
    app.driver["metadata"]["uid"] = "another"
    driver.silent = True
    app.look()
    assert app.condition("Ready")["reason"] == "DriverSilent"


def test_trouble_with_kafka(app: Simulation, driver: Moody) -> None:
    driver.error = "Kafka at kafka:9092 does not answer"
    app.run(60)
    driver.error = ""
    app.look()
    assert told(app) == [("Warning", "KafkaTrouble"), ("Normal", "Recovered")]
    assert [event.message for event in app.events] == [
        "Kafka at kafka:9092 does not answer",
        "nothing is amiss; it was KafkaTrouble",
    ]


def test_executors_that_do_not_come(app: Simulation) -> None:
    app.executors, app.starts = [], lambda template: False
    app.look()
    ready = app.condition("Ready")
    assert (ready["status"], ready["reason"], ready["message"]) == ("False", "NoExecutors", "none of 1 executors runs")
    assert ready["lastTransitionTime"] == stamp(app.now)
    app.run(20)
    assert told(app) == []  # another one is on its way: an event now would come with each update of an app
    assert app.condition("Ready") == ready
    app.run(60)
    assert told(app) == [("Warning", "ExecutorsMissing")]
    app.executors, app.starts = [], lambda template: True
    app.look()
    assert told(app)[1:] == [("Normal", "Recovered")]


ONE: dict[str, Any] = {
    "kafka": {"bootstrapServers": "k:9092"},
    "topology": [
        {"name": "lines", "stream": {"topic": "t", "value": "text"}},
        {"name": "counts", "from": "lines", "groupBy": ["value"], "aggregate": {"n": "count(*)"}},
        {"name": "out", "from": "counts", "to": {"topic": "o"}},
    ],
}
"""Its sub-topology is `counts`, which reads the topic `t`: as the simulated driver says."""


class Hanging:
    """A driver whose epoch, from some time on, does not end while more records come in."""

    def __init__(self, **more: Any) -> None:
        self.from_second, self.more = 100.0, more

    def __call__(self, version: Mapping[str, Any], seconds: float) -> Mapping[str, Any]:
        lag = max(0, int(seconds - self.from_second))
        said = live(lag=lag, epochs=int(min(seconds, self.from_second)))
        said["subTopologies"]["counts"] |= self.more
        return {"live": said}


def test_a_driver_that_commits_no_epoch_although_records_wait() -> None:
    driver = Hanging()
    app = Simulation(driver)
    app.apply(220, **ONE)
    assert app.condition("Ready")["reason"] == "Processing"
    app.events.clear()
    app.run(30)
    said = "no epoch of 'counts' since 2024-01-01T00:01:50Z, although 130 records wait"
    for kind, status in (("Ready", "False"), ("Degraded", "True")):
        found = app.condition(kind)
        assert (found["status"], found["reason"]) == (status, "Stalled")
        assert found["lastTransitionTime"] == "2024-01-01T00:03:55Z"
    assert [(event.kind, event.reason, event.message) for event in app.events] == [("Warning", "Stalled", said)]
    app.run(300)
    assert told(app) == [("Warning", "Stalled")]
    driver.from_second = 10_000
    app.look()
    assert app.condition("Ready")["reason"] == "Processing"
    assert told(app)[1:] == [("Normal", "Recovered")]


@pytest.mark.parametrize(
    ("more", "spec"),
    [({"epochMs": {"triggerExecution": 80_000}}, {}), ({}, {"transactionTimeout": "200s"})],
    ids=["epochs are long", "transactions may be"],
)
def test_long_epochs_have_their_time(more: dict[str, Any], spec: dict[str, Any]) -> None:
    app = Simulation(Hanging(**more))
    app.apply(500, **ONE, **spec)
    assert app.condition("Ready")["reason"] == "Processing"
    app.run(20)
    assert app.condition("Ready")["reason"] == "Stalled"


def test_stores_that_are_restored_and_an_empty_topic_are_no_standstill() -> None:
    def behaviour(version: Mapping[str, Any], seconds: float) -> Mapping[str, Any]:
        return {"live": live("Restoring", 500, 0) if seconds < 1000 else live()}

    app = Simulation(behaviour)
    app.apply(2000, **ONE)
    assert "Stalled" not in [reason for _, reason in told(app)]


def test_a_driver_that_begins_anew_gets_its_time_anew() -> None:
    app = Simulation(Hanging())
    app.apply(300, **ONE)
    assert app.condition("Degraded")["reason"] == "Stalled"
    assert app.driver is not None
    app.driver["metadata"]["uid"] = "another"
    app.look()
    assert app.condition("Degraded")["reason"] == "AsExpected"


def lag_of_column(app: Simulation) -> Any:
    """The lag in the column of `kubectl get`."""
    return app.status.get("lag", {}).get("total")


def test_lag_is_shown_only_while_somebody_knows_it(driver: Moody) -> None:
    app = Simulation(lambda version, seconds: {"live": live(lag=7)})
    app.apply(20, **ONE)
    assert lag_of_column(app) == 7
    app.behaviour = lambda version, seconds: {}
    app.run(20)
    assert lag_of_column(app) is None
    app.behaviour = lambda version, seconds: {"live": live(lag=7)}
    app.look()
    assert lag_of_column(app) == 7
    app.apply(20, **ONE, suspend=True)
    assert lag_of_column(app) is None


def test_lag_of_an_app_that_scales_is_known_from_kafka_while_its_driver_is_away() -> None:
    app = Simulation(lambda version, seconds: {})
    app.position = Position(produced=50, consumed=20, partitions=4)
    app.apply(20, **ONE, autoscaling={"maxReplicas": 4})
    assert lag_of_column(app) == 30


def test_a_pause(app: Simulation) -> None:
    app.body["metadata"]["annotations"][PAUSE_ANNOTATION] = "true"
    app.run(20)
    del app.body["metadata"]["annotations"][PAUSE_ANNOTATION]
    app.run(20)
    assert told(app) == [("Normal", "ReconciliationPaused"), ("Normal", "ReconciliationResumed")]


def test_lag_that_is_not_known(app: Simulation) -> None:
    app.position = Position(produced=10, consumed=10, partitions=4)
    app.apply(20, **SPEC, autoscaling={"maxReplicas": 4})
    app.position = None
    app.run(20)
    app.position = Position(produced=10, consumed=10, partitions=4)
    app.run(20)
    assert [each for each in told(app) if each[1] != "Applying"] == [
        ("Warning", "MetricsMissing"),
        ("Normal", "MetricsKnown"),
    ]


def test_a_manifest_that_cannot_be_run_makes_no_lag_known(app: Simulation) -> None:
    """The lag is unknown also if the version before the manifest is gone, so that nothing runs."""
    app.apply(20, **SPEC, autoscaling={"maxReplicas": 4})
    assert told(app)[-1] == ("Warning", "MetricsMissing")
    app.children = {key: item for key, item in app.children.items() if key[0] != "ControllerRevision"}
    app.apply(20, **{**SPEC, "topology": []}, autoscaling={"maxReplicas": 4})
    assert app.condition("ScalingActive")["reason"] == "TopologyInvalid"
    assert "MetricsKnown" not in [reason for _, reason in told(app)]


def test_to_be_suspended_is_no_recovery(app: Simulation, driver: Moody) -> None:
    driver.error = "Kafka at kafka:9092 does not answer"
    app.run(20)
    app.apply(20, **SPEC, suspend=True)
    assert "Recovered" not in [reason for _, reason in told(app)]


# --- all of them --------------------------------------------------------------------------------------------

ELSEWHERE = {
    "LeadsNowhere": "unit/operator/test_every_mistake_is_told.py",
    "DriverPending": "apiserver/test_driver_cannot_be_made.py",
    "Refused": "apiserver/test_reconcile.py",
    "Scheduled": "apiserver/test_runs.py",
    "Completed": "apiserver/test_runs.py",
    "Deleting": "apiserver/test_deletion.py",
    "Deleted": "apiserver/test_deletion.py",
    "TopicsLeft": "apiserver/test_deletion.py",
}
"""Reasons that need an API server, Jobs or Kafka, and whose tests look for them."""


def test_scaling_to_zero_and_back_is_told_and_a_stop_is_not(app: Simulation) -> None:
    app.apply(20, **SPEC, replicas=0)
    app.apply(20, **SPEC, replicas=2)
    scaled = [event.message for event in app.events if event.reason == "Scaling"]
    assert scaled == ["1 → 0 replicas: spec.replicas is 0", "0 → 2 replicas: spec.replicas is 2"]
    app.apply(60, **SPEC, replicas=2, suspend=True)
    app.apply(120, **SPEC, replicas=2)
    assert [event.message for event in app.events if event.reason == "Scaling"] == scaled


def a_driver_through_all_its_phases() -> Simulation:
    phases = ["Starting", "Restoring", "Running", "Restarting", "Running", "Stopped", "Failed"]
    app = Simulation(lambda version, seconds: {"live": live(phases[min(int(seconds) // 20, len(phases) - 1)])})
    app.apply(160, **ONE)
    app.apply(20, **ONE, suspend=True)
    return app


def a_manifest_that_becomes_right() -> Simulation:
    app = Simulation()
    app.apply(10, **ONE, guarantee="twice")
    app.apply(60, **ONE)
    other = {**ONE["topology"][1], "aggregate": {"n": "max(value)"}}
    app.apply(10, **{**ONE, "topology": [ONE["topology"][0], other, ONE["topology"][2]]})
    return app


def a_version_that_is_taken_back() -> Simulation:
    app = Simulation(lambda spec, seconds: {"live": live(lag=9, epochs=0)} if "image" in spec else works(spec, seconds))
    app.apply(60, **ONE)
    app.apply(400, **ONE, image="bad")
    return app


def a_driver_that_fails_for_good() -> Simulation:
    app = Simulation(lambda spec, seconds: {"failure": "DataError: x"} if seconds > 10 else {"live": live("Starting")})
    app.apply(300, **ONE)
    return app


def a_state_that_is_lost_and_comes_back() -> Simulation:
    is_back: list[bool] = []
    app = Simulation(
        lambda spec, seconds: works(spec, seconds) if is_back else {"failure": "StateLost: topic c is gone"}
    )
    app.apply(60, **ONE)
    is_back.append(True)
    app.run(60)
    return app


def a_secret_that_is_gone() -> Simulation:
    app = Simulation()
    app.apply(60, **ONE)
    sasl = {"mechanism": "PLAIN", "secretRef": {"name": "gone"}}
    app.apply(20, **{**ONE, "kafka": {**ONE["kafka"], "sasl": sasl}})
    return app


def one_thing_after_the_other() -> Simulation:
    driver = Moody()
    app = Simulation(driver)
    app.apply(60, **ONE)
    app.body["metadata"]["annotations"][PAUSE_ANNOTATION] = "true"
    app.run(20)
    del app.body["metadata"]["annotations"][PAUSE_ANNOTATION]
    driver.silent = True
    app.run(60)
    driver.silent, driver.error = False, "Kafka is away"
    app.run(20)
    driver.error = ""
    app.starts, app.executors = (lambda template: False), []
    app.run(60)
    app.starts, app.executors = (lambda template: True), []
    app.run(20)
    return app


def a_standstill() -> Simulation:
    app = Simulation(Hanging())
    app.apply(300, **ONE)
    return app


def an_app_that_scales_itself() -> Simulation:
    app = Simulation()
    app.position = Position(produced=10, consumed=10, partitions=4)
    app.apply(20, **ONE, autoscaling={"minReplicas": 1, "maxReplicas": 4})
    app.position = None
    app.run(20)
    app.position = Position(produced=10, consumed=10, partitions=4)
    app.apply(20, **ONE, autoscaling={"minReplicas": 2, "maxReplicas": 4})
    return app


SCENES = (
    a_driver_through_all_its_phases,
    a_manifest_that_becomes_right,
    a_version_that_is_taken_back,
    a_driver_that_fails_for_good,
    a_secret_that_is_gone,
    a_state_that_is_lost_and_comes_back,
    one_thing_after_the_other,
    a_standstill,
    an_app_that_scales_itself,
)


def test_lost_state_is_told_by_its_name_until_the_app_runs_again() -> None:
    app = a_state_that_is_lost_and_comes_back()
    told = [(event.reason, event.message) for event in app.events if event.kind == "Warning"]
    assert ("StateLost", "topic c is gone") in told
    assert app.condition("Degraded")["status"] == "False"
    assert [event.reason for event in app.events].count("StateLost") == 1


def test_every_reason_of_an_event_is_told_somewhere(root: Path) -> None:
    told_here = {event.reason for scene in SCENES for event in scene().events}
    assert told_here == set(REASONS) - set(ELSEWHERE)
    for reason, file in ELSEWHERE.items():
        assert f'"{reason}"' in (root / "tests" / file).read_text(), reason


def test_every_reason_is_a_known_one(app: Simulation, driver: Moody) -> None:
    driver.error = "Kafka at kafka:9092 does not answer"
    app.apply(60, **SPEC, suspend=True)
    app.apply(60, **SPEC)
    assert {event.reason for event in app.events} <= set(REASONS)
