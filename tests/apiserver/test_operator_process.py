# SPDX-License-Identifier: Apache-2.0
"""The operator as a process of its own, with no more rights than it is installed with."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest

from lib.operator import Apps
from lib.operator_process import Operators
from lib.wait import until
from streamapp_operator.kube import Kube

pytestmark = pytest.mark.cluster


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


def test_of_two_one_acts_and_the_other_takes_over_from_one_that_is_frozen_or_killed(
    apps: Apps, operators: Operators
) -> None:
    """R16: within 30 seconds."""
    first = operators.start(apps.namespace).process
    identity = until(lambda: apps.lease_holder(), 30, "the first operator has the Lease", every=0.2)
    second = operators.start(apps.namespace)
    apps.create(replicas=2)
    await_budget(apps, 1)
    assert apps.lease_holder() == identity
    first.send_signal(signal.SIGSTOP)
    apps.change(replicas=3)
    await_budget(apps, 2)
    second_identity = apps.lease_holder()
    assert second_identity != identity
    first.send_signal(signal.SIGCONT)
    apps.change(replicas=4)
    await_budget(apps, 3)
    assert apps.lease_holder() == second_identity
    second.kill()
    apps.change(replicas=5)
    await_budget(apps, 4)
    assert apps.lease_holder() == identity


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
    assert {apps.lease_holder() for apps in (*others, new)} == {""}
    operator.stop()
    refused = [line for line in operator.said.lower().splitlines() if "forbidden" in line]
    # It sees the namespaces of earlier tests as well, which are on their way to their end; none of ours is.
    assert [line for line in refused if "because it is being terminated" not in line] == []
    namespaces = [apps.namespace for apps in (home, *others, new)]
    assert [line for line in refused for name in namespaces if name in line] == []
