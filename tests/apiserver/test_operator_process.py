# SPDX-License-Identifier: Apache-2.0
"""The operator as a process of its own, with no more rights than its installation gives it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable

import pytest

from lib.apiserver import ApiServer
from lib.operator import Apps
from lib.operator_process import Operators
from lib.proxy import WRITES, Fault, Proxy
from lib.wait import until
from streamapp_operator.cluster.kube import Kube

pytestmark = pytest.mark.cluster

LEASES = "/leases"
UNAVAILABLE = Fault("unavailable", 503)
HELD_SECONDS = 300.0


def await_budget(apps: Apps, least: int, seconds: float = 30) -> None:
    def there() -> bool:
        found = apps.kube.get("PodDisruptionBudget", apps.namespace, "word-count-executors")
        return found is not None and found["spec"]["minAvailable"] == least

    until(there, seconds, f"a budget of {least}", every=0.2)


def test_it_makes_and_heals_what_somebody_applies(apps: Apps, operators: Operators) -> None:
    operator = operators.start(apps.namespace)
    apps.create(replicas=2)
    await_budget(apps, 1)
    until(lambda: apps.get("StreamApp", "word-count").get("status", {}).get("observedGeneration") == 1, 10, "a status")
    apps.change(replicas=5)
    await_budget(apps, 4)
    before = apps.get("PodDisruptionBudget", "word-count-executors")["metadata"]["uid"]
    apps.kube.delete("PodDisruptionBudget", apps.namespace, "word-count-executors", before)
    await_budget(apps, 4)
    assert "Applying" in apps.events()
    operator.stop()
    assert apps.lease_holder() == ""


class Gate(Proxy):
    """A proxy before one operator's API server: it notes writes, and holds back those that the test chooses."""

    def __init__(self, upstream: str) -> None:
        super().__init__(upstream, plan=self._note)
        self.written: list[str] = []
        """Method and path of each write, including those of the Lease."""
        self.held: list[str] = []
        self.landed: list[str] = []
        """Writes that were held back, and have reached the API server since."""
        self.cut = False
        """Whether nothing about the Lease is passed on."""
        self.hold = ""
        """Writes with this in their path are held back until `open` is set."""
        self.open = threading.Event()
        self.after = self._note_landed

    @property
    def acts(self) -> list[str]:
        """The writes, without those of the Lease."""
        return [each for each in self.written if LEASES not in each]

    def _note(self, method: str, path: str) -> Fault | None:
        if self.cut and LEASES in path:
            return UNAVAILABLE
        if method not in WRITES:
            return None
        self.written.append(f"{method} {path}")
        if self.hold and self.hold in path:
            self.held.append(path)
            self.open.wait(HELD_SECONDS)
        return None

    def _note_landed(self, method: str, path: str) -> None:
        if path in self.held:
            self.landed.append(path)


def await_quiet(apps: Apps) -> None:
    """Waits until the operator has done and reported all that there is to do for the app as it is. The round that
    changes an app's objects writes its events last; the one that follows finds the driver starting, writes that into
    the status, and nothing after it."""

    def is_quiet() -> bool:
        body = apps.get("StreamApp", "word-count")
        status = body.get("status") or {}
        said = {each["type"]: (each["observedGeneration"], each["reason"]) for each in status.get("conditions", ())}
        return said.get("Progressing") == (body["metadata"]["generation"], "Starting")

    until(is_quiet, 30, "the status is of the app as it is", every=0.2)


