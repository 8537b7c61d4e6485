# SPDX-License-Identifier: Apache-2.0
"""The only file that knows kopf. It watches, and passes on what it sees; what to do about it is decided elsewhere."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Mapping
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
_LOOK_SECONDS = 0.5
"""So often a watch that is not open looks whether it may be, and an open one whether it is to end."""
log = logging.getLogger("streamapp.operator")


def watch(informer: Informer, namespace: str | None, stop: threading.Event) -> None:
    """Watches one namespace as long as the informer knows it, until `stop` is set. Each has a watch of its own, as kopf
    ends all of its streams when one of them fails.

    Args:
        informer: gets what happens.
        namespace: to watch; None: all of them.
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
            if not informer.knows(namespace):
                stop.wait(_LOOK_SECONDS)
                continue
            # kopf waits for it in a thread, for which its end waits: so it is one of its own, which `cleanup` sets.
            over = threading.Event()
            threading.Thread(target=_pass_on, args=(stop, over), name="stop", daemon=True).start()
            try:
                kopf.run(
                    registry=_registry(informer, over),
                    settings=settings,
                    standalone=True,
                    clusterwide=namespace is None,
                    namespaces=[] if namespace is None else [namespace],
                    stop_flag=over,
                )
                return
            # kopf gives up at an error in a watch that it does not know.
            except (Exception, asyncio.CancelledError) as error:
                where = "all namespaces" if namespace is None else f"namespace {namespace}"
                log.warning("the watch of %s has ended, and begins anew: %s", where, error)
                informer.doubt(namespace)
                stop.wait(_AGAIN_SECONDS)
            finally:
                over.set()
    finally:
        stop.set()


def _pass_on(stop: threading.Event, over: threading.Event) -> None:
    while not over.wait(_LOOK_SECONDS):
        if stop.is_set():
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
