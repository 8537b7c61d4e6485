# SPDX-License-Identifier: Apache-2.0
"""R12, R13 and R14: an API server that refuses, loses, delays and forgets; an operator that is killed at any moment.
The result is the same as without faults."""

from __future__ import annotations

import random
import signal
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client, config

from lib.apiserver import ApiServer
from lib.operator import CHILDREN, WORD_COUNT, Apps, Crash, KubeError
from lib.operator_process import Operators
from lib.proxy import WATCH, WRITES, Fault, Forgetful, Gossip, Plan, Proxy, Sometimes, cut, faults, gone, silent
from lib.wait import until
from streamapp_operator.__main__ import LEASE
from streamapp_operator.cluster.kube import Kube
from streamapp_operator.memory import Memory

pytestmark = pytest.mark.cluster

TIMEOUT = 0.5
"""Seconds after which the operator gives up a request, in tests where it does so again and again."""
MOST_ROUNDS = 300
RESYNC_SECONDS = 30.0
"""Seconds after which the operator trusts no event and lists all objects itself; its default is ten minutes."""
CONVERGES_SECONDS = 2 * RESYNC_SECONDS

SECOND = WORD_COUNT.replace("name: word-count", "name: second")

NewNamespace = Callable[[], str]


# --- R14: requests ----------------------------------------------------------------------------------------------------


class Impatient(client.ApiClient):
    """Waits only TIMEOUT for an answer, whatever the caller asks for."""

    def call_api(self, *request: Any, **options: Any) -> Any:
        return super().call_api(*request, **{**options, "_request_timeout": TIMEOUT})


class Persistent(Apps):
    """Repeats a round that has failed, as the controller does, but at once."""

    failures = 0

    def settle(self, name: str = "word-count") -> int:
        total = 0
        for _ in range(MOST_ROUNDS):
            with self.counting() as writes:
                try:
                    self.reconcile(name)
                except KubeError:
                    self.failures += 1
                    continue
            total += len(writes)
            if not writes:
                return total
        raise AssertionError(f"not settled after {MOST_ROUNDS} rounds: {self.status(name)}")


def a_life(apps: Apps) -> None:
    """The life of an app, with something to do for each verb."""
    apps.create()
    apps.settle()
    first = apps.await_driver()["metadata"]["uid"]
    apps.settle()
    apps.change(epochInterval="1s")  # takes another driver
    apps.settle()
    second = apps.await_driver(other_than=first)["metadata"]["uid"]
    apps.change(replicas=3)
    apps.settle()
    budget = apps.get("PodDisruptionBudget", "word-count-executors")["metadata"]["uid"]
    apps.kube.delete("PodDisruptionBudget", apps.namespace, "word-count-executors", budget)

    def made_anew() -> bool:
        """Whether it is made again, by the next round, or by a request of an earlier one that reaches the API server
        only now."""
        apps.settle()
        return bool(apps.get("PodDisruptionBudget", "word-count-executors")["metadata"]["uid"] != budget)

    until(made_anew, 30, "the budget is made anew")
    apps.change(suspend=True)

    def driver_gone() -> bool:
        apps.settle()  # a late request may have asked for a driver once more
        return apps.kube.get("Pod", apps.namespace, "word-count-driver-0") is None

    until(driver_gone, 30, "the driver has gone")
    apps.change(suspend=False)
    apps.settle()
    third = apps.await_driver(other_than=second)["metadata"]["uid"]
    apps.settle()
    assert apps.await_driver()["metadata"]["uid"] == third


def truth(apps: Apps) -> object:
    """The final state: objects, and the status."""
    status = apps.status()
    conditions = {each["type"]: (each["status"], each["reason"]) for each in status["conditions"]}
    return apps.essence(), conditions, {key: status[key] for key in ("phase", "replicas", "desiredReplicas")}


