# SPDX-License-Identifier: Apache-2.0
"""Workers that take apps from the queue and reconcile them, while the Lease is ours."""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Callable, Iterable, Sequence
from time import monotonic

from streamapp_operator.cluster.cache import Cache
from streamapp_operator.cluster.claims import RENEW_SECONDS, TRY_SECONDS, Claims
from streamapp_operator.cluster.errors import KubeError
from streamapp_operator.cluster.kube import Kube
from streamapp_operator.cluster.lease import Lease, NotHolder
from streamapp_operator.crd.reading import status_in
from streamapp_operator.deletion.kafka import Cleaner
from streamapp_operator.deletion.rights import LOOK_SECONDS, Rights
from streamapp_operator.deletion.uninstall import release_apps
from streamapp_operator.memory import TURN_SECONDS, Memory
from streamapp_operator.metrics import Metrics
from streamapp_operator.observe.lag import Lags
from streamapp_operator.observe.observation import APP_KIND
from streamapp_operator.reconcile import reconcile
from streamapp_operator.render import Credentials
from streamapp_operator.render.meta import Object
from streamapp_operator.settings import Settings
from streamapp_operator.status.events import WARNING, Event, to_object
from streamapp_operator.turns import Turns
from streamapp_operator.workqueue import AHEAD, Key, Workqueue

WAIT_FOR_LEASE_SECONDS = 2.0
HANGS_SECONDS = 300.0
"""Seconds that no look at an app takes: each request to the API server has a deadline, and the look ends with the first
that fails."""
log = logging.getLogger("streamapp.operator")


