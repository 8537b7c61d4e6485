# SPDX-License-Identifier: Apache-2.0
"""Updates on a real API server: versions are kept there, prove themselves, and are taken back."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from lib.operator import WORD_COUNT, Apps, Crash
from lib.rollouts import STUCK, WELL, prove, renew, versions
from lib.wait import until
from streamapp.cli.main import main
from streamapp_operator.driver.restart_budget import BUDGETS
from streamapp_operator.memory import TURN_SECONDS, Memory
from streamapp_operator.names import config_name
from streamapp_operator.settings import Settings
from streamapp_operator.turns import Turns

pytestmark = pytest.mark.cluster


@pytest.fixture
def proven(apps: Apps, tmp_path: Path) -> str:
    """The name of a version that has proved itself."""
    apps.create(upgrade={"progressDeadline": "60s"})
    apps.settle()
    return prove(apps, tmp_path)


def test_a_plan_is_in_status_before_anything_is_done(apps: Apps, proven: str) -> None:
    apps.change(epochInterval="1s", replicas=2)
    before = apps.get("ConfigMap", "word-count-config")["metadata"]["resourceVersion"]
    with pytest.raises(Crash), apps.crashing_after(1):
        apps.reconcile()
    assert apps.get("ConfigMap", "word-count-config")["metadata"]["resourceVersion"] == before
    plan = apps.status()["plan"]
    assert (plan["generation"], plan["outcome"]) == (2, "Applied")
    assert (plan["class"], plan["restarts"]) == ("RestartQuery", "Driver")
    assert plan["changes"] == [
        {"field": "epochInterval", "class": "RestartQuery", "change": "epochInterval: 100ms becomes 1s"},
        {"field": "replicas", "class": "Live", "change": "replicas: 2 is new"},
    ]
    assert [(each["name"], each["outcome"]) for each in plan["state"]] == [("word-counts", "Kept")]
    apps.settle()
    assert apps.status()["plan"] == plan


def test_what_is_live_makes_no_new_version(apps: Apps, proven: str) -> None:
    driver = apps.await_driver()["metadata"]["uid"]
    apps.change(replicas=2, deletionPolicy="Delete")
    apps.settle()
    assert apps.await_driver()["metadata"]["uid"] == driver
    assert set(versions(apps)) == {proven}
    plan = apps.status()["plan"]
    assert (plan["class"], plan["restarts"]) == ("Live", "Nothing")
    assert [change["field"] for change in plan["changes"]] == ["deletionPolicy", "replicas"]


def test_a_version_that_proves_itself_takes_the_place_of_the_one_before(
    apps: Apps, proven: str, tmp_path: Path
) -> None:
    driver = apps.await_driver()
    apps.change(epochInterval="1s")
    apps.settle()
    assert proven in versions(apps)
    assert len(versions(apps)) == 2
    renew(apps, driver)
    new = prove(apps, tmp_path)
    assert new != proven
    assert set(versions(apps)) == {new}
    assert versions(apps)[new]["revision"] == 2
    assert apps.events().count("Healthy") == 2
    apps.settle()
    with apps.counting() as writes:
        apps.reconcile()
    assert writes == []


def test_one_that_does_not_is_taken_back(apps: Apps, proven: str, tmp_path: Path) -> None:
    apps.change(epochInterval="1s")
    driver = apps.await_driver()
    apps.settle()
    driver = renew(apps, driver)
    with apps.driver_says(STUCK, tmp_path):
        apps.pass_time(40)
        assert apps.condition("Ready")["status"] == "Unknown"
        progressing = apps.condition("Progressing")
        assert (progressing["status"], progressing["reason"]) == ("True", "Proving")
        assert "when it does not for 60 s, generation 1 comes back" in progressing["message"]
        apps.pass_time(40)
    degraded = apps.condition("Degraded")
    assert (degraded["status"], degraded["reason"]) == ("True", "RolledBack")
    why = "generation 2 was taken back: within 60 s sub-topology 'word-counts' committed no epoch"
    assert why in degraded["message"]
    assert apps.status()["version"] == proven
    assert "RolledBack" in apps.events()
    assert '"epoch_interval_ms": 100,' in apps.get("ConfigMap", "word-count-config")["data"]["plan.json"]
    renew(apps, driver)
    apps.memory = Memory()  # an operator that starts anew knows it, too
    with apps.driver_says(WELL, tmp_path):
        apps.pass_time(200)
        assert apps.status()["version"] == proven
        assert apps.condition("Ready")["reason"] == apps.condition("Degraded")["reason"] == "RolledBack"
        assert apps.condition("Stalled")["status"] == "True"
        with apps.counting() as writes:
            apps.reconcile()
        assert writes == []
    apps.change(epochInterval="2s")
    apps.settle()
    assert apps.status()["version"] not in (proven, degraded)
    assert apps.condition("Degraded")["reason"] != "RolledBack"


def test_a_driver_that_ends_over_its_users_mistake_is_taken_back_at_once(apps: Apps, proven: str) -> None:
    driver = apps.await_driver()
    apps.change(topology=_topology(flatMap={"word": "split(value, ',')"}, name="words", store=True))
    apps.settle()
    driver = renew(apps, driver)
    apps.set_failed(driver, "CodeError: sub-topology 'counts': DIVIDE_BY_ZERO: Division by zero.")
    apps.settle()
    assert apps.status()["version"] == proven
    assert "DIVIDE_BY_ZERO" in apps.condition("Degraded")["message"]


def test_a_crash_after_any_write_of_an_update_makes_no_difference(apps: Apps, proven: str, tmp_path: Path) -> None:
    """R12, of an update that is taken back."""
    count = 0
    while True:
        driver = apps.await_driver()
        apps.change(epochInterval=f"{count + 1}s")
        _settle_with_crash(apps, count)
        driver = renew(apps, driver)
        crashed = False
        with apps.driver_says(STUCK, tmp_path):
            apps.pass_time(55)
            apps.now = apps.now and apps.now.replace(microsecond=0)
            try:
                with apps.crashing_after(count):
                    apps.pass_time(30)
            except Crash:
                crashed = True
                apps.pass_time(90)  # its memory is lost with it: the version's time begins anew
        renew(apps, driver)
        assert apps.status()["version"] == proven, f"after a crash at write {count}"
        assert len(versions(apps)) == 2
        assert apps.status()["plan"]["outcome"] == "RolledBack"
        if not crashed:
            assert count > 3
            return
        count += 1


def _settle_with_crash(apps: Apps, count: int) -> None:
    try:
        with apps.crashing_after(count):
            apps.settle()
    except Crash:
        apps.settle()


def test_an_update_that_needs_a_migration_is_not_made(apps: Apps, proven: str) -> None:
    driver = apps.await_driver()["metadata"]["uid"]
    apps.change(topology=_topology(flatMap={"word": "split(value, ' ')"}))
    apps.settle()
    valid = apps.condition("TopologyValid")
    assert (valid["status"], valid["reason"], valid["observedGeneration"]) == ("False", "NeedsStateMigration", 2)
    said = "node 'words' changes: store 'word-counts' (node 'counts', changelog word-count-word-counts-changelog) holds"
    assert said in valid["message"]
    assert apps.status()["plan"]["outcome"] == "Refused"
    assert apps.await_driver()["metadata"]["uid"] == driver
    assert set(versions(apps)) == {proven}
    assert "UpdateRefused" in apps.events()
    apps.change(replicas=3)  # a field that takes effect at once still does
    apps.settle()
    assert apps.status()["desiredReplicas"] == 3
    role = apps.get("Role", "word-count-driver")["metadata"]
    apps.kube.delete("Role", apps.namespace, role["name"], role["uid"])
    apps.settle()  # and a deleted object is made again
    assert apps.get("Role", "word-count-driver")
    apps.change(topology=_topology(flatMap={"word": "split(value, ' ')"}, store=True))
    apps.settle()
    assert apps.condition("TopologyValid")["status"] == "True"
    assert apps.status()["plan"]["outcome"] == "Applied"


def test_a_plan_of_another_version_is_not_run_and_told(apps: Apps, tmp_path: Path) -> None:
    """R18. An app may have an image of its own, with another runtime than the operator's."""
    apps.create()
    apps.settle()
    driver = apps.await_driver()
    (container,) = driver["spec"]["containers"]
    plan = json.loads(apps.get("ConfigMap", config_name("word-count"))["data"]["plan.json"])
    (tmp_path / "plan.json").write_text(json.dumps(plan | {"version": plan["version"] - 1}))
    said = tmp_path / "said"
    places = {"/etc/streamapp/config/plan.json": str(tmp_path / "plan.json")}
    places[f"--termination-log={container['terminationMessagePath']}"] = f"--termination-log={said}"
    assert set(places) <= set(container["args"])
    words = [places.get(word, word) for word in container["args"]]
    command = [sys.executable, "-m", "streamapp.cli.main", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1, done.stderr
    assert "created topic" not in done.stdout, "it has talked to Kafka"
    assert said.read_text() == (
        f"InputError: the plan has version {plan['version'] - 1}, and this runtime reads version {plan['version']}"
    )
    budget = BUDGETS["InputError"]
    assert budget is not None
    for count in range(1, budget + 2):
        apps.set_failed(driver, said.read_text(), count)
        apps.settle()
        degraded = apps.condition("Degraded")
        assert f"this runtime reads version {plan['version']}" in degraded["message"]
        assert degraded["reason"] == ("RestartsUsedUp" if count > budget else "DriverFailed")


def test_a_driver_that_fails_too_often_stays_down(apps: Apps) -> None:
    apps.create()
    apps.settle()
    driver = apps.await_driver()
    for count in range(1, 5):
        apps.set_failed(driver, "DataError: node 'lines': topic text-lines, partition 0, offset 7: bad", count)
        apps.settle()
    assert apps.status()["phase"] == "Failed"
    assert apps.status()["failures"]["counts"] == {"DataError": 4}
    ready = apps.condition("Ready")
    assert (ready["status"], ready["reason"]) == ("False", "RestartsUsedUp")
    assert "offset 7: bad" in ready["message"]
    assert "kubectl streamapp restart word-count" in ready["message"]
    name = driver["metadata"]["name"]
    until(lambda: apps.kube.get("Pod", apps.namespace, name) is None, 30, "the driver is gone", every=0.1)
    apps.settle()
    assert apps.status()["phase"] == "Failed"
    apps.memory = Memory()
    with apps.counting() as writes:
        apps.reconcile()
    assert writes == []
    apps.kube.merge(
        "StreamApp",
        apps.namespace,
        "word-count",
        {"metadata": {"annotations": {"streamapp.dev/restart-at": "2024-01-01T00:00:00Z"}}},
    )
    apps.settle()
    apps.await_driver(other_than=driver["metadata"]["uid"])
    assert "counts" not in apps.status().get("failures", {})


def _topology(*, store: bool = False, name: str = "words", **change: Any) -> list[Any]:
    """The topology of the word count, with one node changed, and with another store."""
    topology: list[Any] = yaml.safe_load(WORD_COUNT)["spec"]["topology"]
    changed = [{**node, **change} if node["name"] == name else node for node in topology]
    if store:
        changed = [{**node, "store": "other-counts"} if node["name"] == "counts" else node for node in changed]
    return changed


def test_plan_says_beforehand_what_status_says(
    apps: Apps, proven: str, api: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    body = yaml.safe_load(WORD_COUNT)
    body["spec"]["upgrade"] = {"progressDeadline": "60s"}
    body["spec"]["topology"] = _topology(flatMap={"word": "split(value, ' ')"})
    (tmp_path / "app.yaml").write_text(yaml.safe_dump(body))
    place = ("--kubeconfig", str(api.kubeconfig), "--namespace", apps.namespace)
    assert main(["plan", str(tmp_path / "app.yaml"), *place]) == 1
    said = capsys.readouterr().out
    apps.change(topology=body["spec"]["topology"])
    apps.settle()
    plan = apps.status()["plan"]
    assert plan["why"] in said
    main(["status", "word-count", *place])
    assert "  last change generation 2: NeedsStateMigration, Refused\n" in capsys.readouterr().out
    assert all(f"{change['class']}  {change['change']}\n" in said for change in plan["changes"])


def test_another_image_of_the_operator_restarts_so_many_drivers_at_a_time(apps: Apps, tmp_path: Path) -> None:
    names = ("first", "second")
    apps.memory.turns = Turns(1, TURN_SECONDS)
    drivers = {}
    with ExitStack() as stack:
        for name in names:
            apps.create(WORD_COUNT.replace("name: word-count}", f"name: {name}}}"))
            apps.settle(name)
            drivers[name] = apps.await_driver(name)["metadata"]["uid"]
            (folder := tmp_path / name).mkdir()
            stack.enter_context(apps.driver_says(WELL, folder, name))
            apps.add_executor(name=name)
            apps.settle(name)
        apps.settings = Settings(image="streamapp/runtime:next")
        for name in names:
            apps.settle(name)
        again = apps.await_driver("first", other_than=drivers["first"])
        assert again["spec"]["containers"][0]["image"] == "streamapp/runtime:next"
        apps.settle("second")
        second = apps.get("Pod", "second-driver-0")["metadata"]
        assert (second["uid"], second.get("deletionTimestamp")) == (drivers["second"], None)
        assert apps.condition("Ready", "second")["reason"] == "Updating"
        # A version that somebody has asked for takes effect.
        apps.change("second", epochInterval="7s")
        apps.settle("second")
        apps.await_driver("second", other_than=drivers["second"])
