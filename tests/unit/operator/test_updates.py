# SPDX-License-Identifier: Apache-2.0
"""Versions prove themselves or are taken back, and drivers that fail too often stay down: on a simulated cluster."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.simulated import START, Simulation, live, works
from streamapp_operator.decide.executors import to_replace
from streamapp_operator.driver.answer import read_answer
from streamapp_operator.driver.pods import RUNNING, DriverState, runs
from streamapp_operator.driver.restart_budget import BUDGETS, Failures, count_failures
from streamapp_operator.manifest.versions import HEALTHY, REJECTED
from streamapp_operator.render.meta import TEMPLATE_ANNOTATION
from streamapp_operator.status.conditions import ONLY_WHILE_TRUE
from streamapp_operator.versions.health_gate import PROOF_SECONDS, Look, Trial, judge
from streamapp_operator.versions.rollout import acted_upon

TOPOLOGY = [
    {"name": "lines", "stream": {"topic": "t", "value": "text"}},
    {"name": "counts", "from": "lines", "groupBy": ["value"], "aggregate": {"n": "count(*)"}},
    {"name": "out", "from": "counts", "to": {"topic": "o"}},
]
SPEC: dict[str, Any] = {"kafka": {"bootstrapServers": "k:9092"}, "topology": TOPOLOGY}
DEADLINE = 300.0


def with_image(image: str, **more: Any) -> dict[str, Any]:
    return {**SPEC, "image": image, **more}


def by_image(**does: Any) -> Any:
    """A driver that does as its image's name says."""

    def behaviour(spec: Mapping[str, Any], seconds: float) -> Mapping[str, Any]:
        found: Mapping[str, Any] = does.get(spec.get("image", ""), works)(spec, seconds)
        return found

    return behaviour


def fails(words: str, after: float = 20.0) -> Any:
    return lambda spec, seconds: {"failure": words} if seconds >= after else {"live": live("Starting")}


def stands_still(spec: Mapping[str, Any], seconds: float) -> Mapping[str, Any]:
    """The driver runs, and lag rises."""
    return {"live": live(lag=1000 + int(seconds), epochs=0)}


def commits_once(spec: Mapping[str, Any], seconds: float) -> Mapping[str, Any]:
    """The first epoch takes the whole backlog; in the second a function never returns. Records that come in then stay,
    and are fewer than the backlog was."""
    if seconds < 5:
        return {"live": live(lag=3000, epochs=0)}
    return {"live": live(lag=min(int(100 * (seconds - 4)), 2000))}


