# SPDX-License-Identifier: Apache-2.0
"""A resource is read, compiled and rendered once as long as it does not change, and the memory of it has a bound."""

from __future__ import annotations

import copy
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
import yaml

from lib.operator import WORD_COUNT
from streamapp.errors import ManifestError
from streamapp_operator import render as rendering
from streamapp_operator.decide.actions import Apply
from streamapp_operator.decide.decision import decide
from streamapp_operator.manifest import app as apps
from streamapp_operator.manifest.app import RESTART_ANNOTATION, read_app
from streamapp_operator.observe.observation import Observation
from streamapp_operator.render import Credentials, render
from streamapp_operator.settings import Settings


def body(**metadata: Any) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(WORD_COUNT)
    found["metadata"] |= {"namespace": "shop", "uid": "1", "generation": 1, **metadata}
    return found


def test_the_same_resource_is_the_same_app() -> None:
    first = read_app(body())
    assert read_app(body()) is first
    assert read_app(body() | {"status": {"phase": "Running"}}) is first


@pytest.mark.parametrize(
    "metadata",
    [
        {"uid": "2"},
        {"namespace": "billing"},
        {"generation": 2},
        {"annotations": {RESTART_ANNOTATION: "now"}},
    ],
)
def test_another_one_is_another(metadata: dict[str, Any]) -> None:
    first, other = read_app(body()), read_app(body(**metadata))
    assert other is not first
    assert other != first


def test_another_spec_is_another_even_of_the_same_generation() -> None:
    """The spec differs if code of a ConfigMap has been put into it, or a former version goes on."""
    changed = copy.deepcopy(body())
    changed["spec"]["epochInterval"] = "7s"
    assert read_app(changed).plan != read_app(body()).plan


def test_what_cannot_be_read_is_told_each_time() -> None:
    wrong = body()
    wrong["spec"]["guarantee"] = "twice"
    for _ in range(2):
        with pytest.raises(ManifestError, match="guarantee"):
            read_app(wrong)


def test_what_is_remembered_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    read = apps._Read()
    monkeypatch.setattr(apps, "_READ", read)
    monkeypatch.setattr(apps, "_LARGEST", 10_000)
    for number in range(100):
        read_app(body(uid=str(number)))
        assert sum(map(len, read._apps)) == read._size <= 10_000
    assert read._apps


CREDENTIALS = Credentials("token", "secret")


def test_the_same_app_is_rendered_once() -> None:
    app = read_app(body())
    first = render(app, Settings(), CREDENTIALS)
    assert render(replace(app), Settings(), CREDENTIALS) is first


@pytest.mark.parametrize("apart", ["app", "settings", "credentials", "halted"])
def test_another_one_is_rendered_anew(apart: str) -> None:
    app = read_app(body())
    first = render(app, Settings(), CREDENTIALS)
    other = render(
        read_app(body(uid="2")) if apart == "app" else replace(app, halted=apart == "halted"),
        Settings(image="other:1") if apart == "settings" else Settings(),
        Credentials("other", "secret") if apart == "credentials" else CREDENTIALS,
    )
    assert other != first


def test_numbers_that_python_takes_for_equal_are_apart() -> None:
    """A label `1` and a label `true` would be equal as objects of Python."""
    app = read_app(body())
    twin = replace(app, manifest=app.manifest.model_copy())
    assert twin == app
    first = render(app, Settings(), CREDENTIALS)
    assert render(twin, Settings(), CREDENTIALS) is not first


def test_renderings_that_are_remembered_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = rendering._Rendered()
    monkeypatch.setattr(rendering, "_RENDERED", memory)
    monkeypatch.setattr(rendering, "_LARGEST", 10 * 64 * 1024)
    app = read_app(body(uid="0"))
    first = render(app, Settings(), CREDENTIALS)
    for number in range(1, 30):
        render(read_app(body(uid=str(number))), Settings(), CREDENTIALS)
        assert sum(each.size for known in memory._known.values() for each in known) <= 10 * 64 * 1024
    assert "29" in memory._known
    assert "0" not in memory._known, "the one that was rendered longest ago went first"
    again = render(app, Settings(), CREDENTIALS)
    assert again is not first
    assert again == first


def test_all_apps_of_a_large_cluster_are_remembered() -> None:
    bodies = [body(uid=f"of many {number}") for number in range(1000)]
    first = [render(read_app(each), Settings(), CREDENTIALS) for each in bodies]
    second = [render(read_app(each), Settings(), CREDENTIALS) for each in bodies]
    assert all(one is other for one, other in zip(first, second, strict=True))


def test_of_one_app_the_latest_few_are_remembered() -> None:
    app = read_app(body(uid="x"))
    for token in map(str, range(10)):
        render(app, Settings(), Credentials(token, "secret"))
    assert len(rendering._RENDERED._known["x"]) == rendering._OF_AN_APP
    kept = render(app, Settings(), Credentials("9", "secret"))
    assert render(app, Settings(), Credentials("9", "secret")) is kept


def test_a_decision_changes_no_rendering() -> None:
    """Renderings are shared: one that a decision or an action has changed would be wrong for the next one."""
    app = read_app(body())
    now = datetime(2026, 1, 1, tzinfo=UTC)
    secret = next(item for item in render(app, Settings(), CREDENTIALS) if item["kind"] == "Secret")
    seen = Observation(body(), children={("Secret", secret["metadata"]["name"]): secret}, silence="there is no driver")
    before = copy.deepcopy(render(app, Settings(), CREDENTIALS))
    decision = decide(seen, Settings(), CREDENTIALS, now)
    assert any(isinstance(action, Apply) for action in decision.actions)
    assert render(app, Settings(), CREDENTIALS) == before