class Lives:
    """The same life of an app several times, each in a namespace of its own behind a proxy of its own."""

    def __init__(self, api: ApiServer, kube: Kube, new_namespace: NewNamespace, folder: Path) -> None:
        self._api, self._kube, self._new_namespace, self._folder = api, kube, new_namespace, folder

    def live(self, plan: Plan | None = None) -> tuple[object, Proxy, int]:
        """The final state, the proxy with its counts, and the number of rounds that have failed."""
        with Proxy(self._api.url) as proxy:
            if plan is not None:
                proxy.plan = plan
            file = proxy.kubeconfig_of(self._folder, self._api.token)
            known: client.ApiClient = config.new_client_from_config(str(file))
            apps = Persistent(self._kube, self._new_namespace(), Kube(Impatient(known.configuration)))
            a_life(apps)
            until(lambda: proxy.under_way == 0, 10, "nothing is under way any more")
            apps.settle()  # requests that came too late
            return truth(apps), proxy, apps.failures


@pytest.fixture
def lives(api: ApiServer, kube: Kube, new_namespace: NewNamespace, tmp_path: Path) -> Lives:
    return Lives(api, kube, new_namespace, tmp_path)


@pytest.mark.parametrize("seed", range(2))
def test_requests_refused_lost_and_late_change_nothing_of_the_end(lives: Lives, seed: int) -> None:
    """R14."""
    wanted, free, failures = lives.live()
    assert failures == 0
    chances = {"GET": 0.02, **dict.fromkeys(WRITES, 0.2)}
    found, proxy, failures = lives.live(Sometimes(random.Random(seed), faults(TIMEOUT), chances))
    print(f"seed {seed}: {proxy.writes} writes instead of {free.writes}, {failures} rounds failed, {proxy.faults}")
    assert found == wanted
    assert {method for method, _ in proxy.faults} >= {"GET", "PATCH"}
    assert sum(proxy.faults.values()) >= 10
    assert proxy.writes <= 2 * free.writes


@pytest.mark.chaos
@pytest.mark.parametrize("kind", faults(TIMEOUT), ids=lambda kind: str(kind.name))
@pytest.mark.parametrize("method", ["GET", "PATCH", "POST", "DELETE"])
def test_every_fault_on_every_verb(lives: Lives, kind: Fault, method: str) -> None:
    """R14."""
    wanted, free, _ = lives.live()
    chance = {"GET": 0.05, "DELETE": 0.8}.get(method, 0.3)
    found, proxy, _ = lives.live(Sometimes(random.Random(0), (kind,), {method: chance}))
    assert found == wanted
    assert set(proxy.faults) == {(method, kind.name)}
    assert proxy.writes <= 2 * free.writes


@pytest.mark.chaos
@pytest.mark.timeout(900)
def test_the_operator_as_a_process_under_all_of_it(
    api: ApiServer, kube: Kube, new_namespace: NewNamespace, operators: Operators
) -> None:
    """R14: with its Lease, its watches and its own patience."""
    wanted, needed = killed_after(api, kube, new_namespace, operators, 0)
    chances = {"GET": 0.05, WATCH: 0.3, **dict.fromkeys(WRITES, 0.2)}
    apps = Apps(kube, new_namespace())
    with Proxy(api.url, Sometimes(random.Random(1401), faults(timeout=10.0), chances)) as proxy:
        operators.start(apps.namespace, proxy)
        apps.create()
        until(lambda: is_settled(apps), 600, "the app is as it should be", every=0.5)
        until(lambda: "PUT" in {method for method, _ in proxy.faults}, 120, "the Lease has met a fault", every=0.5)
        print(f"{proxy.writes} writes instead of {needed}; {proxy.faults}")
        assert WATCH in {method for method, _ in proxy.faults}
        assert truth(apps) == wanted
        assert proxy.writes <= 2 * needed


# --- R13: watches -----------------------------------------------------------------------------------------------------


def forgetful() -> Gossip:
    return Forgetful(random.Random(1301), latest=2.0)


WATCHES: dict[str, Callable[[], Gossip]] = {
    "forgetful": forgetful,
    "gone": lambda: gone,
    "silent": lambda: silent,
    "cut": lambda: cut,
    "refused": lambda: cut,
}
REFUSALS = tuple(fault for fault in faults(TIMEOUT) if fault.name in ("too-many", "failed", "unavailable", "cut-off"))