def falls_behind(spec: Mapping[str, Any], seconds: float) -> Mapping[str, Any]:
    """The driver commits epochs, and more comes in than it processes."""
    lag = 90_000 if seconds < 5 else int(100 * seconds)
    return {"live": live(lag=lag, epochs=int(seconds) // 3)}


def reasons(app: Simulation) -> list[str]:
    return [event.reason for event in app.events]


def ready(app: Simulation) -> str:
    """The reason why the app is not Ready; empty if it is, at the current generation."""
    found = app.condition("Ready")
    assert found["observedGeneration"] == app.body["metadata"]["generation"]
    return "" if found["status"] == "True" else str(found["reason"])


def stalled(app: Simulation) -> str:
    """The reason why the wanted state does not come by itself; empty if it may."""
    return next((c["reason"] for c in app.status["conditions"] if c["type"] == "Stalled"), "")


# --- versions -----------------------------------------------------------------------------------------------


def test_a_version_that_works_becomes_the_healthy_one() -> None:
    app = Simulation()
    app.apply(60, **SPEC)
    first = app.version
    assert app.status["healthyVersion"] == first
    app.apply(60, **with_image("new"))
    assert app.running == app.version == app.status["healthyVersion"] != first
    assert [name for kind, name in app.children if kind == "ControllerRevision"] == [app.version]
    assert reasons(app).count("Healthy") == 2
    assert app.status["plan"]["outcome"] == "Applied"
    assert app.status["plan"]["class"] == "RestartQuery"
    assert app.status["plan"]["restarts"] == "Driver"
    assert app.status["plan"]["changes"] == [{"field": "image", "class": "RestartQuery", "change": "image: new is new"}]


@pytest.mark.parametrize(
    ("does", "words", "seconds"),
    [
        (stands_still, "committed no epoch", DEADLINE),
        (commits_once, "sub-topology 'counts' committed no further epoch, although 2000 records wait", DEADLINE + 10),
        (falls_behind, "its lag rose to", DEADLINE + 10),
        (lambda spec, seconds: {"live": live(lag=int(seconds))}, "its lag did not fall below", DEADLINE),
        (lambda spec, seconds: {}, "did not come to run", DEADLINE),
        (lambda spec, seconds: {"live": live("Restarting", error="no leader")}, "no leader", DEADLINE),
        (fails("Infrastructure: no broker answers"), "no broker answers", DEADLINE),
        (fails("CodeError: DIVIDE_BY_ZERO"), "DIVIDE_BY_ZERO", 25.0),
        (fails("InputError: topic 't' is missing"), "topic 't' is missing", 25.0),
    ],
)
def test_one_that_does_not_is_taken_back_and_not_tried_again(does: Any, words: str, seconds: float) -> None:
    app = Simulation(by_image(bad=does))
    app.apply(60, **SPEC)
    good = app.version
    app.apply(seconds - 10, **with_image("bad"))
    bad = app.running
    assert bad != good
    assert app.status["plan"]["outcome"] == "Applied"
    app.run(45)
    assert app.running == app.version == good
    degraded = app.condition("Degraded")
    assert (degraded["status"], degraded["reason"]) == ("True", "RolledBack")
    assert words in degraded["message"]
    assert "Generation 1 runs" in degraded["message"]
    assert app.status["plan"]["outcome"] == "RolledBack"
    app.run(3 * DEADLINE, every=20)
    assert app.ran == [good, bad, good]
    assert ready(app) == stalled(app) == "RolledBack", "what runs is not what was asked for"
    assert app.condition("Ready")["message"] == degraded["message"]
    assert app.status["healthyVersion"] == good
    assert words in app.status["lastError"]["message"], "hours later"
    assert reasons(app).count("RolledBack") == 1
    assert app.body["spec"]["image"] == "bad"
    assert "image" not in acted_upon(app.body, app.children)["spec"], "whose lag is read"
    assert acted_upon(app.body, {}) is app.body


def test_ready_speaks_of_the_version_that_is_asked_for() -> None:
    """An app is not Ready while the driver before that version runs, or while that version has still to prove
    itself."""
    app = Simulation()
    app.apply(60, **SPEC)
    good = app.running
    assert ready(app) == ""
    app.apply(0, **with_image("new"))
    seen = []
    while app.status["healthyVersion"] == good:
        assert app.now < START + timedelta(seconds=300)
        assert any((c["type"], c["status"]) == ("Reconciling", "True") for c in app.status["conditions"])
        seen.append(ready(app))
        app.now += timedelta(seconds=1)
        app.look()
    assert "" not in seen
    assert {"Updating", "Proving"} <= set(seen)
    app.run(5)
    assert ready(app) == ""
    assert not set(ONLY_WHILE_TRUE) & {c["type"] for c in app.status["conditions"]}


def test_ready_waits_for_a_change_that_waits() -> None:
    app = Simulation()
    app.apply(60, **SPEC)
    app.body["metadata"]["annotations"]["streamapp.dev/pause-reconciliation"] = "true"
    app.run(10)
    assert ready(app) == ""
    app.apply(20, **with_image("new"))
    assert ready(app) == "UpdatePaused"
    assert stalled(app) == ""


def test_after_a_rollback_the_last_error_is_its_cause_with_node_and_record() -> None:
    why = "node 'counts': topic t, partition 3, offset 14: the value cannot be read as integer"
    app = Simulation(by_image(bad=fails(f"DataError: {why}")))
    app.apply(60, **SPEC)
    app.apply(120, **with_image("bad"))
    app.behaviour = lambda spec, seconds: {"live": live()}
    app.run(3600, every=60)
    error = app.status["lastError"]
    assert (error["node"], error["record"]) == ("counts", "topic t, partition 3, offset 14")
    assert why in error["message"]
    assert "was taken back" in error["message"]
    app.apply(3600, **SPEC, epochInterval="2s")
    assert "message" not in app.status.get("lastError", {})


def test_what_was_taken_back_is_tried_again_with_more_time() -> None:
    app = Simulation(by_image(slow=lambda spec, seconds: works(spec, seconds - 400) if seconds > 400 else {}))
    app.apply(60, **SPEC)
    good = app.version
    app.apply(**with_image("slow"))
    app.run(DEADLINE + 120, every=20)
    assert app.running == good
    assert "or give it more time by upgrade.progressDeadline" in app.status["plan"]["why"]
    app.apply(60, **with_image("slow", upgrade={"progressDeadline": "10 minutes"}, replicas=2))
    assert app.running != good
    app.run(600, every=20)
    assert app.running == app.status["healthyVersion"] != good
    assert ready(app) == ""


def test_the_number_of_replicas_is_an_event_whoever_sets_it() -> None:
    app = Simulation()
    app.apply(60, **SPEC)
    app.apply(30, **{**SPEC, "replicas": 3})
    app.apply(30, **{**SPEC, "replicas": 3, "suspend": True})
    app.apply(60, **{**SPEC, "replicas": 3})
    assert [e.message for e in app.events if e.reason == "Scaling"] == ["1 → 3 replicas: spec.replicas is 3"]


def test_while_it_is_taken_back_what_is_live_is_taken_up() -> None:
    app = Simulation(by_image(bad=stands_still))
    app.apply(60, **SPEC)
    good = app.version
    app.apply(**with_image("bad"))
    app.run(DEADLINE + 120, every=20)
    app.apply(30, **with_image("bad", replicas=4))
    assert (app.running, app.status["desiredReplicas"]) == (good, 4)
    app.apply(60, **with_image("bad", suspend=True))
    assert app.running == ""
    app.apply(60, **with_image("bad"))
    assert app.running == good


def test_another_spec_is_tried_and_so_is_the_same_after_a_restart() -> None:
    app = Simulation(by_image(bad=stands_still))
    app.apply(60, **SPEC)
    good = app.version
    app.apply(**with_image("bad"))
    app.run(DEADLINE + 120, every=20)
    assert app.running == good
    app.restart(30)
    bad = app.running
    assert bad != good
    app.run(DEADLINE + 120, every=20)
    assert app.running == good
    app.apply(60, **with_image("better"))
    assert app.running == app.status["healthyVersion"] not in (good, bad)
    assert app.condition("Degraded")["status"] == "False"


def test_one_whose_stores_have_missed_records_does_not_come_back() -> None:
    """The nodes that feed the store have gone on without it, through an internal topic."""

    def spec(store: str, image: str) -> dict[str, Any]:
        marked = {"name": "marked", "from": "lines", "with": {"mark": "rand()"}}
        counts = {**TOPOLOGY[1], "from": "marked", "store": store}
        return with_image(image, topology=[TOPOLOGY[0], marked, counts, TOPOLOGY[2]])

    app = Simulation(by_image(bad=stands_still))
    app.apply(60, **spec("old", "good"))
    good = app.version
    app.apply(60, **spec("new", "bad"))
    bad = app.running
    assert bad != good
    app.run(DEADLINE + 120, every=20)
    assert app.running == app.version == bad
    assert "RolledBack" not in reasons(app)
    state = {change["name"]: change["what"] for change in app.status["plan"]["state"]}
    assert state["old"].endswith("It cannot come back when 'lines' has gone on without it")


def test_back_to_what_ran_before_is_no_trial() -> None:
    app = Simulation(by_image(bad=stands_still))
    app.apply(60, **SPEC)
    good = app.version
    app.apply(30, **with_image("bad"))
    app.apply(30, **SPEC)
    assert app.running == good
    assert app.condition("Degraded")["status"] == "False"
    app.run(DEADLINE + 120, every=20)
    assert app.running == good
    assert "RolledBack" not in reasons(app)


def test_the_first_version_has_nothing_to_go_back_to() -> None:
    app = Simulation(stands_still)
    app.apply(**SPEC)
    app.run(3 * DEADLINE, every=20)
    assert app.running == app.version
    assert "healthyVersion" not in app.status


def test_a_restore_takes_the_time_it_takes() -> None:
    def restores(spec: Mapping[str, Any], seconds: float) -> Mapping[str, Any]:
        done = int(seconds) // 60  # once a minute something moves
        if seconds > 3 * DEADLINE:
            return {"live": live()}
        return {"live": live("Restoring", 5000, 0, restore={"s": {**RESTORING, "done": done}})}

    app = Simulation(by_image(large=restores))
    app.apply(60, **SPEC)
    app.apply(**with_image("large"))
    app.run(3 * DEADLINE + 60, every=20)
    assert app.status["healthyVersion"] == app.running
    assert "RolledBack" not in reasons(app)


RESTORING = {"restoring": 1, "total": 100, "etaSeconds": 1.0}


def test_executors_of_another_pod_template_are_replaced_under_the_driver() -> None:
    app = Simulation()
    app.apply(60, **SPEC, replicas=3)
    driver, before = app.driver, [pod["metadata"]["name"] for pod in app.executors]
    fast = {"podTemplate": {"spec": {"nodeSelector": {"disk": "fast"}}}}
    app.apply(5, **SPEC, replicas=3, executor=fast)
    assert len([pod for pod in app.executors if pod["metadata"]["name"] in before]) == 2
    app.run(60)
    assert not [pod for pod in app.executors if pod["metadata"]["name"] in before]
    assert app.driver is not None
    assert driver is not None
    assert app.driver["metadata"]["uid"] == driver["metadata"]["uid"]
    assert (app.status["plan"]["class"], app.status["plan"]["restarts"]) == ("RollExecutors", "Executors")
    assert app.status["healthyVersion"] == app.version


def test_a_pod_template_that_no_node_takes_is_taken_back() -> None:
    app = Simulation()
    app.apply(60, **SPEC, replicas=3)
    good, template = app.version, app._template
    app.starts = lambda wanted: wanted == template
    odd = {"podTemplate": {"spec": {"nodeSelector": {"disk": "floppy"}}}}
    app.apply(60, **SPEC, replicas=3, executor=odd)
    assert [runs(pod) for pod in app.executors].count(True) == 2  # the first that was replaced waits for a node
    app.run(DEADLINE + 120, every=20)
    assert "2 executors were not replaced" in app.condition("Degraded")["message"]
    assert app.version == good
    assert all(runs(pod) for pod in app.executors)


@given(
    st.lists(st.tuples(st.sampled_from(["old", "new"]), st.booleans(), st.booleans()), max_size=6),
    st.integers(0, 6),
    st.sampled_from(["old", "new"]),
)
def test_never_more_than_one_that_works_goes_at_a_time(
    pods: list[tuple[str, bool, bool]], wanted: int, known: str
) -> None:
    executors = [
        {
            "metadata": {
                "name": f"e{i}",
                "annotations": {TEMPLATE_ANNOTATION: template},
                **({"deletionTimestamp": "2024-01-01T00:00:00Z"} if ending else {}),
            },
            "status": {"conditions": [{"type": "Ready", "status": str(ready)}]},
        }
        for i, (template, ready, ending) in enumerate(pods)
    ]
    going = list(to_replace(executors, "new", wanted, read_answer({"replicas": {"template": known}})))
    assert known == "new" or not going
    assert all(pod["metadata"]["annotations"][TEMPLATE_ANNOTATION] == "old" for pod in going)
    working = [pod for pod in going if runs(pod)]
    assert len(working) <= 1
    if working:
        assert sum(runs(pod) for pod in executors) >= wanted


def test_state_of_another_meaning_is_not_touched() -> None:
    app = Simulation()
    app.apply(60, **SPEC)
    good = app.version
    other = [TOPOLOGY[0], {**TOPOLOGY[1], "aggregate": {"n": "max(value)"}}, TOPOLOGY[2]]
    app.apply(60, **{**SPEC, "topology": other, "replicas": 2})
    valid = app.condition("TopologyValid")
    assert (valid["status"], valid["reason"]) == ("False", "NeedsStateMigration")
    assert "store 'counts' (node 'counts', changelog app-counts-changelog) holds state" in valid["message"]
    assert "undo the change, or give the node another `store`" in valid["message"]
    assert (app.running, app.ran, app.status["desiredReplicas"]) == (good, [good], 2)
    assert app.status["plan"]["outcome"] == "Refused"
    assert ready(app) == stalled(app) == "UpdateRefused"
    assert reasons(app).count("UpdateRefused") == 1
    app.apply(60, **SPEC)
    assert app.condition("TopologyValid")["status"] == "True"


def test_a_manifest_that_is_wrong_leaves_all_that_is_live() -> None:
    app = Simulation()
    app.apply(60, **SPEC)
    good = app.version
    app.apply(10, **with_image("x", driver={"resources": {"limits": {"memory": "1Mi"}}}, replicas=3))
    assert app.condition("TopologyValid")["reason"] == "Invalid"
    assert (app.running, app.status["desiredReplicas"]) == (good, 3)
    assert ready(app) == stalled(app) == "UpdateRefused"
    app.apply(10, **with_image("x", driver={"resources": {"limits": {"memory": "1Mi"}}}, suspend=True))
    assert app.running == ""


def test_what_is_kept_survives_the_loss_of_everything_else() -> None:
    """An operator starts anew, a status is lost, an object is deleted by hand."""
    app = Simulation(by_image(bad=stands_still))
    app.apply(60, **SPEC)
    good = app.version
    app.apply(**with_image("bad"))
    app.run(DEADLINE + 120, every=20)
    app.trial, app.body["status"] = None, {}
    del app.children["StatefulSet", "app-driver"]
    del app.children["ConfigMap", "app-config"]
    app.run(DEADLINE + 120, every=20)
    assert (app.running, app.version, app.status["healthyVersion"]) == (good, good, good)
    assert app.condition("Degraded")["reason"] == "RolledBack"


IMAGES = ("good", "fine", "still", "broken")


@settings(max_examples=20, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(IMAGES), st.integers(0, 20), st.booleans(), st.booleans()), min_size=1, max_size=6
    )
)
def test_whatever_is_applied_when(steps: list[tuple[str, int, bool, bool]]) -> None:
    """A bad version never becomes healthy. In the end something good runs, if any good version was ever proven, or the
    spec asks for one."""
    behaviour = by_image(still=stands_still, broken=fails("CodeError: x"))
    app = Simulation(behaviour)
    proven = False
    for image, looks, forget, restart in steps:
        app.apply(0, **with_image(image))
        if restart:
            app.restart(0)
        for _ in range(looks):
            app.run(20, every=20)
            if forget:
                app.body["status"] = {}
            for version in _versions(app):
                bad = version["data"]["spec"]["image"] in ("still", "broken")
                word = version["metadata"]["annotations"].get("streamapp.dev/verdict")
                assert word != (HEALTHY if bad else REJECTED)
                proven |= word == HEALTHY
            assert len(_versions(app)) <= 3
    asked = steps[-1][0]
    app.run(2 * DEADLINE, every=20)
    if proven or asked in ("good", "fine"):
        runs = next(v for v in _versions(app) if v["metadata"]["name"] == app.running)
        assert runs["data"]["spec"]["image"] in ("good", "fine")
    before = dict(app.children)
    assert app.look().actions == ()
    assert app.children == before


