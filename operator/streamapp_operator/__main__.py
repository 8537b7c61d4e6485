# SPDX-License-Identifier: Apache-2.0
"""`python -m streamapp_operator`: runs the operator. Its settings come from the environment, as the chart sets it:

STREAMAPP_SETTINGS       JSON, see `settings_of`
STREAMAPP_NAMESPACES     namespaces to watch, separated by commas; empty: its own
STREAMAPP_CLUSTER_WIDE   `true`: watch all of them
STREAMAPP_OWN_NAMESPACE  `true`: its own too, where all are watched
STREAMAPP_NAMESPACE      its own, where it does not run in a pod
STREAMAPP_LEASE          name of the Lease
STREAMAPP_ROLE_BINDING   name of the RoleBinding in each watched namespace by which it acts there; empty: there is none
STREAMAPP_RESYNC_SECONDS seconds after which each kind of objects is listed anew; empty: ten minutes
STREAMAPP_HEALTH_PORT    for probes and metrics; empty: none
STREAMAPP_LOG_LEVEL      DEBUG, INFO, WARNING or ERROR
"""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import sys
import threading
import uuid
from collections.abc import Mapping
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

from streamapp_operator.cluster.cache import Cache
from streamapp_operator.cluster.claims import Claims
from streamapp_operator.cluster.errors import KubeError
from streamapp_operator.cluster.informer import RESYNC_SECONDS, Informer
from streamapp_operator.cluster.kube import Kube
from streamapp_operator.cluster.lease import ANSWER_SECONDS, Lease
from streamapp_operator.cluster.recorder import Recorder
from streamapp_operator.controller import Controller
from streamapp_operator.crd import GROUP, PLURAL, VERSION
from streamapp_operator.deletion.rights import Rights
from streamapp_operator.handlers import watch
from streamapp_operator.health import serve
from streamapp_operator.render.permits import PARTS
from streamapp_operator.settings import Settings
from streamapp_operator.status.events import WARNING, Event, to_object

_OWN_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
LEASE = "streamapp-operator"
LOOK_FOR_DEFINITION_SECONDS = 1.0
log = logging.getLogger("streamapp.operator")


def settings_of(text: str) -> Settings:
    """The settings in a JSON text. It has the names of `Settings`, in camel case as in the chart's values.

    Raises:
        ValueError: when it cannot be read, or has an unknown name.

    >>> settings_of('{"image": "x", "networkPolicy": false}').network_policy
    False
    """
    given: dict[str, Any] = json.loads(text or "{}")
    names = {_camel(field.name): field.name for field in fields(Settings)}
    unknown = sorted(set(given) - set(names))
    if unknown:
        raise ValueError(f"there is no setting {unknown[0]!r}; there are: {', '.join(names)}")
    read: Any = {names[key]: tuple(value) if isinstance(value, list) else value for key, value in given.items()}
    settings = Settings(**read)
    if unknown := sorted(set(settings.pod_template_allow) - set(PARTS)):
        raise ValueError(f"podTemplateAllow: there is no part {unknown[0]!r}; there are: {', '.join(PARTS)}")
    return settings


def main(environment: Mapping[str, str]) -> int:
    logging.basicConfig(
        level=environment.get("STREAMAPP_LOG_LEVEL", "INFO"), format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    logging.getLogger("kopf").setLevel(logging.WARNING)
    try:
        settings = settings_of(environment.get("STREAMAPP_SETTINGS", ""))
        resync = float(environment.get("STREAMAPP_RESYNC_SECONDS") or RESYNC_SECONDS)
        kube, lease_kube = Kube.connect(), Kube.connect(ANSWER_SECONDS)
    except (ValueError, KubeError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    namespaces = [name for name in environment.get("STREAMAPP_NAMESPACES", "").split(",") if name]
    home = environment.get("STREAMAPP_NAMESPACE") or (
        _OWN_NAMESPACE.read_text().strip() if _OWN_NAMESPACE.exists() else "default"
    )
    everywhere = not namespaces and environment.get("STREAMAPP_CLUSTER_WIDE") == "true"
    if not namespaces and not everywhere:
        namespaces = [home]
    left_alone = home if everywhere and environment.get("STREAMAPP_OWN_NAMESPACE") != "true" else None
    name = environment.get("STREAMAPP_LEASE") or LEASE
    lease = Lease(lease_kube, home, name, f"{socket.gethostname()}-{uuid.uuid4().hex[:8]}")
    cache = Cache(kube)
    rights = Rights("" if everywhere else environment.get("STREAMAPP_ROLE_BINDING", ""))
    warn = partial(warn_of, lease_kube, Recorder(), home, name)
    claims = Claims(lease_kube, f"{home}/{name}", warn)
    controller = Controller(
        kube,
        settings,
        lease,
        home=home,
        cache=cache,
        left_alone=left_alone,
        rights=rights,
        namespaces=namespaces,
        claims=claims,
    )
    informer = Informer(kube, cache, namespaces, controller.see, warn)
    controller.metrics.ask_unwatched(lambda: informer.unwatched + claims.contested)
    try:
        port = int(environment.get("STREAMAPP_HEALTH_PORT") or 0)
        if port:
            serve(controller, lease, port)
    except (ValueError, OSError) as error:
        print(f"error: STREAMAPP_HEALTH_PORT: {error}", file=sys.stderr)
        return 1
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    if await_list(kube, informer, stop):
        threads = [
            threading.Thread(target=informer.keep, args=(stop, resync), name="resync", daemon=True),
            threading.Thread(target=watch, args=(informer, stop), name="watch", daemon=True),
        ]
        for thread in threads:
            thread.start()
        controller.start(*threads)
        stop.wait()
        controller.stop()
    return 0


def await_list(kube: Kube, informer: Informer, stop: threading.Event) -> bool:
    """Waits until the cluster has the definition of a StreamApp, and all objects that the operator may read are listed:
    nothing is decided on half of them.

    Returns:
        Whether they are listed; False when `stop` was set before.
    """
    logged = ""
    while not stop.is_set():
        try:
            if kube.knows(f"{GROUP}/{VERSION}", PLURAL):
                informer.resync()
                return True
            why = f"the cluster does not know {PLURAL}.{GROUP}: apply crds/streamapp.yaml (the chart does it)"
        except KubeError as error:
            why = str(error)
        if why != logged:
            log.warning("waiting: %s", why)
            logged = why
        stop.wait(LOOK_FOR_DEFINITION_SECONDS)
    return False


def warn_of(kube: Kube, recorder: Recorder, home: str, lease: str, sentence: str) -> None:
    """Warns of a namespace that is not watched: in the log, and by an event about the operator's Lease."""
    log.warning("%s", sentence)
    try:
        found = kube.get("Lease", home, lease)
        if found is not None:
            recorder.record(kube, to_object(Event(WARNING, "NamespaceNotWatched", sentence), found, kube.clock.now()))
    except KubeError as error:
        log.warning("no event could be written: %s", error)


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


if __name__ == "__main__":
    sys.exit(main(os.environ))