def test_watches_that_lose_repeat_delay_and_forget(
    api: ApiServer, kube: Kube, new_namespace: NewNamespace, operators: Operators
) -> None:
    """R13. One operator for each kind of bad watch, all at the same time, as they spend most of it waiting."""
    with ExitStack() as stack:
        behind: dict[str, tuple[Apps, Proxy]] = {}
        for name in WATCHES:
            proxy = stack.enter_context(Proxy(api.url))
            apps = Apps(kube, new_namespace())
            operators.start(apps.namespace, proxy, RESYNC_SECONDS)
            apps.create(replicas=2)
            behind[name] = apps, proxy
        for name, (apps, _) in behind.items():
            until(partial(has_budget, apps, "word-count", 1), 60, f"{name}: it works at first", every=0.2)
        for name, (_, proxy) in behind.items():
            proxy.gossip = WATCHES[name]()
        # One more often fails to open a watch again (R14).
        behind["refused"][1].plan = Sometimes(random.Random(1302), REFUSALS, {WATCH: 0.7})
        for apps, proxy in behind.values():
            proxy.events.clear()
            apps.create(SECOND, replicas=4)  # some watches never report it
            apps.change(replicas=3)
            apps.kube.delete("Service", apps.namespace, "word-count-driver", uid_of(apps, "Service"))
        # All changes are done within the same time, which began with them.
        left = {name: apps for name, (apps, _) in behind.items()}

        def all_know() -> bool:
            for name in [name for name, apps in left.items() if knows_all(apps)]:
                del left[name]
                print(f"{name}: all is done")
            return not left

        until(all_know, CONVERGES_SECONDS, "what has changed is done, whatever is done to watches", every=0.5)
        for name, (_, proxy) in behind.items():
            assert proxy.events["came"] > 0, f"{name}: there was nothing to be told"
            print(f"{name}: {proxy.events}")
        assert {method for method, _ in behind["refused"][1].faults} == {WATCH}
        told = behind["forgetful"][1].gossip
        assert isinstance(told, Forgetful)
        assert all(told.done[what] > 0 for what in ("lost", "twice", "late", "kept")), told.done


def knows_all(apps: Apps) -> bool:
    """Whether the operator knows the new app, the change, and the deletion."""
    return has_budget(apps, "second", 3) and has_budget(apps, "word-count", 2) and is_whole(apps)


def has_budget(apps: Apps, name: str, least: int) -> bool:
    found = apps.kube.get("PodDisruptionBudget", apps.namespace, f"{name}-executors")
    return found is not None and bool(found["spec"]["minAvailable"] == least)


def is_whole(apps: Apps) -> bool:
    return ("Service", "word-count-driver") in apps.children()


def uid_of(apps: Apps, kind: str) -> str:
    return str(apps.get(kind, "word-count-driver")["metadata"]["uid"])


# --- R12: the operator ------------------------------------------------------------------------------------------------


def killed_after(
    api: ApiServer, kube: Kube, new_namespace: NewNamespace, operators: Operators, count: int
) -> tuple[object, int]:
    """Runs an app made by an operator that is killed as soon as the API server has done its write of that number (0: it
    is not killed), and by the operator after it.

    Returns:
        The final state, and how many writes the first operator has made; those of the Lease do not count.
    """
    apps = Apps(kube, new_namespace())
    done: list[str] = []
    with Proxy(api.url) as proxy:
        first = operators.start(apps.namespace, proxy)
        until(apps.lease_holder, 30, "it has the Lease", every=0.1)

        def after(method: str, path: str) -> None:
            if method in WRITES and "/leases" not in path:
                done.append(f"{method} {path}")
                if len(done) == count:
                    first.kill()

        proxy.after = after
        apps.create()
        if count == 0:
            until(lambda: is_settled(apps), 60, "the app is as it should be", every=0.2)
        else:
            until(lambda: len(done) == count, 60, f"{count} writes", every=0.05)
            assert first.process.wait(10) == -signal.SIGKILL
            # The next operator need not wait until the Lease of the dead one has run out.
            lease = apps.get("Lease", LEASE)
            kube.delete("Lease", apps.namespace, LEASE, lease["metadata"]["uid"])
            operators.start(apps.namespace)
    until(lambda: is_settled(apps), 60, "the app is as it should be", every=0.2)
    return truth(apps), len(done)


