# SPDX-License-Identifier: Apache-2.0
"""Updates of a running app: some fields restart nothing, the others restart the driver, and a version that fails is
taken back; results are exact all along."""

from __future__ import annotations

import json

import pytest
import yaml

from cluster.word_count import LINES, WordCount

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]


def await_healthy(words: WordCount, *, other_than: str = "") -> str:
    """Waits until the version that runs has proved itself; returns its name."""

    def proven() -> bool:
        status = words.status()
        healthy = status.get("healthyVersion", "")
        return healthy not in ("", other_than) and bool(healthy == status["version"])

    words._until(proven, 120, "the version has proved itself")
    return str(words.status()["healthyVersion"])


SPLIT = """
def words(row):
    return [{"word": word} for word in row["value"].lower().split(" ")]
"""


def put_code(words: WordCount, text: str) -> None:
    """Makes the ConfigMap that the app's `code` names, or changes it."""
    made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "splitting"}, "data": {"splitting.py": text}}
    words.namespace.apply(json.dumps(made))


def test_only_what_must_is_started_anew(words: WordCount) -> None:
    """On the way, a user's function from a ConfigMap, whose change is an update like any other."""
    put_code(words, SPLIT)
    words.manifest["spec"]["code"] = {"configMapRef": {"name": "splitting"}}
    words.manifest["spec"]["topology"][1] = {
        "name": "words",
        "python": {"function": "splitting:words", "schema": "word STRING"},
    }
    words.apply(yaml.safe_dump(words.manifest))
    words.say(*LINES)
    words.await_ready()
    first = await_healthy(words)
    driver = words.driver()["metadata"]["uid"]

    words.patch(replicas=2)
    words.await_executors(2)
    plan = words.status()["plan"]
    assert (plan["class"], plan["restarts"], plan["outcome"]) == ("Live", "Nothing", "Applied")
    assert words.driver()["metadata"]["uid"] == driver

    words.await_counts(LINES)

    put_code(words, SPLIT.replace("]\n", " if word != 'hush']\n"))
    words.await_ready(other_than=driver)
    plan = words.status()["plan"]
    assert (plan["class"], plan["restarts"], plan["outcome"]) == ("RestartQuery", "Driver", "Applied")
    assert [change["field"] for change in plan["changes"]] == ["code.files.splitting.py"]
    words.say("hush", *LINES)
    words.await_counts(2 * LINES)
    await_healthy(words, other_than=first)


@pytest.mark.chaos
def test_another_pod_template_is_rolled_out_under_the_running_query(words: WordCount) -> None:
    words.manifest["spec"]["replicas"] = 2
    words.apply(yaml.safe_dump(words.manifest))
    words.say(*LINES)
    words.await_ready()
    words.await_executors(2)
    before = words.executors()
    driver = words.driver()["metadata"]["uid"]

    words.patch(executor={"podTemplate": {"metadata": {"annotations": {"note": "new"}}}})
    words._until(lambda: not {*before} & {*words.executors()}, 240, "all executors are replaced")
    words.await_executors(2)
    for name in words.executors():
        assert words.namespace.get(f"pod/{name}")["metadata"]["annotations"]["note"] == "new"
    plan = words.status()["plan"]
    assert (plan["class"], plan["restarts"], plan["outcome"]) == ("RollExecutors", "Executors", "Applied")
    words.say(*LINES)
    words.await_counts(2 * LINES)
    assert words.driver()["metadata"]["uid"] == driver
    assert words.status()["restarts"] == 0
    await_healthy(words)


@pytest.mark.chaos
def test_code_that_fails_is_taken_back(words: WordCount) -> None:
    words.apply(yaml.safe_dump(words.manifest))
    words.say(*LINES)
    words.await_ready()
    good = await_healthy(words)

    topology = words.manifest["spec"]["topology"]
    wrong = {"name": "numbers", "from": "lines", "filter": "cast(value AS int) > 0"}
    words.patch(topology=[topology[0], wrong, {**topology[1], "from": "numbers"}, *topology[2:]])
    words._until(lambda: words.status()["version"] != good, 30, "the new version is acted upon")
    words.say("not a number")
    words._until(lambda: words.status().get("plan", {}).get("outcome") == "RolledBack", 90, "it is taken back")
    words.await_counts([*LINES, "not a number"])
    assert words.condition("Ready")["reason"] == "RolledBack"
    degraded = words.condition("Degraded")
    assert (degraded["status"], degraded["reason"]) == ("True", "RolledBack")
    assert "CAST_INVALID_INPUT" in degraded["message"]
    assert words.status()["version"] == words.status()["healthyVersion"] == good
    events = words.namespace.kubectl("get", "events", "-o", "jsonpath={.items[*].reason}").split()
    assert {"Healthy", "RolledBack"} <= set(events)
