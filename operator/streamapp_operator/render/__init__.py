# SPDX-License-Identifier: Apache-2.0
"""From an app to its Kubernetes objects. Pure: the same app and settings always give the same objects."""

from __future__ import annotations

from streamapp_operator.app import App
from streamapp_operator.render.access import access
from streamapp_operator.render.config import Credentials, config_map, secret
from streamapp_operator.render.driver import service, stateful_set
from streamapp_operator.render.executors import disruption_budget
from streamapp_operator.render.meta import Object, sealed
from streamapp_operator.render.network import network_policies
from streamapp_operator.settings import Settings

__all__ = ["Credentials", "Object", "render"]


def render(app: App, settings: Settings, credentials: Credentials) -> tuple[Object, ...]:
    """All objects of an app, in an order in which what one needs comes before it.

    Raises:
        ManifestError: when the app cannot be made into objects.
    """
    objects = (
        *access(app),
        secret(app, credentials),
        config_map(app, settings),
        *(network_policies(app) if settings.network_policy else ()),
        disruption_budget(app, 0 if app.stopped else app.plan.replicas),
        service(app),
        stateful_set(app, settings, credentials, 0 if app.stopped else 1),
    )
    return tuple(sealed(item) for item in objects)