class Controller:
    """
    Args:
        kube: a connection; its writes are tied to the Lease here.
        settings: for all apps.
        lease: None: there is no other operator.
        workers: apps that are worked on at a time.
        clock: seconds that never go back.
        home: the namespace of the operator itself; None: it runs in none.
        cache: objects as they were a moment ago; None: each look asks the API server for all of them.
        left_alone: a namespace whose apps get a warning and are not run; None: there is none.
        rights: to be kept in these namespaces.
        namespaces: that are watched; none: all.
        claims: which namespaces are ours, and not another release's; None: there is no other release.
    """

    def __init__(
        self,
        kube: Kube,
        settings: Settings,
        lease: Lease | None,
        workers: int = 8,
        clock: Callable[[], float] = monotonic,
        home: str | None = None,
        cache: Cache | None = None,
        left_alone: str | None = None,
        rights: Rights | None = None,
        namespaces: Sequence[str] = (),
        claims: Claims | None = None,
    ) -> None:
        self.queue = Workqueue()
        self.metrics = Metrics(lambda: self.queue.depth, lambda: lease is None or lease.is_held)
        self._clock = clock
        self._under_way: dict[str, tuple[Key, float]] = {}
        """By thread: the app it looks at, and since when."""
        self._started = False
        self._others: tuple[threading.Thread, ...] = ()
        self._kube = kube
        self._cache = cache
        self._settings = settings
        self._lease = lease
        self._home = home
        self._left_alone = left_alone
        self._warned: set[Key] = set()
        """Apps that are left alone, and have the warning."""
        self._rights, self._namespaces = rights or Rights(), tuple(namespaces)
        self._claims = claims
        self._ending = threading.Event()
        self._memory = Memory(
            Lags(settings=settings),
            Cleaner(settings=settings),
            self._rights,
            turns=Turns(settings.restarts_at_a_time, TURN_SECONDS),
        )
        if lease is not None:
            kube.may_write = self._may_write
        kube.on_answer = self.metrics.request
        self._threads = [threading.Thread(target=self._work, name=f"worker-{i}", daemon=True) for i in range(workers)]
        if self._rights.binding:
            self._threads.append(threading.Thread(target=self._keep_rights, name="rights", daemon=True))
        if claims is not None:
            self._threads.append(threading.Thread(target=self._keep_claims, name="claims", daemon=True))
        if lease is not None:
            self._threads.append(threading.Thread(target=lease.keep, args=(_no_answer,), name="lease", daemon=True))

    @property
    def fault(self) -> str:
        """Why this operator cannot do its work any more; empty when it can."""
        threads = (*self._threads, *self._others) if self._started else ()
        ended = [thread.name for thread in threads if not thread.is_alive()]
        hanging = [
            "/".join(key) for key, since in list(self._under_way.values()) if self._clock() - since > HANGS_SECONDS
        ]
        if ended and not self.queue.is_closed:
            return f"thread {ended[0]} has ended"
        return f"the work on {hanging[0]} hangs" if hanging else ""

    def see(self, key: Key, item: Object | None) -> None:
        """Takes in a change of an app, or of one of its objects; None: that object is gone."""
        if item is None and self._is_gone(key):
            # An operator that stands by never looks at the app: its metrics must go here.
            self.metrics.apps.see(key, None)
            self._warned.discard(key)
        if item is not None and item["kind"] == APP_KIND:
            self.metrics.apps.see(key, item)
            # A person who has changed an app waits for an answer; nobody waits for the other looks.
            seen = status_in(item).get("observedGeneration")
            self.queue.add(key, AHEAD if item["metadata"]["generation"] != seen else 0.0)
        else:
            self.queue.add(key)

    def _is_gone(self, key: Key) -> bool:
        """Whether there is no such app, as far as is known without asking."""
        return self._cache is not None and self._cache.get(APP_KIND, *key) is None

    def start(self, *others: threading.Thread) -> None:
        """
        Args:
            others: threads that run already, and that the operator cannot work without.
        """
        self._others = others
        self._started = True
        for thread in self._threads:
            thread.start()

    def stop(self, seconds: float = 10.0) -> None:
        """Lets the looks that are under way end, for so many seconds in all, then gives the Lease back."""
        self.queue.close()
        self._ending.set()
        deadline = self._clock() + seconds
        for thread in self._threads:
            if thread.name != "lease":
                thread.join(max(0.0, deadline - self._clock()))
        if self._home is not None:
            release_apps(self._kube, self._home)
        self._rights.release(self._kube, self._namespaces)
        if self._lease is not None:
            try:
                self._lease.stop()
            except KubeError as error:
                _no_answer(error)

    def _work(self) -> None:
        while (key := self.queue.take()) is not None:
            if self._lease is not None and not self._lease.is_held:
                self.queue.done(key, None if self._is_gone(key) else WAIT_FOR_LEASE_SECONDS)
                continue
            self._one(key)

    def _may_write(self) -> float:
        """Seconds to wait at most for the answer to a write; for a write for an app, also by the namespace's Lease.

        Raises:
            NotHolder: when somebody else may act there.
        """
        assert self._lease is not None
        seconds = self._lease.require()
        under_way = self._under_way.get(threading.current_thread().name)
        namespace = under_way[0][0] if under_way is not None else self._left_alone
        if self._claims is None or namespace in (None, self._left_alone):
            return seconds
        return min(seconds, self._claims.require(namespace))

    def _keep_claims(self) -> None:
        """Renews the Leases of the namespaces with apps, while we act."""
        assert self._claims is not None
        while not self._ending.wait(RENEW_SECONDS):
            if self._lease is None or self._lease.is_held:
                self._claims.renew(self._cache.namespaces(APP_KIND) if self._cache is not None else ())

    def _keep_rights(self) -> None:
        """Corrects the rights after a crash, an uninstall or an older operator."""
        while not self._ending.wait(LOOK_SECONDS):
            for namespace in self._namespaces:
                if self._lease is not None and not self._lease.is_held:
                    break
                try:
                    self._rights.keep(self._kube, namespace, self._known_apps(namespace))
                except (KubeError, NotHolder) as error:
                    log.warning("namespace %s: the operator's rights cannot be kept: %s", namespace, error)

    def _known_apps(self, namespace: str) -> Iterable[Object]:
        return self._cache.each(APP_KIND, namespace) if self._cache is not None else ()

    def _warn(self, key: Key) -> None:
        """Writes an event about an app that is not run."""
        namespace, name = key
        found = None if key in self._warned else self._kube.get(APP_KIND, namespace, name)
        if found is not None:
            sentence = (
                f"the operator does not run apps in its own namespace '{namespace}': they could take its account; "
                f"apply the app in another one, or set watch.ownNamespace: true in the values of the operator's chart"
            )
            log.warning("%s/%s: %s", namespace, name, sentence)
            event = Event(WARNING, "NamespaceNotWatched", sentence)
            self._memory.recorder.record(self._kube, to_object(event, found, self._kube.clock.now()))
            self._warned.add(key)

    def _look(self, key: Key) -> float | None:
        """Returns after how many seconds the app is to be looked at again; None: not by itself."""
        namespace, name = key
        if namespace == self._left_alone:
            self._warn(key)
            return None
        if self._claims is not None and not self._claims.holds(namespace):
            return None if self._is_gone(key) else TRY_SECONDS
        return reconcile(self._kube, namespace, name, self._settings, new_credentials, self._memory, cache=self._cache)

    def _one(self, key: Key) -> None:
        namespace, name = key
        thread = threading.current_thread().name
        self._under_way[thread] = key, self._clock()
        try:
            with self.metrics.reconciling():
                again = self._look(key)
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
            if again is None:
                self.metrics.apps.see(key, None)
            self.queue.done(key, again)
        finally:
            del self._under_way[thread]


def new_credentials() -> Credentials:
    return Credentials(secrets.token_urlsafe(32), secrets.token_urlsafe(32))


def _no_answer(error: KubeError) -> None:
    log.warning("the Lease cannot be renewed: %s", error)
