# SPDX-License-Identifier: Apache-2.0
"""An app goes on with the state of an earlier owner by its exact name, and only if that owner is gone."""

from __future__ import annotations

import copy
from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any

import pytest
import yaml

from lib.operator import WORD_COUNT
from streamapp.errors import ManifestError
from streamapp.owner import checked_owner
from streamapp_operator.decide.actions import Apply
from streamapp_operator.decide.decision import decide
from streamapp_operator.driver.client import Drivers
from streamapp_operator.manifest.app import read_app
from streamapp_operator.observe.lag import Lags
from streamapp_operator.observe.observation import Observation
from streamapp_operator.observe.observer import observe
from streamapp_operator.render import Credentials, render
from streamapp_operator.settings import Settings

NOW = datetime(2024, 3, 13, tzinfo=UTC)
OLD = "default/word-count/0f8fad5b"
UNLIKELY = (
    "word-count",
    "a/b",
    "local/",
    "local/a/b/c",
    "a//b",
    "../a/b",
    "a/b/c\n",
    "A/b/c",
    "local/$(x)",
    "a/b/" + "c" * 999,
)


def body(adopts: str | None = None, **metadata: Any) -> dict[str, Any]:
    found: dict[str, Any] = copy.deepcopy(yaml.safe_load(WORD_COUNT))
    annotations = {} if adopts is None else {"streamapp.dev/adopt": adopts}
    found["metadata"] |= {"namespace": "shop", "uid": "2", "generation": 1, "annotations": annotations, **metadata}
    return found


def command(resource: dict[str, Any]) -> list[str]:
    objects = render(read_app(resource), Settings(), Credentials("token", "secret"))
    (driver,) = (item for item in objects if item["kind"] == "StatefulSet")
    (container,) = driver["spec"]["template"]["spec"]["containers"]
    return [str(word) for word in container.get("command", []) + container.get("args", [])]


def option(words: list[str], name: str) -> str | None:
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word == f"--{name}":
            return following
        if word.startswith(f"--{name}="):
            return word.partition("=")[2]
    return None


def test_the_driver_gets_the_owner_of_before() -> None:
    assert option(command(body()), "adopt") is None
    words = command(body(OLD))
    assert (option(words, "owner"), option(words, "adopt")) == ("shop/word-count/2", OLD)
    assert option(command(body("local/word-count")), "adopt") == "local/word-count"


def test_another_owner_is_another_try() -> None:
    """An app whose restarts are used up, as it was refused, starts again."""
    attempts = {read_app(body(adopts)).attempt for adopts in (None, OLD, "local/word-count")}
    assert len(attempts) == 3


@pytest.mark.parametrize("text", UNLIKELY)
def test_what_no_owner_is_called_is_refused(text: str) -> None:
    with pytest.raises(
        ManifestError, match=r"metadata\.annotations\.streamapp\.dev/adopt.*is no owner of an application"
    ):
        read_app(body(text))
    with pytest.raises(ValueError, match="write NAMESPACE/NAME/UID or local/NAME"):
        checked_owner(text)
    made = decide(Observation(body(text)), Settings(), Credentials("token", "secret"), NOW)
    assert not [action for action in made.actions if isinstance(action, Apply)]


class _Cluster:
    """Resources, and nothing else."""

    def __init__(self, *bodies: dict[str, Any]) -> None:
        self._bodies = bodies

    def get(self, kind: str, namespace: str, name: str) -> dict[str, Any] | None:
        place = (namespace, name)
        found = [item for item in self._bodies if (item["metadata"]["namespace"], item["metadata"]["name"]) == place]
        return found[0] if kind == "StreamApp" and found else None

    def lists(self, kinds: Collection[str], namespace: str, selector: str) -> dict[str, list[dict[str, Any]]]:
        return {kind: [] for kind in kinds}


@pytest.mark.parametrize(
    ("uid", "refused"), [("0f8fad5b", True), ("another", False)], ids=["still there", "made anew under its name"]
)
def test_the_state_of_an_app_that_is_there_is_not_taken(uid: str, refused: bool) -> None:
    there = body(namespace="default", uid=uid)
    seen = observe(_Cluster(body(OLD), there), Lags(), Drivers(), "shop", "word-count")
    assert seen is not None
    decision = decide(seen, Settings(), Credentials("token", "secret"), NOW)
    words = "; ".join(decision.facts.problems)
    assert ("'word-count' in namespace 'default' is still there" in words) is refused
    assert any(isinstance(action, Apply) for action in decision.actions) is not refused


def test_an_app_may_name_itself() -> None:
    resource = body("shop/word-count/2")
    seen = observe(_Cluster(resource), Lags(), Drivers(), "shop", "word-count")
    assert seen is not None
    assert decide(seen, Settings(), Credentials("token", "secret"), NOW).facts.problems == ()
