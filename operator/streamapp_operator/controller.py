# SPDX-License-Identifier: Apache-2.0
"""Workers that take apps from the queue and reconcile them, while the Lease is ours."""

from __future__ import annotations

import logging
import secrets
import threading

from streamapp_operator.kube import Kube, KubeError
from streamapp_operator.lease import Lease, NotHolder
from streamapp_operator.reconcile import Memory, reconcile
from streamapp_operator.render import Credentials
from streamapp_operator.settings import Settings
from streamapp_operator.workqueue import Key, Workqueue

WAIT_FOR_LEASE_SECONDS = 2.0
log = logging.getLogger("streamapp.operator")


class Controller:
    """
    Args:
        kube: a connection; its writes are tied to the Lease here.
        settings: for all apps.
        lease: None: there is no other operator.
        workers: apps that are worked on at a time.
    """

    def __init__(self, kube: Kube, settings: Settings, lease: Lease | None, workers: int = 4) -> None:
        self.queue = Workqueue()
        self._kube = kube
        self._settings = settings
        self._lease = lease
        self._memory = Memory()
        if lease is not None:
            kube.may_write = lease.require
        self._threads = [threading.Thread(target=self._work, name=f"worker-{i}", daemon=True) for i in range(workers)]
        if lease is not None:
            self._threads.append(threading.Thread(target=lease.keep, args=(_no_answer,), name="lease", daemon=True))

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self, seconds: float = 10.0) -> None:
        """Lets what is under way end, then gives the Lease back."""
        self.queue.close()
        for thread in self._threads:
            if thread.name != "lease":
                thread.join(seconds)
        if self._lease is not None:
            try:
                self._lease.stop()
            except KubeError as error:
                _no_answer(error)

    def _work(self) -> None:
        while (key := self.queue.take()) is not None:
            if self._lease is not None and not self._lease.is_held:
                self.queue.done(key, WAIT_FOR_LEASE_SECONDS)
                continue
            self._one(key)

    def _one(self, key: Key) -> None:
        namespace, name = key
        try:
            again = reconcile(self._kube, namespace, name, self._settings, new_credentials, self._memory)
        except NotHolder:
            self.queue.done(key, WAIT_FOR_LEASE_SECONDS)
        except KubeError as error:
            log.warning("%s/%s: %s", namespace, name, error)
            self.queue.failed(key)
        except Exception:
            # A fault of ours in one app must not end the work on the others.
            log.exception("%s/%s: unexpected", namespace, name)
            self.queue.failed(key)
        else:
            self.queue.done(key, again)


def new_credentials() -> Credentials:
    return Credentials(secrets.token_urlsafe(32), secrets.token_urlsafe(32))


def _no_answer(error: KubeError) -> None:
    log.warning("the Lease cannot be renewed: %s", error)
