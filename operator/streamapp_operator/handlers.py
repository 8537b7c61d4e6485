# SPDX-License-Identifier: Apache-2.0
"""The only file that knows kopf. It watches, and passes events on; decisions about them are made elsewhere."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Mapping
from typing import Any

import kopf

from streamapp_operator.cluster.informer import SELECTORS, Informer, Source
from streamapp_operator.cluster.paths import resource_of
from streamapp_operator.render.meta import labels_of

WATCH_SECONDS = 60
"""Seconds after which a watch is ended, and resumed where it was; so one that has fallen silent is noticed."""
SILENT_SECONDS = 70.0
"""Seconds of silence after which a watch is given up, and resumed where it was. The API server sends something every
minute."""
PAGE = 100
"""Objects that are read at a time when a watch begins."""
_TRIES_SECONDS = (1.0, 2.0)
"""Seconds after which kopf tries a failed request again. Then its watch ends, and the informer knows how long to
wait."""
_AGAIN_SECONDS = 2.0
_LISTED_SECONDS = 5.0
"""Seconds after the last object of its list by which kopf watches."""
_LOOK_SECONDS = 0.5
"""Seconds between two checks whether a closed watch may open, or an open one is to end."""
log = logging.getLogger("streamapp.operator")


def watch(informer: Informer, stop: threading.Event) -> None:
    """Watches all sources of the informer, until `stop` is set. Each kind of each namespace has a kopf and a thread of
    its own: kopf ends all of its streams when one of them fails, and all else that there is in its event loop.

    Args:
        informer: receives the events.
        stop: is set at the end, whatever the reason.
    """
    # kopf warns that signals are for the main thread, once for each.
    logging.getLogger("kopf._core.reactor.running").setLevel(logging.ERROR)
    threads = [
        threading.Thread(target=_watch_one, args=(informer, source, stop), name="/".join(map(str, source)), daemon=True)
        for source in informer.sources
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _watch_one(informer: Informer, source: Source, stop: threading.Event) -> None:
    """Watches a source while the informer has it synced. A source that is not is watched once it is again."""
    namespace, kind = source
    try:
        while not stop.is_set():
            if not informer.has_synced(source):
                stop.wait(_LOOK_SECONDS)
                continue
            try:
                asyncio.run(_run(informer, source, stop))
            # kopf gives up at an error in a watch that it does not know.
            except (Exception, asyncio.CancelledError) as error:
                where = "all namespaces" if namespace is None else f"namespace {namespace}"
                log.warning("the watch of %s in %s has ended, and begins anew: %s", kind, where, error)
                informer.invalidate(source)
                stop.wait(_AGAIN_SECONDS)
    finally:
        stop.set()


async def _run(informer: Informer, source: Source, stop: threading.Event) -> None:
    over = asyncio.Event()

    async def pass_on() -> None:
        while not stop.is_set():
            await asyncio.sleep(_LOOK_SECONDS)
        over.set()

    passing = asyncio.create_task(pass_on())
    try:
        await kopf.operator(
            registry=_registry(informer, source),
            settings=_settings(),
            standalone=True,
            clusterwide=source[0] is None,
            namespaces=[] if source[0] is None else [source[0]],
            stop_flag=over,
        )
    finally:
        passing.cancel()


def _settings() -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    # The framework may write nothing: all writes are decided in one place.
    settings.posting.enabled = False
    # Would need to see all namespaces and all definitions of the cluster.
    settings.scanning.disabled = True
    settings.networking.error_backoffs = _TRIES_SECONDS
    settings.watching.server_timeout = WATCH_SECONDS
    settings.watching.inactivity_timeout = SILENT_SECONDS
    settings.watching.chunk_size = PAGE
    settings.persistence.diffbase_storage = _NoDifferences()
    settings.persistence.progress_storage = _NoProgress()
    return settings


class _NoDifferences(kopf.DiffBaseStorage):
    """Compares nothing: kopf would copy each object of each event, twice, for handlers that we do not have."""

    def build(self, **_: Any) -> kopf.BodyEssence:
        return kopf.BodyEssence()

    def fetch(self, **_: Any) -> None:
        return None

    def store(self, **_: Any) -> None:
        raise AssertionError("the framework may write nothing")


class _NoProgress(kopf.ProgressStorage):
    """Remembers no handler: ours are for events, which are handled once."""

    def fetch(self, **_: Any) -> None:
        return None

    def store(self, **_: Any) -> None:
        raise AssertionError("the framework may write nothing")

    def purge(self, **_: Any) -> None:
        return None

    def touch(self, **_: Any) -> None:
        return None

    def clear(self, *, essence: kopf.BodyEssence) -> kopf.BodyEssence:
        return essence


def _registry(informer: Informer, source: Source) -> kopf.OperatorRegistry:
    registry, kind = kopf.OperatorRegistry(), source[1]
    doubt: asyncio.TimerHandle | None = None

    async def happened(event: Mapping[str, Any], **_: Any) -> None:
        nonlocal doubt
        # kopf lists when it begins, and again when it has missed something; and it does not report the objects that are
        # gone from a list.
        if event["type"] is None:
            if doubt is not None:
                doubt.cancel()
            doubt = asyncio.get_running_loop().call_later(_LISTED_SECONDS, informer.invalidate, source)
        informer.happened(event["type"] or "ADDED", dict(event["object"]))

    @kopf.on.login(registry=registry)
    def login(**known: Any) -> kopf.ConnectionInfo | None:
        return kopf.login_via_client(**known)

    kopf.on.event(*resource_of(kind), labels=labels_of(SELECTORS[kind]), id=kind.lower(), registry=registry)(happened)
    return registry