def _versions(app: Simulation) -> list[Any]:
    return [item for (kind, _), item in app.children.items() if kind == "ControllerRevision"]


# --- the trial by itself ------------------------------------------------------------------------------------

UP = DriverState(RUNNING, ready=True, uid="p")


@given(st.lists(st.tuples(st.sampled_from(["Running", "Restoring", "Starting"]), st.integers(0, 9), st.integers(0, 1))))
def test_nothing_is_healthy_that_was_not_well_for_a_while(looks: list[tuple[str, int, int]]) -> None:
    trial: Trial | None = None
    well_since = None
    now = START
    for phase, lag, epochs in looks:
        look = Look(False, UP, 0, read_answer(live(phase, lag, epochs)), {"counts": lag} if lag else {})
        verdict, trial = judge(look, trial, "v", DEADLINE, now)
        if phase != "Running" or (lag > 0 and epochs == 0):
            well_since = None
        elif well_since is None:
            well_since = now
        if verdict is not None and verdict.word == HEALTHY:
            assert well_since is not None
            assert (now - well_since).total_seconds() >= PROOF_SECONDS
        now += timedelta(seconds=4)


def looks(*seen: tuple[int, dict[str, int], dict[str, int]]) -> list[str]:
    """The verdict at each look, five seconds apart, of a driver with this lag, this many epochs by sub-topology, and
    records that wait."""
    trial: Trial | None = None
    found = []
    for at, (lag, epochs, waiting) in enumerate(seen):
        parts = {name: {"epoch": count, "epochs": count} for name, count in epochs.items()}
        look = Look(False, UP, 0, read_answer(live(lag=lag, subTopologies=parts)), waiting)
        verdict, trial = judge(look, trial, "v", DEADLINE, START + timedelta(seconds=5 * at))
        found.append(verdict.word if verdict is not None else "")
    return found


