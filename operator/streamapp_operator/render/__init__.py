# SPDX-License-Identifier: Apache-2.0
"""From an app to its Kubernetes objects. Pure: the same app and settings always give the same objects."""

from __future__ import annotations

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
    """All objects of an app, in an order in which what one needs comes before it: the driver comes last.

    Raises:
        ManifestError: when the app cannot be made into objects.
    """
    objects = (
        *access(app, settings),
        secret(app, credentials),
        config_map(app, settings),
        *(network_policies(app, settings) if settings.network_policy else ()),
        disruption_budget(app, 0 if app.stopped else app.plan.replicas),
        service(app),
        *_driver(app, settings, credentials),
    )
    return tuple(sealed(item) for item in objects)


def _driver(app: App, settings: Settings, credentials: Credentials) -> tuple[Object, ...]:
    if not is_bounded(app):
        return (stateful_set(app, settings, credentials, 0 if app.stopped else 1),)
    if app.manifest.spec.schedule is not None:
        return (cron_job(app, settings, credentials),)
    return () if app.stopped else (job(app, settings, credentials),)
