# SPDX-License-Identifier: Apache-2.0
"""A resource is read, compiled and rendered once as long as it does not change, and the memory of it has a bound."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest
import yaml

from lib.operator import WORD_COUNT
from streamapp.errors import ManifestError
from streamapp_operator import render as rendering
from streamapp_operator.manifest import app as apps
from streamapp_operator.manifest.app import RESTART_ANNOTATION, read_app
from streamapp_operator.render import Credentials, render
from streamapp_operator.render.meta import Object
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


@pytest.fixture
def rendered(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The uid of the app of each rendering that is not remembered; nothing is remembered at first."""
    found: list[str] = []
    made = rendering._Request.rendered

    def noted(request: rendering._Request) -> tuple[Object, ...]:
        found.append(request.app.uid)
        return made(request)

    monkeypatch.setattr(rendering, "_RENDERED", rendering._Rendered())
    monkeypatch.setattr(rendering._Request, "rendered", noted)
    return found


def test_the_same_app_is_rendered_once(rendered: list[str]) -> None:
    app = read_app(body())
    first = render(app, Settings(), CREDENTIALS)
    assert render(replace(app), Settings(), CREDENTIALS) == first
    assert rendered == ["1"]


def test_nobody_changes_the_rendering_of_another(rendered: list[str]) -> None:
    app = read_app(body())
    before = copy.deepcopy(render(app, Settings(), CREDENTIALS))
    for _ in range(2):
        for item in render(app, Settings(), CREDENTIALS):
            item.clear()
    assert render(app, Settings(), CREDENTIALS) == before


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


def test_numbers_that_python_takes_for_equal_are_apart(rendered: list[str]) -> None:
    """A label `1` and a label `true` would be equal as objects of Python."""
    app = read_app(body())
    twin = replace(app, manifest=app.manifest.model_copy())
    assert twin == app
    for each in (app, twin):
        render(each, Settings(), CREDENTIALS)
    assert len(rendered) == 2


def test_renderings_that_are_remembered_have_a_bound(rendered: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    largest = 64 * 1024
    monkeypatch.setattr(rendering, "_LARGEST", largest)
    bodies = [body(uid=str(number)) for number in range(30)]

    def known() -> int:
        return sum(len(each.content) for those in rendering._RENDERED._known.values() for each in those)

    for each in bodies:
        render(read_app(each), Settings(), CREDENTIALS)
        assert known() <= largest
    assert known() > largest / 2
    rendered.clear()
    for each in (bodies[-1], bodies[0]):
        render(read_app(each), Settings(), CREDENTIALS)
    assert rendered == ["0"], "the one that was rendered longest ago went first"


def test_all_apps_of_a_large_cluster_are_remembered(rendered: list[str]) -> None:
    bodies = [body(uid=str(number)) for number in range(1000)]
    for _ in range(2):
        for each in bodies:
            render(read_app(each), Settings(), CREDENTIALS)
    assert len(rendered) == 1000


def test_of_one_app_the_latest_few_are_remembered(rendered: list[str]) -> None:
    app = read_app(body())
    for token in map(str, range(10)):
        render(app, Settings(), Credentials(token, "secret"))
    assert len(rendering._RENDERED._known["1"]) == rendering._OF_AN_APP
    rendered.clear()
    for token in map(str, reversed(range(10 - rendering._OF_AN_APP, 10))):
        render(app, Settings(), Credentials(token, "secret"))
    assert rendered == []
