# SPDX-License-Identifier: Apache-2.0
"""R19: an operator whose clock is ten minutes off takes the same decisions."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from kubernetes import client, config

from lib.apiserver import ApiServer
from lib.operator import Apps
from streamapp_operator.cluster.kube import Kube
from streamapp_operator.cluster.server_clock import ServerClock
from streamapp_operator.observe.remains import has_finalizer

pytestmark = pytest.mark.cluster

NOBODY = "127.0.0.1:1"


@pytest.mark.parametrize("minutes", [-10, 10])
def test_a_clock_that_is_off_changes_nothing(
    api: ApiServer, kube: Kube, new_namespace: Callable[[], str], minutes: int
) -> None:
    new_client: Callable[[str], client.ApiClient] = config.new_client_from_config
    clock = ServerClock(ours=lambda: datetime.now(UTC) + timedelta(minutes=minutes))
    apps = Apps(kube, new_namespace(), Kube(new_client(str(api.kubeconfig)), clock=clock))
    apps.create(kafka={"bootstrapServers": NOBODY}, deletionPolicy="Delete")
    apps.reconcile()
    apps.reconcile()
    found = apps.get("StreamApp", "word-count")
    made = datetime.fromisoformat(found["metadata"]["creationTimestamp"])
    for condition in found["status"]["conditions"]:
        age = datetime.fromisoformat(condition["lastTransitionTime"]) - made
        assert abs(age) < timedelta(minutes=5), "as all that the API server says of times"
    kube.delete("StreamApp", apps.namespace, "word-count", found["metadata"]["uid"])
    apps.reconcile()
    apps.reconcile()
    assert has_finalizer(apps.get("StreamApp", "word-count")), "Kafka has its time to answer, which has only begun"
