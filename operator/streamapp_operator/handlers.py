# SPDX-License-Identifier: Apache-2.0
"""The only file that knows kopf. It watches, and passes on what it sees; what to do about it is decided elsewhere."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import kopf

from streamapp_operator.cluster.informer import SELECTORS, Informer
from streamapp_operator.cluster.kube import resource_of
from streamapp_operator.render.meta import labels_of

WATCH_SECONDS = 300
"""A watch is ended after so long, and goes on where it was."""
PAGE = 100
"""Objects that are read at a time when a watch begins."""
_AGAIN_SECONDS = 2.0
log = logging.getLogger("streamapp.operator")


def watch(informer: Informer, namespaces: Sequence[str], stop: threading.Event) -> None:
    """Watches until `stop` is set, or SIGTERM or SIGINT come.

    Args:
        informer: gets what happens.
        namespaces: to watch; none: all of them.
        stop: is set at the end, whatever the reason.
    """
    settings = kopf.OperatorSettings()
    # Nothing may be written by the framework: what is written is decided in one place.
    settings.posting.enabled = False
    # Would need to see all namespaces and all definitions of the cluster.
    settings.scanning.disabled = True
    settings.watching.server_timeout = WATCH_SECONDS
    settings.watching.chunk_size = PAGE
    try:
        while not stop.is_set():
            # kopf waits for it in a thread, for which its end waits: so it is one of its own, which `cleanup` sets.
            over = threading.Event()
            threading.Thread(target=_pass_on, args=(stop, over), name="stop", daemon=True).start()
            try:
                kopf.run(
                    registry=_registry(informer, over),
                    settings=settings,
                    standalone=True,
                    clusterwide=not namespaces,
                    namespaces=list(namespaces),
                    stop_flag=over,
                )
                return
            # kopf gives up at an error in a watch that it does not know. A new one begins with a list, which is right.
            except (Exception, asyncio.CancelledError) as error:
                log.warning("the watch has ended, and begins anew: %s", error)
                stop.wait(_AGAIN_SECONDS)
    finally:
        stop.set()


def _pass_on(stop: threading.Event, over: threading.Event) -> None:
    stop.wait()
    over.set()


def _registry(informer: Informer, over: threading.Event) -> kopf.OperatorRegistry:
    registry = kopf.OperatorRegistry()

    async def happened(event: Mapping[str, Any], **_: Any) -> None:
        informer.happened(event["type"] or "ADDED", dict(event["object"]))  # None: of the list that it begins with

    @kopf.on.login(registry=registry)
    def login(**known: Any) -> kopf.ConnectionInfo | None:
        return kopf.login_via_client(**known)

    @kopf.on.cleanup(registry=registry)
    async def cleanup(**_: Any) -> None:
        over.set()

    for kind, selector in SELECTORS.items():
        kopf.on.event(*resource_of(kind), labels=labels_of(selector), id=kind.lower(), registry=registry)(happened)
    return registry
