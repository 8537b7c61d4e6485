# SPDX-License-Identifier: Apache-2.0
"""Another image in the operator's settings: each app proves itself with it as with any other version, and is taken back
if it does not; and the number of drivers that restart at a time has a limit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
import yaml

from lib.operator import WORD_COUNT
from lib.simulated import Simulation, live, works
from streamapp_operator.decide.actions import Delete, kind_of
from streamapp_operator.decide.decision import decide
from streamapp_operator.driver.answer import read_answer
from streamapp_operator.manifest.app import read_app
from streamapp_operator.manifest.versions import RUNTIME_IMAGE, version_name
from streamapp_operator.observe.observation import Observation
from streamapp_operator.render import Credentials
from streamapp_operator.render.meta import ATTEMPT_ANNOTATION
from streamapp_operator.settings import Settings
from streamapp_operator.turns import Turns

SPEC: dict[str, Any] = yaml.safe_load(WORD_COUNT)["spec"]
OLD, NEW = Settings(image="runtime:1"), Settings(image="runtime:2")


def bad_with_new(spec: Mapping[str, Any], seconds: float) -> Mapping[str, Any]:
    return {"live": live(lag=9, epochs=0)} if spec.get(RUNTIME_IMAGE) == NEW.image else works(spec, seconds)


def image_of(app: Simulation) -> str:
    """The image that drivers are made with now."""
    (container,) = app.children["StatefulSet", "app-driver"]["spec"]["template"]["spec"]["containers"]
    return str(container["image"])


@pytest.fixture
def app() -> Simulation:
    """An app that has proved itself with the old image."""
    made = Simulation(settings=OLD)
    made.apply(120, **SPEC)
    assert made.status["healthyVersion"] == made.version
    made.events.clear()
    made.settings = NEW
    return made


def test_it_is_a_version_that_proves_itself(app: Simulation) -> None:
    before, driver = app.version, app.driver
    app.run(10)
    assert app.version != before
    assert app.driver is not None
    assert app.driver["metadata"]["uid"] != (driver or {})["metadata"]["uid"]
    assert app.condition("Ready")["reason"] == "Proving"
    changes = app.status["plan"]["changes"]
    assert [each["change"] for each in changes] == ["image: runtime:1 becomes runtime:2, by the operator's settings"]
    app.run(60)
    assert image_of(app) == NEW.image
    assert app.status["healthyVersion"] == app.version
    assert "Healthy" in [event.reason for event in app.events]


def test_it_is_taken_back_and_the_image_before_it_runs(app: Simulation) -> None:
    before = app.version
    app.behaviour = bad_with_new
    app.run(800)
    assert (app.version, image_of(app)) == (before, OLD.image)
    degraded = app.condition("Degraded")
    assert degraded["reason"] == "RolledBack"
    assert degraded["message"].startswith("the operator's new image runtime:2 was taken back: within 300 s")
    assert "runtime:1 runs" in degraded["message"]
    # It is not tried again by itself, but with the next release.
    app.run(60)
    assert app.version == before
    app.settings = Settings(image="runtime:3")
    app.run(120)
    assert image_of(app) == "runtime:3"
    assert app.condition("Degraded")["status"] == "False"


def test_a_change_of_the_manifest_beside_it_is_made_with_the_new_image(app: Simulation) -> None:
    app.apply(120, **SPEC, epochInterval="7s")
    assert image_of(app) == NEW.image
    assert app.status["healthyVersion"] == app.version


def test_an_image_of_the_manifest_is_its_own(app: Simulation) -> None:
    app.apply(120, **SPEC, image="mine:1")
    version = app.version
    app.settings = Settings(image="runtime:3")
    app.run(60)
    assert (app.version, image_of(app)) == (version, "mine:1")


def test_a_version_that_an_operator_before_this_one_found_healthy_stays_so(app: Simulation) -> None:
    """That operator recorded no image."""
    revision = app.children.pop(("ControllerRevision", app.version))
    spec = {key: value for key, value in revision["data"]["spec"].items() if key != RUNTIME_IMAGE}
    name = version_name("app", spec)
    revision["metadata"]["name"], revision["data"] = name, {"spec": spec}
    app.children["ControllerRevision", name] = revision
    app.children["ConfigMap", "app-config"]["metadata"]["annotations"]["streamapp.dev/version"] = name
    app.settings = OLD
    uid = (app.driver or {})["metadata"]["uid"]
    app.run(20)
    assert (app.driver or {})["metadata"]["uid"] == uid, "it is not started anew"
    assert app.status["healthyVersion"] == app.version
    assert app.condition("Ready")["status"] == "True"
    assert app.children["ControllerRevision", app.version]["data"]["spec"][RUNTIME_IMAGE] == OLD.image


def test_what_runs_to_the_end_of_its_input_does_not_run_again_for_it() -> None:
    body = yaml.safe_load(WORD_COUNT)
    body["spec"]["run"] = "untilCaughtUp"
    assert read_app(body, OLD.image).attempt == read_app(body, NEW.image).attempt
    body["spec"]["run"] = "continuous"
    assert read_app(body, OLD.image).attempt != read_app(body, NEW.image).attempt
    assert read_app(body, OLD.image).own_attempt == read_app(body, NEW.image).own_attempt


# --- some at a time -------------------------------------------------------------------------------------------------


def look(app: Simulation, *, may_restart: bool) -> tuple[bool, bool]:
    """Whether the driver is to end now, and whether it waits for its turn."""
    said = {**live(), "replicas": {"wanted": 5, "template": "x"}}
    seen = Observation(
        body=app.body,
        children=app.children,
        driver=app.driver,
        executors=tuple(app.executors),
        status=read_answer(said),
    )
    found = decide(seen, app.settings, Credentials("token", "secret"), app.now, may_restart=may_restart)
    ends = any(isinstance(each, Delete) and kind_of(each) == "Pod" for each in found.actions)
    if found.waits_for_turn:
        assert "Scale" in {type(each).__name__ for each in found.actions}, "an app that waits is scaled"
    return ends, found.waits_for_turn


def apply_all_but_pods(app: Simulation) -> None:
    """Makes the objects of the new settings; the driver stays as it was."""
    driver = app.driver
    app.look()
    app.driver = driver


def test_a_driver_is_started_anew_for_settings_only_when_it_may(app: Simulation) -> None:
    apply_all_but_pods(app)
    assert look(app, may_restart=False) == (False, True)
    assert look(app, may_restart=True) == (True, False)


def test_what_its_author_asks_for_waits_for_nobody(app: Simulation) -> None:
    app.body["spec"]["epochInterval"] = "7s"
    app.body["metadata"]["generation"] += 1
    apply_all_but_pods(app)
    assert look(app, may_restart=False) == (True, False)


def test_a_driver_of_an_operator_before_this_one_waits_too(app: Simulation) -> None:
    apply_all_but_pods(app)
    assert app.driver is not None
    app.driver["metadata"]["annotations"].pop(ATTEMPT_ANNOTATION, None)
    assert look(app, may_restart=False) == (False, True)


def test_turns() -> None:
    now = [0.0]
    turns: Turns[str] = Turns(2, 60, lambda: now[0])
    assert [turns.take(each) for each in "abca"] == [True, True, False, True]
    assert [turns.has(each) for each in "abc"] == [True, True, False]
    turns.give("a")
    turns.give("nobody")
    assert turns.take("c")
    assert not turns.take("a")
    now[0] += 61
    assert turns.take("a"), "the others have had their time"
    assert not turns.has("b")
    assert not replace(Turns[str](1, 60), most=0).take("a")