def test_an_app_that_always_has_something_to_do_is_healthy_while_epochs_go_on() -> None:
    busy = [(900, {"a": 1}, {"a": 900}), (400, {"a": 9}, {"a": 400}), (500, {"a": 20}, {"a": 500})]
    assert looks((1000, {}, {"a": 1000}), *busy, (450, {"a": 30}, {"a": 450})) == ["", "", "", HEALTHY, HEALTHY]


def test_long_epochs_are_waited_for() -> None:
    still, done = (500, {"a": 1}, {"a": 500}), (300, {"a": 2}, {"a": 300})
    assert looks((1000, {}, {"a": 1000}), still, still, still, still, still, done)[-2:] == ["", HEALTHY]


def test_one_sub_topology_of_two_that_hangs() -> None:
    seen = [(1000 - at, {"a": 10 * at, "b": 1}, {"a": 10, "b": 300}) for at in range(20)]
    assert set(looks((2000, {}, {"a": 1000, "b": 1000}), *seen)) == {""}


def test_a_sub_topology_that_has_nothing_to_do_need_not_commit_epochs() -> None:
    seen = [(1000 - at, {"a": 1 + at}, {"a": 1000 - at}) for at in range(5)]
    assert looks((2000, {}, {"a": 2000}), *seen)[3] == HEALTHY


