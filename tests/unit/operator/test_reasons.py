# SPDX-License-Identifier: Apache-2.0
"""REASONS has every reason that a condition can have, and none that it never has, whatever the facts about an app."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import yaml

from lib.operator import WORD_COUNT
from streamapp_operator.driver.answer import read_answer
from streamapp_operator.driver.pods import ABSENT, ENDED, FAILED, PENDING, RUNNING, STARTING, STOPPING, DriverState
from streamapp_operator.driver.restart_budget import DATA, STATE, Failures
from streamapp_operator.manifest.app import App, read_app
from streamapp_operator.manifest.change_classes import FORBIDDEN, NEEDS_STATE_MIGRATION
from streamapp_operator.manifest.versions import HEALTHY, Verdict, Version
from streamapp_operator.observe.runs import COMPLETED, Run
from streamapp_operator.observe.runs import FAILED as RUN_FAILED
from streamapp_operator.observe.runs import RUNNING as RUN_RUNNING
from streamapp_operator.scaling import autoscaler as autoscale
from streamapp_operator.status.conditions import REASONS, conditions
from streamapp_operator.status.facts import PHASES, Facts
from streamapp_operator.status.verdicts import EXECUTORS_SECONDS
from streamapp_operator.versions.rollout import INVALID, PAUSED, ROLLED_BACK, Rollout

NOW = datetime(2024, 3, 13, tzinfo=UTC)
LIVE_PHASES = ("Starting", "Restoring", "Running", "Restarting", "Stopped", "Failed")
STATES = (ABSENT, PENDING, STARTING, RUNNING, FAILED, STOPPING, ENDED)
WORDS = [field.name for field in fields(Facts) if field.default == "" and field.name != "before"]
"""The fields that are empty as long as nothing is wrong."""
SEEN = 40_000


def app(**spec: Any) -> App:
    body = yaml.safe_load(WORD_COUNT)
    body["metadata"] |= {"namespace": "shop", "uid": "app-uid", "generation": 1}
    body["spec"] |= spec
    return read_app(body)


STATELESS = [
    {"name": "lines", "stream": {"topic": "text-lines", "value": "text"}},
    {"name": "out", "to": {"topic": "copies", "value": "text"}},
]
APPS = [
    app(),
    app(topology=STATELESS),
    app(topology=[*STATELESS, {"name": "long", "from": "lines", "filter": "length(value) > 9"}]),
    app(replicas=0),
    app(suspend=True),
    app(autoscaling={"maxReplicas": 3}),
    app(autoscaling={"maxReplicas": 3, "mode": "Recommend"}),
    app(autoscaling={"maxReplicas": 3}, suspend=True),
    replace(app(), halted=True),
]
PROVED = Version("word-count-before", 1, {}, Verdict(HEALTHY))


def any_facts(chooser: random.Random) -> Facts:
    """Facts about an app that may be seen, likely or not."""

    def perhaps(value: Any, nothing: Any = None) -> Any:
        return value if chooser.random() < 0.25 else nothing

    wanted = None if chooser.random() < 0.15 else chooser.choice(APPS)
    state = chooser.choice(STATES)
    said = {
        "phase": chooser.choice(LIVE_PHASES),
        "error": perhaps("Kafka does not answer"),
        "lag": {"text-lines/0": chooser.randrange(2)},
    }
    live = said if state == RUNNING and chooser.random() < 0.8 else None
    executors = chooser.randrange(3)
    suspended = wanted.manifest.spec.suspend if wanted is not None else bool(perhaps(True, False))
    paused = bool(perhaps(True, False))
    scaling, policy = None, wanted.manifest.spec.autoscaling if wanted is not None else None
    if policy is not None and not suspended and not paused:
        recommended = 3 if policy.mode == "Recommend" else None
        scaling = autoscale.Decision(1, chooser.choice(autoscale.REASONS), "words", recommended)
    held = perhaps(chooser.choice((INVALID, PAUSED, ROLLED_BACK, NEEDS_STATE_MIGRATION, FORBIDDEN)), "")
    run = Run("job", chooser.choice((RUN_RUNNING, COMPLETED, RUN_FAILED)), ended="then", error="it failed")
    return Facts(
        generation=1,
        app=wanted,
        problems=("something is wrong",) if wanted is None else (),
        suspended=suspended,
        paused=paused,
        changes=perhaps(("make ConfigMap x",), ()),
        driver=DriverState(
            state, "words", ready=chooser.random() < 0.5, trouble=perhaps("words", ""), cause=perhaps(STATE, "")
        ),
        live=read_answer(live),
        silence="it does not answer",
        executors=executors,
        remaining=executors,
        before=chooser.choice(("", *PHASES)),
        scaling=scaling,
        rollout=Rollout(wanted, held, "words", kept=perhaps({PROVED.name: PROVED}, {})),
        failures=Failures("version", {DATA: 9}),
        deleting=bool(perhaps(True, False)) and chooser.random() < 0.2,
        outdated=bool(perhaps(True, False)),
        run=perhaps(run),
        next_run=perhaps(NOW + timedelta(hours=1)),
        **{name: perhaps("words", "") for name in WORDS if name != "silence"},
    )


@pytest.fixture(scope="module")
def emitted() -> dict[str, set[str]]:
    """Reasons by condition, out of very many sets of facts."""
    chooser = random.Random(1)
    long_ago = (NOW - timedelta(seconds=EXECUTORS_SECONDS + 1)).isoformat()
    under_way = {"type": "Progressing", "status": "True", "lastTransitionTime": long_ago}
    found: dict[str, set[str]] = defaultdict(set)
    for _ in range(SEEN):
        for condition in conditions(any_facts(chooser), chooser.choice(((), (under_way,))), NOW):
            found[condition["type"]].add(condition["reason"])
    return found


def test_what_is_told_is_in_the_list(emitted: dict[str, set[str]]) -> None:
    assert set(emitted) == set(REASONS)
    unknown = {f"{kind} {reason}" for kind, found in emitted.items() for reason in found - set(REASONS[kind])}
    assert unknown == set()


@pytest.mark.parametrize("kind", REASONS)
def test_what_is_in_the_list_is_told_of_something(kind: str, emitted: dict[str, set[str]]) -> None:
    assert set(REASONS[kind]) - emitted[kind] == set()