def test_of_two_one_writes_and_the_other_takes_over_from_one_that_is_frozen_or_killed(
    apps: Apps, api: ApiServer, operators: Operators
) -> None:
    """R16: within 30 seconds."""
    with Gate(api.url) as gate, Gate(api.url) as second_gate:
        first = operators.start(apps.namespace, gate).process
        identity = until(lambda: apps.lease_holder(), 30, "the first operator has the Lease", every=0.2)
        second = operators.start(apps.namespace, second_gate).process
        apps.create(replicas=2)
        await_budget(apps, 1)
        assert apps.lease_holder() == identity
        await_quiet(apps)
        assert second_gate.acts == []
        assert gate.acts

        first.send_signal(signal.SIGSTOP)
        apps.change(replicas=3)
        await_budget(apps, 2)
        await_quiet(apps)
        second_identity = apps.lease_holder()
        assert second_identity != identity

        # Each has held the Lease; it wakes up when there is something to do and the other one cannot do it.
        for wakes, its_gate, sleeps, its_identity, replicas in (
            (first, gate, second, identity, 4),
            (second, second_gate, first, second_identity, 5),
        ):
            sleeps.send_signal(signal.SIGSTOP)
            before = len(its_gate.written)
            apps.change(replicas=replicas)
            wakes.send_signal(signal.SIGCONT)
            await_budget(apps, replicas - 1)
            await_quiet(apps)
            assert apps.lease_holder() == its_identity
            assert LEASES in its_gate.written[before], "it wrote before it had the Lease"

        asked = gate.sent["GET"]
        before = len(gate.written)
        first.send_signal(signal.SIGCONT)
        until(lambda: gate.sent["GET"] > asked + 5, 30, "the first operator is at work again", every=0.2)
        assert apps.lease_holder() == second_identity
        assert gate.written[before:] == []
        second.kill()
        apps.change(replicas=6)
        await_budget(apps, 5)
        assert apps.lease_holder() == identity
        assert LEASES in gate.written[before], "it wrote before it had the Lease"


def test_a_write_that_arrives_after_another_one_has_taken_over_is_set_right(
    apps: Apps, api: ApiServer, operators: Operators
) -> None:
    """An operator cannot take back a request that is under way. But it sends nothing more, and the acting one heals the
    effect."""
    with Gate(api.url) as gate:
        operators.start(apps.namespace, gate)
        identity = until(lambda: apps.lease_holder(), 30, "the first operator has the Lease", every=0.2)
        apps.create(replicas=2)
        await_budget(apps, 1)
        await_quiet(apps)
        operators.start(apps.namespace)
        gate.hold = "poddisruptionbudgets"
        apps.change(replicas=3)
        until(lambda: gate.held, 30, "a budget is on its way", every=0.1)
        gate.cut = True
        until(lambda: apps.lease_holder() != identity, 60, "the second operator has the Lease", every=0.2)
        until(lambda: gate.faults["GET", UNAVAILABLE.name] > 5, 30, "the first one knows that it has not", every=0.2)
        apps.change(replicas=5)
        await_budget(apps, 4)
        before = apps.get("PodDisruptionBudget", "word-count-executors")["metadata"]["generation"]
        written, held = list(gate.written), list(gate.held)
        gate.hold = ""
        gate.open.set()
        until(lambda: gate.landed == held, 30, "what was held back has arrived", every=0.1)

        def is_healed() -> bool:
            found = apps.get("PodDisruptionBudget", "word-count-executors")
            return bool(found["metadata"]["generation"] >= before + 2 and found["spec"]["minAvailable"] == 4)

        until(is_healed, 30, "the budget was changed, and set right", every=0.2)
        assert gate.written == written


def test_with_the_rights_of_the_whole_cluster_it_looks_after_every_namespace(
    kube: Kube, new_namespace: Callable[[], str], operators: Operators
) -> None:
    home, *others = (Apps(kube, new_namespace()) for _ in range(3))
    operator = operators.start_cluster_wide(home.namespace)
    for apps in others:
        apps.create(replicas=2)
    for apps in others:
        await_budget(apps, 1)
        until(lambda apps=apps: "Applying" in apps.events(), 10, "an event", every=0.2)  # type: ignore[misc]
        assert apps.status()["observedGeneration"] == 1
    new = Apps(kube, new_namespace())  # that was not there when the operator began
    new.create(replicas=3)
    await_budget(new, 2)
    assert home.lease_holder() != ""
    # An app beside the operator could take its account.
    home.create(replicas=2)
    until(lambda: "NamespaceNotWatched" in home.events(), 10, "a warning", every=0.2)
    assert home.get("StreamApp", "word-count").get("status") is None
    assert not home.get("StreamApp", "word-count")["metadata"].get("finalizers")
    assert {apps.lease_holder() for apps in (*others, new)} == {""}
    operator.stop()
    refused = [line for line in operator.said.lower().splitlines() if "forbidden" in line]
    # It sees the namespaces of earlier tests as well, which are being deleted; none of ours is.
    assert [line for line in refused if "because it is being terminated" not in line] == []
    namespaces = [apps.namespace for apps in (home, *others, new)]
    assert [line for line in refused for name in namespaces if name in line] == []
