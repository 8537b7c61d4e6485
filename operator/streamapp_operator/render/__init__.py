# SPDX-License-Identifier: Apache-2.0
"""From an app to its Kubernetes objects. Pure: the same app and settings always give the same objects."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

from streamapp_operator.manifest.app import App
from streamapp_operator.render.access import access
from streamapp_operator.render.config import Credentials, config_map, secret
from streamapp_operator.render.driver import service, stateful_set
from streamapp_operator.render.executors import disruption_budget
from streamapp_operator.render.meta import Object, sealed
from streamapp_operator.render.network import network_policies
from streamapp_operator.render.runs import cron_job, is_bounded, job
from streamapp_operator.settings import Settings

__all__ = ["STARTERS", "Credentials", "Object", "render"]

STARTERS = ("StatefulSet", "Job", "CronJob")
"""Kinds of objects that make the driver's pod; an app has one of them, or none while it is suspended."""


def render(app: App, settings: Settings, credentials: Credentials) -> tuple[Object, ...]:
    """All objects of an app, in an order in which what one needs comes before it: the driver comes last. They are
    shared with other callers: change a copy.

    Raises:
        ManifestError: when the app cannot be made into objects.
    """
    return _RENDERED.of(_Request(app, settings, credentials))


@dataclass(frozen=True, repr=False)
class _Request:
    app: App
    settings: Settings
    credentials: Credentials

    def is_same(self, other: _Request) -> bool:
        # Python takes 1, 1.0 and True of two manifests for equal.
        return self.app.manifest is other.app.manifest and self == other

    def rendered(self) -> tuple[Object, ...]:
        app, settings = self.app, self.settings
        objects = (
            *access(app, settings),
            secret(app, self.credentials),
            config_map(app, settings),
            *(network_policies(app, settings) if settings.network_policy else ()),
            disruption_budget(app, 0 if app.stopped else app.plan.replicas),
            service(app),
            *_driver(app, settings, self.credentials),
        )
        return tuple(sealed(item) for item in objects)


_MOST_RENDERED = 64
"""Renderings that are remembered. A look at an app that changes needs three, and a second look the same again."""


class _Rendered:
    """The objects that were rendered lately, the latest first. Threads share it: one that forgets what another has just
    rendered only costs another rendering."""

    def __init__(self) -> None:
        self._known: tuple[tuple[_Request, tuple[Object, ...]], ...] = ()

    def of(self, request: _Request) -> tuple[Object, ...]:
        known = self._known
        found = next((objects for other, objects in known if request.is_same(other)), None)
        if found is None:
            found = request.rendered()
        others = (entry for entry in known if entry[1] is not found)
        self._known = ((request, found), *islice(others, _MOST_RENDERED - 1))
        return found


_RENDERED = _Rendered()


def _driver(app: App, settings: Settings, credentials: Credentials) -> tuple[Object, ...]:
    if not is_bounded(app):
        return (stateful_set(app, settings, credentials, 0 if app.stopped else 1),)
    if app.manifest.spec.schedule is not None:
        return (cron_job(app, settings, credentials),)
    return () if app.stopped else (job(app, settings, credentials),)
