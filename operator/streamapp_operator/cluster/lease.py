# SPDX-License-Identifier: Apache-2.0
"""Two operators never act at once: only the one that holds the Lease does.

The holder renews it every few seconds. One that has not renewed in time stops by its own clock before another may take
over, so that a holder that was frozen and wakes up finds out before it writes:

    0 s   the holder asks to renew, and does
   10 s   it begins nothing any more
   14 s   it waits for no answer any more: its writes have arrived by then
   15 s   another one takes over

A freeze between the last question whether it may write and the write itself is not found out: that one write still
arrives. The operator that acts by then sees the change, and sets it right.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from streamapp_operator.cluster.errors import KubeError
from streamapp_operator.cluster.kube import Kube
from streamapp_operator.render.meta import Object

LEASE_SECONDS = 15
"""Seconds without renewal after which the Lease is free."""
MARGIN_SECONDS = 5
"""So many seconds earlier the holder begins nothing any more."""
ARRIVAL_SECONDS = 1
"""So many seconds earlier the holder waits for no answer any more."""
RENEW_SECONDS = 3.0
AGAIN_SECONDS = 1.0
"""Seconds to the next attempt after one that has failed."""
ANSWER_SECONDS = 2.5
"""Seconds that the API server may take for an answer about the Lease. Two attempts fit in the time that it is held."""


class NotHolder(Exception):
    """Another operator may act, or none; this one may not."""


class Lease:
    """
    Args:
        kube: a connection whose writes do not depend on this Lease.
        namespace: of the Lease.
        name: of the Lease.
        identity: our name; no other operator has the same.
        seconds: without renewal after which it is free.
        margin: seconds before that in which the holder begins nothing any more.
    """

    def __init__(
        self,
        kube: Kube,
        namespace: str,
        name: str,
        identity: str,
        clock: Callable[[], float] = time.monotonic,
        seconds: int = LEASE_SECONDS,
        margin: int = MARGIN_SECONDS,
    ) -> None:
        self._kube, self._namespace, self._name, self._identity = kube, namespace, name, identity
        self._clock, self._seconds, self._margin = clock, seconds, margin
        self.holder = ""
        """The holder when it was last found to be another one."""
        self._held_until = float("-inf")
        self._answered = float("-inf")
        self._seen: tuple[str, float] = ("", float("-inf"))
        self._stop = threading.Event()

    def require(self) -> float:
        """
        Returns:
            Seconds to wait at most for the answer to a write.

        Raises:
            NotHolder: when we may not write.
        """
        left = self._held_until - self._clock()
        if left <= 0:
            raise NotHolder(f"the Lease {self._namespace}/{self._name} is not ours")
        return left + self._margin - ARRIVAL_SECONDS

    @property
    def is_held(self) -> bool:
        return self._clock() < self._held_until

    @property
    def is_known(self) -> bool:
        """Whether the API server has lately answered which operator holds it, be it this one or another."""
        return self._clock() - self._answered < LEASE_SECONDS

    def try_once(self) -> bool:
        """Takes or renews it. Returns whether it is ours now.

        Raises:
            KubeError: when the API server does not answer.
        """
        asked = self._clock()
        found = self._kube.get("Lease", self._namespace, self._name)
        try:
            if found is None:
                self._kube.create(self._wanted(None))
            elif self._may_take(found, self._clock()):
                self._kube.replace(self._wanted(found))
            else:
                self._answered, self.holder = asked, str(found["spec"]["holderIdentity"])
                return False
        except KubeError as error:
            if error.code == 409:  # another one was quicker
                self._answered = asked
                return False
            raise
        self._answered = asked
        self._held_until = asked + self._seconds - self._margin
        return True

    def assume(self) -> None:
        """Counts the Lease as ours for as long as if it had been renewed, where nobody can hold it."""
        self._held_until = self._clock() + self._seconds - self._margin

    def keep(self, on_error: Callable[[KubeError], None]) -> None:
        """Takes and renews the Lease until `stop`."""
        while not self._stop.is_set():
            pause = RENEW_SECONDS
            try:
                self.try_once()
            except KubeError as error:
                on_error(error)
                pause = AGAIN_SECONDS
            self._stop.wait(pause)

    def stop(self) -> None:
        """Ends `keep`, and gives the Lease back, so that the next operator need not wait."""
        self._stop.set()
        if not self.is_held:
            return
        self._held_until = float("-inf")
        found = self._kube.get("Lease", self._namespace, self._name)
        if found is not None and found["spec"].get("holderIdentity") == self._identity:
            self._kube.replace({**found, "spec": {**found["spec"], "holderIdentity": ""}})

    def _may_take(self, found: Object, now: float) -> bool:
        spec = found.get("spec", {})
        holder = spec.get("holderIdentity") or ""
        if holder in ("", self._identity):
            return True
        # Clocks of two machines differ: so the time counts for which WE have not seen it renewed. It counts from the
        # answer: counted from the question, it would miss a renewal that came while the answer took its time.
        version = found["metadata"]["resourceVersion"]
        if self._seen[0] != version:
            self._seen = (version, now)
        return now - self._seen[1] > float(spec.get("leaseDurationSeconds", LEASE_SECONDS))

    def _wanted(self, found: Object | None) -> Object:
        moment = self._kube.clock.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = dict((found or {}).get("spec", {}))
        if spec.get("holderIdentity") != self._identity:
            spec |= {
                "holderIdentity": self._identity,
                "acquireTime": moment,
                "leaseTransitions": spec.get("leaseTransitions", -1) + 1,
            }
        spec |= {"renewTime": moment, "leaseDurationSeconds": self._seconds}
        head: Object = found or {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self._name, "namespace": self._namespace},
        }
        return {**head, "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": spec}