def test_what_was_seen_of_another_attempt_does_not_count() -> None:
    well = Look(False, UP, 0, read_answer(live()))
    _, trial = judge(well, None, "v", DEADLINE, START)
    later = START + timedelta(seconds=PROOF_SECONDS)
    assert judge(well, trial, "v", DEADLINE, later)[0] is not None
    assert judge(well, trial, "v@again", DEADLINE, later)[0] is None


# --- failures -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cause", [cause for cause, budget in BUDGETS.items() if budget is not None])
def test_an_app_that_fails_too_often_stays_down_until_somebody_does_something(cause: str) -> None:
    app = Simulation(lambda spec, seconds: {"live": live("Starting")})
    app.apply(10, **SPEC)
    failing: Any = fails(f"{cause}: it is bad")
    app.behaviour = by_image(**{"": failing, "fixed": works})
    if cause == "OutOfMemory":
        app._set_status = lambda failure: _out_of_memory(app)  # type: ignore[method-assign]
    app.run(400, every=20)
    assert app.status["phase"] == "Failed"
    assert app.running == ""
    assert app.status["failures"]["counts"] == {cause: (BUDGETS[cause] or 0) + 1}
    ready = app.condition("Ready")
    assert (ready["status"], ready["reason"]) == ("False", "RestartsUsedUp")
    assert "kubectl streamapp restart app" in ready["message"]
    assert reasons(app).count("Failed") == 1
    assert reasons(app).count("RestartsUsedUp") == 1
    app.restart(10)
    assert app.running != ""
    app.run(400, every=20)
    assert app.running == ""
    app.apply(10, **{**SPEC, "replicas": 2})  # which cannot help
    assert app.running == ""
    app.apply(60, **with_image("fixed"))
    assert app.status["healthyVersion"] == app.running


