# SPDX-License-Identifier: Apache-2.0
"""From an app to its Kubernetes objects. Pure: the same app and settings always give the same objects."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
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
    """All objects of an app, in an order in which what one needs comes before it: the driver comes last.

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


_LARGEST = 16 * 1024 * 1024
"""Bytes of all renderings that are remembered. A small app's has four thousand."""
_OF_AN_APP = 3
"""Renderings of one app that are remembered. A look at an app that changes needs three, and a second look the same
again."""


@dataclass(frozen=True)
class _Rendering:
    """Objects as compressed JSON, which takes a tenth of their memory. It is read in a tenth of the time that another
    rendering would take."""

    request: _Request
    content: bytes

    def objects(self) -> tuple[Object, ...]:
        return tuple(json.loads(zlib.decompress(self.content)))


class _Rendered:
    """The objects that were rendered lately. Those of the app that was rendered longest ago go first. Threads share it:
    one that forgets what another has just rendered only costs another rendering."""

    def __init__(self) -> None:
        self._known: Mapping[str, tuple[_Rendering, ...]] = {}
        """By uid of the resource, the latest rendering of each first. It is replaced, never changed."""

    def of(self, request: _Request) -> tuple[Object, ...]:
        uid = request.app.uid
        known = self._known.get(uid, ())
        found = next((each for each in known if request.is_same(each.request)), None)
        if found is not None:
            return found.objects()
        objects = request.rendered()
        rendering = _Rendering(request, zlib.compress(json.dumps(objects).encode(), level=1))
        others = {other: those for other, those in self._known.items() if other != uid}
        self._known = _bounded({**others, uid: (rendering, *known[: _OF_AN_APP - 1])})
        return objects


def _bounded(known: Mapping[str, tuple[_Rendering, ...]]) -> Mapping[str, tuple[_Rendering, ...]]:
    """The same without the first ones, where all together are too large. The last one stays."""
    sizes = [sum(len(each.content) for each in renderings) for renderings in known.values()]
    too_large, first = sum(sizes) - _LARGEST, 0
    while too_large > 0 and first < len(sizes) - 1:
        too_large, first = too_large - sizes[first], first + 1
    return dict(islice(known.items(), first, None)) if first else known


_RENDERED = _Rendered()


def _driver(app: App, settings: Settings, credentials: Credentials) -> tuple[Object, ...]:
    if not is_bounded(app):
        return (stateful_set(app, settings, credentials, 0 if app.stopped else 1),)
    if app.manifest.spec.schedule is not None:
        return (cron_job(app, settings, credentials),)
    return () if app.stopped else (job(app, settings, credentials),)
