# SPDX-License-Identifier: Apache-2.0
"""Secrets that an app names for Kafka, on a real API server: the operator waits for them and reports it; new content
starts a new driver."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lib.operator import RUNNING, Apps
from lib.secured import make_authority
from lib.wait import until
from streamapp_operator.cluster.cache import Cache
from streamapp_operator.deletion.finalizer import TRY_SECONDS
from streamapp_operator.observe.observation import APP_KIND
from streamapp_operator.observe.remains import DEADLINE_SECONDS
from streamapp_operator.reconcile import OFTEN_SECONDS
from streamapp_operator.render.meta import Object

pytestmark = pytest.mark.cluster

KAFKA = {
    "bootstrapServers": "kafka:9093",
    "sasl": {"mechanism": "SCRAM-SHA-512", "secretRef": {"name": "kafka-user"}},
}
CANARY = "c4n4ry"


def put(apps: Apps, **data: str) -> None:
    """Gives the Secret exactly these keys."""
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
    wanted: Object = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "kafka-user", "namespace": apps.namespace},
        "data": encoded,
    }
    found = apps.kube.get("Secret", apps.namespace, "kafka-user")
    if found is None:
        apps.kube.create(wanted)
    else:
        apps.kube.replace({**found, "data": encoded})


def delete(apps: Apps) -> None:
    apps.kube.delete("Secret", apps.namespace, "kafka-user", apps.get("Secret", "kafka-user")["metadata"]["uid"])


def ready(apps: Apps) -> tuple[str, str]:
    condition = apps.condition("Ready")
    return condition["reason"], condition["message"]


def test_an_app_waits_for_its_secret_and_says_so(apps: Apps) -> None:
    apps.create(kafka=KAFKA)
    apps.settle()
    assert apps.children() == {}
    assert apps.status()["phase"] == "Pending"
    reason, message = ready(apps)
    assert reason == "SecretUnusable"
    assert f"Secret 'kafka-user' of spec.kafka.sasl is not in namespace '{apps.namespace}'; make it:" in message
    assert apps.condition("Degraded")["reason"] == "SecretUnusable"
    assert apps.condition("TopologyValid")["status"] == "True"
    put(apps, username="ada")
    apps.settle()
    assert "has no key 'password'" in ready(apps)[1]
    put(apps, username="ada", password=CANARY)
    apps.settle()
    assert ready(apps)[0] == "DriverPending"
    pod = apps.await_driver()
    (volume,) = [volume for volume in pod["spec"]["volumes"] if volume["name"] == "kafka"]
    secret = volume["projected"]["sources"][1]["secret"]
    assert secret["name"] == "kafka-user"
    assert [item["key"] for item in secret["items"]] == ["username", "password"]


def test_a_secret_that_is_completed_is_noticed_at_the_next_look(apps: Apps) -> None:
    """Whatever was read a moment ago."""
    put(apps, username="ada")
    apps.create(kafka=KAFKA)
    apps.settle()
    cache = Cache(apps.kube)
    cache.keep_kind(APP_KIND)
    cache.put(apps.get(APP_KIND, "word-count"))
    assert apps.reconcile(cache=cache) == OFTEN_SECONDS
    apps.reconcile(cache=cache)
    put(apps, username="ada", password=CANARY)
    apps.reconcile(cache=cache)
    assert ("StatefulSet", "word-count-driver") in apps.children()


def test_a_change_of_the_secret_is_one_new_driver_and_its_loss_is_none(apps: Apps, tmp_path: Path) -> None:
    put(apps, username="ada", password=CANARY)
    apps.create(kafka=KAFKA)
    apps.settle()
    first = apps.await_driver()["metadata"]["uid"]
    put(apps, username="ada", password="another")
    apps.settle()
    second = apps.await_driver(other_than=first)["metadata"]["uid"]
    apps.settle()
    with apps.driver_says(RUNNING, tmp_path):
        apps.add_executor()
        delete(apps)
        apps.settle()
        assert apps.await_driver()["metadata"]["uid"] == second
        assert apps.status()["phase"] == "Running"
        assert ready(apps)[0] == "Processing"
        assert apps.condition("Degraded")["reason"] == "SecretUnusable"
        with apps.counting() as writes:
            apps.reconcile()
        assert writes == []
        put(apps, username="ada", password="another")
        apps.settle()
        assert apps.condition("Degraded")["reason"] == "AsExpected"
        assert apps.await_driver()["metadata"]["uid"] == second


def test_an_app_can_be_suspended_without_its_secret(apps: Apps) -> None:
    put(apps, username="ada", password=CANARY)
    apps.create(kafka=KAFKA)
    apps.settle()
    apps.await_driver()
    delete(apps)
    apps.change(suspend=True)
    apps.settle()
    assert apps.get("StatefulSet", "word-count-driver")["spec"]["replicas"] == 0


@pytest.fixture
def mismatched(apps: Apps, tmp_path: Path) -> dict[str, object]:
    """`kafka` of a manifest, whose Secret has a certificate, and the key of another one."""
    for name in ("ours", "other"):
        make_authority(tmp_path, name)
    certificate = (tmp_path / "ours.pem").read_text()
    put(apps, **{"ca.crt": certificate, "tls.crt": certificate, "tls.key": (tmp_path / "other.key").read_text()})
    return {"bootstrapServers": "kafka:9093", "tls": {"secretRef": {"name": "kafka-user"}}}


def test_an_app_whose_key_is_of_another_certificate_is_healed_all_the_same(
    apps: Apps, mismatched: dict[str, object]
) -> None:
    apps.create(kafka=mismatched, autoscaling={"maxReplicas": 4})
    apps.settle()
    active = apps.condition("ScalingActive")
    assert (active["status"], active["reason"]) == ("Unknown", "MetricsMissing")
    assert "the private key does not belong to the certificate" in active["message"]
    service = apps.get("Service", "word-count-driver")["metadata"]["uid"]
    apps.kube.delete("Service", apps.namespace, "word-count-driver", service)
    apps.settle()
    assert apps.get("Service", "word-count-driver")["metadata"]["uid"] != service


def test_an_app_whose_key_is_of_another_certificate_can_be_deleted(apps: Apps, mismatched: dict[str, object]) -> None:
    apps.create(kafka=mismatched, autoscaling={"maxReplicas": 4}, deletionPolicy="Delete")
    apps.settle()
    uid = apps.get("StreamApp", "word-count")["metadata"]["uid"]
    apps.kube.delete("StreamApp", apps.namespace, "word-count", uid)
    assert until(lambda: apps.reconcile() == TRY_SECONDS, 30, "Kafka is to be asked", every=0.2)
    apps.now = datetime.now(UTC) + timedelta(seconds=DEADLINE_SECONDS + 5)
    assert apps.reconcile() is None
    assert apps.kube.get("StreamApp", apps.namespace, "word-count") is None
    (told,) = [event["message"] for event in apps.kube.list("Event", apps.namespace) if event["reason"] == "TopicsLeft"]
    assert "word-count-metadata" in told
    assert "the private key does not belong to the certificate" in told


def test_what_is_in_the_secret_is_in_nothing_else(apps: Apps) -> None:
    put(apps, username="ada", password=CANARY)
    apps.create(kafka=KAFKA)
    apps.settle()
    apps.await_driver()
    encoded = base64.b64encode(CANARY.encode()).decode()
    told = json.dumps([*apps.children().values(), apps.get("StreamApp", "word-count")])
    assert "kafka-user" in told
    assert CANARY not in told
    assert encoded not in told
