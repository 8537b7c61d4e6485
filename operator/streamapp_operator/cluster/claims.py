# SPDX-License-Identifier: Apache-2.0
"""Two releases never run the apps of one namespace: only the one that holds the namespace's Lease does.

Each release has a Lease of its own, which says which of its operators acts. Besides, there is a Lease in each namespace
with apps, which has the same name for all releases. The operator that acts for a release holds it for the release. So
another operator of the release goes on with it at once, and another release waits until it has not been renewed for
CLAIM_SECONDS.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection

from streamapp_operator.cluster.errors import KubeError
from streamapp_operator.cluster.kube import Kube
from streamapp_operator.cluster.lease import Lease

NAME = "streamapp-operator-apps"
"""The name of the Lease in each namespace."""
CLAIM_SECONDS = 40
"""Seconds without renewal after which a namespace is free."""
MARGIN_SECONDS = 10
"""So many seconds earlier its holder begins nothing any more."""
RENEW_SECONDS = 10.0
TRY_SECONDS = 5.0
"""Seconds between two tries at a namespace of another release."""
FORBIDDEN = 403
log = logging.getLogger("streamapp.operator")


class Claims:
    """The namespaces that the release holds. May be used from any thread.

    Args:
        kube: a connection whose writes do not depend on these claims.
        release: our release, by namespace and name of its own Lease; all its operators give the same.
        on_contested: receives a sentence, once, when another release has a namespace.
        clock: seconds that never go back.
    """

    def __init__(
        self,
        kube: Kube,
        release: str,
        on_contested: Callable[[str], None] = log.warning,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._kube, self._release, self._on_contested, self._clock = kube, release, on_contested, clock
        self._claims: dict[str, _Claim] = {}
        self._lock = threading.Lock()

    def holds(self, namespace: str) -> bool:
        """Whether the apps of the namespace are ours; takes it if it is free.

        Raises:
            KubeError: when the API server does not answer.
        """
        claim = self._of(namespace)
        if claim.lease.is_held:
            return True
        with claim.lock:  # one asks, the others wait for the answer
            if not claim.lease.is_held and self._clock() >= claim.again_at:
                claim.again_at = self._clock() + TRY_SECONDS
                self._try(namespace, claim)
        return claim.lease.is_held

    def require(self, namespace: str) -> float:
        """
        Returns:
            Seconds to wait at most for the answer to a write there.

        Raises:
            NotHolder: when we may not write.
        """
        return self._of(namespace).lease.require()

    def renew(self, namespaces: Collection[str]) -> None:
        """Renews the claims. Must be called every RENEW_SECONDS.

        Args:
            namespaces: those with apps. The claims on others lapse, as they are not renewed.
        """
        with self._lock:
            self._claims = {name: claim for name, claim in self._claims.items() if name in namespaces}
            ours = [(name, claim) for name, claim in self._claims.items() if claim.lease.is_held]
        for namespace, claim in ours:
            try:
                with claim.lock:
                    self._try(namespace, claim)
            except KubeError as error:
                log.warning("the Lease of namespace %s cannot be renewed: %s", namespace, error)

    @property
    def contested(self) -> int:
        """The number of namespaces with apps that another release has."""
        return sum(claim.is_others for claim in list(self._claims.values()))

    def _try(self, namespace: str, claim: _Claim) -> None:
        try:
            is_ours = claim.lease.try_once()
        except KubeError as error:
            if error.code != FORBIDDEN:
                raise
            # Nobody can make a Lease in a namespace that is being deleted; and rights that were granted by hand may
            # lack this one.
            claim.lease.assume()
            is_ours = True
        if not is_ours and not claim.is_others:
            self._on_contested(
                f"namespace {namespace} is not watched: the release {claim.lease.holder} runs the apps there; take it "
                f"out of watch.namespaces of one of the two"
            )
        claim.is_others = not is_ours

    def _of(self, namespace: str) -> _Claim:
        with self._lock:
            if namespace not in self._claims:
                lease = Lease(self._kube, namespace, NAME, self._release, self._clock, CLAIM_SECONDS, MARGIN_SECONDS)
                self._claims[namespace] = _Claim(lease)
            return self._claims[namespace]


class _Claim:
    def __init__(self, lease: Lease) -> None:
        self.lease, self.lock = lease, threading.Lock()
        self.again_at = float("-inf")
        self.is_others = False