def _out_of_memory(app: Simulation) -> None:
    assert app.driver is not None
    ended = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}
    container = {"name": "driver", "restartCount": app.failed, "started": True, "state": {"running": {}}}
    app.driver["status"] = {
        "phase": "Running",
        "containerStatuses": [{**container, **({"lastState": ended} if app.failed else {})}],
    }


def test_infrastructure_may_be_away_for_days() -> None:
    app = Simulation(fails("Infrastructure: no broker answers"))
    app.apply(**SPEC)
    app.run(3600, every=20)
    assert app.running == app.version
    assert app.status["failures"]["counts"]["Infrastructure"] > 50


def test_failures_are_forgotten_after_a_while_without_any() -> None:
    app = Simulation(fails("DataError: a bad record"))
    app.apply(45, **SPEC)
    assert app.status["failures"]["counts"] == {"DataError": 2}
    app.behaviour = works
    app.run(590)
    assert app.status["failures"]["counts"] == {"DataError": 2}
    app.run(60)
    assert "counts" not in app.status["failures"]
    app.behaviour = fails("DataError: another bad record")
    app.run(45)
    assert app.status["failures"]["counts"]["DataError"] == 3


@given(st.lists(st.tuples(st.integers(0, 2), st.booleans(), st.booleans()), max_size=30))
def test_every_failure_is_counted_once(steps: list[tuple[int, bool, bool]]) -> None:
    """The count does not depend on how often the operator looks, on what it misses in between, or on the pod."""
    kept: Any = None
    total = ended = pod = 0
    for fresh, another, look in steps:
        if another:  # which includes failures that were not looked at in time
            pod, ended, total = pod + 1, 0, (kept or {}).get("counts", {}).get("DataError", 0)
        ended += fresh
        total += fresh
        if look:
            for _ in range(2):
                found = _counted(kept, str(pod), ended)
                kept = found.to_status()
                assert found.counts.get("DataError", 0) == total


def _counted(kept: Mapping[str, Any] | None, uid: str, ended: int) -> Failures:
    driver = DriverState(RUNNING, error="bad", cause="DataError", ended=ended, uid=uid)
    return count_failures(kept or {}, driver, "v", outdated=False, well=False, now=START)
