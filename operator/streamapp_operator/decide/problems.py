# SPDX-License-Identifier: Apache-2.0
"""Everything that is wrong with a resource, in one go. Code that needs an app stops at the first problem; here each
check stands by itself, so that none hides the findings of the others. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from streamapp.errors import ManifestError, Problem
from streamapp_operator.manifest.addresses import problems_of_addresses
from streamapp_operator.manifest.app import App, read_app
from streamapp_operator.manifest.modules import with_modules
from streamapp_operator.render.config import config_map
from streamapp_operator.render.meta import Object
from streamapp_operator.render.permits import problem_of_image, problems_of_template
from streamapp_operator.render.runs import kubernetes_line
from streamapp_operator.render.sizes import driver_size, executor_size_of
from streamapp_operator.settings import Settings


def mistakes_of(body: Mapping[str, Any], code: Object | None, settings: Settings) -> tuple[str, ...]:
    """One line for each mistake; empty when nothing is wrong.

    Args:
        body: the resource.
        code: the ConfigMap that it names for its modules, if there is one.
        settings: of the operator.
    """
    lines: dict[str, None] = {}
    for error in _errors(body, code, settings):
        lines |= dict.fromkeys(str(problem) for problem in error.problems)
        if (left_open := error.left_open()) is not None:
            lines[left_open] = None
    return tuple(lines)


def _errors(body: Mapping[str, Any], code: Object | None, settings: Settings) -> Iterator[ManifestError]:
    spec = body["spec"]
    app: App | None = None
    try:
        body = with_modules(body, code)
    except ManifestError as error:
        yield error
    try:
        app = read_app(body)
    except ManifestError as error:
        yield error
    try:
        driver_size(_resources(spec, "driver"), settings.driver_resources)
    except ManifestError as error:
        yield error
    try:
        calls_functions = app is not None and app.plan.calls_functions
        executor_size_of(_resources(spec, "executor"), settings.executor_resources, calls_functions)
    except ManifestError as error:
        yield error
    try:
        kubernetes_line(str(spec.get("schedule", "* * * * *")))
    except ManifestError as error:
        yield error
    except ValueError:  # which is no cron line at all: the manifest's model has reported it
        pass
    refused = [each for role in ("driver", "executor") for each in _refused_template(spec, role, settings)]
    image = spec.get("image")
    if isinstance(image, str) and (problem := problem_of_image(image, settings)) is not None:
        refused.append(problem)
    if app is not None:
        refused += problems_of_addresses(app.plan.kafka, settings)
    if refused:
        yield ManifestError(refused)
    try:
        if app is not None:
            config_map(app, settings)
    except ManifestError as error:
        yield error


def _refused_template(spec: Mapping[str, Any], role: str, settings: Settings) -> Iterator[Problem]:
    """The problems of a pod template; the manifest may be wrong in any way."""
    pods = spec.get(role)
    return problems_of_template(role, pods.get("podTemplate") if isinstance(pods, dict) else None, settings)


def _resources(spec: Mapping[str, Any], role: str) -> Mapping[str, Any] | None:
    """The resources of a role; the manifest may be wrong in any way."""
    pods = spec.get(role)
    found = pods.get("resources") if isinstance(pods, dict) else None
    return found if isinstance(found, dict) else None