class Mortal(Apps):
    """Its operator dies after every single write, and the next one has no memory. Before the operator acts it writes a
    status that announces the act: so one operator dies after that status, and the next one after the act."""

    deaths = 0

    def settle(self, name: str = "word-count") -> int:
        for number in range(MOST_ROUNDS):
            self.memory = Memory()
            with self.crashing_after(1 + number % 2), self.counting() as writes:
                try:
                    self.reconcile(name)
                except Crash:
                    self.deaths += 1
                    continue
            if not writes:
                return 0
        raise AssertionError(f"not settled after {MOST_ROUNDS} rounds: {self.status(name)}")


def a_life_of_runs(apps: Apps) -> None:
    """The life of an app that runs by a schedule, at another time, then once, not at all, and again."""
    apps.create(run="untilCaughtUp", schedule="0 3 * * *")
    apps.settle()
    assert schedules(apps) == ["0 3 * * *"]
    apps.change(schedule="0 4 * * *", replicas=2)
    apps.settle()
    assert schedules(apps) == ["0 4 * * *"]
    apps.change(schedule=None)
    apps.settle()
    assert schedules(apps) == []
    assert "Job" in {kind for kind, _ in apps.children()}
    apps.change(suspend=True)
    apps.settle()
    until(lambda: "Job" not in {kind for kind, _ in apps.children()}, 30, "the run is over")
    apps.settle()
    apps.change(suspend=False, epochInterval="1s")
    apps.settle()
    until(lambda: "Job" in {kind for kind, _ in apps.children()}, 30, "another one begins")
    apps.settle()


def schedules(apps: Apps) -> list[str]:
    return [item["spec"]["schedule"] for (kind, _), item in apps.children().items() if kind == "CronJob"]


@pytest.mark.parametrize("life", [a_life, a_life_of_runs], ids=["continuous", "runs"])
def test_an_operator_that_dies_after_every_write_does_the_same(
    kube: Kube, new_namespace: NewNamespace, life: Callable[[Apps], None]
) -> None:
    """R12: each write in the life of an app is followed by the operator's death."""
    whole, mortal = Apps(kube, new_namespace()), Mortal(kube, new_namespace())
    for apps in (whole, mortal):
        life(apps)
        apps.settle()
    assert mortal.deaths > 2 * len(CHILDREN)
    assert truth(mortal) == truth(whole)


def is_settled(apps: Apps) -> bool:
    """Whether all objects exist, and the status shows it."""
    if set(apps.children()) != CHILDREN or not apps.get("StreamApp", "word-count").get("status"):
        return False
    return (apps.condition("Progressing")["reason"], apps.status()["phase"]) == ("Starting", "Pending")


def test_an_operator_killed_in_the_middle_is_followed_by_one_that_ends_its_work(
    api: ApiServer, kube: Kube, new_namespace: NewNamespace, operators: Operators
) -> None:
    """R12, as a process."""
    wanted, writes = killed_after(api, kube, new_namespace, operators, 0)
    assert writes > len(CHILDREN)
    found, _ = killed_after(api, kube, new_namespace, operators, writes // 2)
    assert found == wanted


@pytest.mark.chaos
def test_an_operator_killed_after_every_write(
    api: ApiServer, kube: Kube, new_namespace: NewNamespace, operators: Operators
) -> None:
    """R12, as a process."""
    wanted, writes = killed_after(api, kube, new_namespace, operators, 0)
    for count in range(1, writes):  # the number of writes of a status depends on when the driver comes
        found, _ = killed_after(api, kube, new_namespace, operators, count)
        assert found == wanted, f"killed after write {count} of {writes}"
