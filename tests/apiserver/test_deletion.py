# SPDX-License-Identifier: Apache-2.0
"""`deletionPolicy: Delete`, on a real API server and a real broker; and on a broker that is not there."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from lib.apiserver import ApiServer
from lib.broker import group_offsets
from lib.nodes import DRIVER, Nodes, run_on
from lib.operator import Apps, Crash, Object
from lib.ownership import record_ownership
from lib.wait import until
from streamapp.kafka.admin import Admin, TopicSpec
from streamapp.kafka.config import KafkaConfig
from streamapp.kafka.topics import ensure_topics, topics_of
from streamapp.plan import Plan
from streamapp_operator.backoff import Backoff
from streamapp_operator.cluster.kube import SECONDS, Kube
from streamapp_operator.cluster.lease import NotHolder
from streamapp_operator.deletion.finalizer import TRY_SECONDS
from streamapp_operator.deletion.kafka import RETRY_SECONDS, Cleaner, Outcome
from streamapp_operator.deletion.uninstall import TRIES, release_apps
from streamapp_operator.manifest.app import read_app
from streamapp_operator.memory import Memory
from streamapp_operator.observe.remains import DEADLINE_SECONDS, FINALIZER, Remains, has_finalizer
from streamapp_operator.settings import Settings

pytestmark = [pytest.mark.cluster, pytest.mark.kafka]

NOBODY = "127.0.0.1:1"


def create(apps: Apps, servers: str, policy: str = "Delete", **spec: Any) -> Plan:
    """Makes the app under an applicationId of its own; returns its plan."""
    own = f"words-{uuid.uuid4().hex[:8]}"
    apps.create(kafka={"bootstrapServers": servers}, deletionPolicy=policy, applicationId=own, **spec)
    apps.settle()
    apps.await_driver()
    return read_app(apps.get("StreamApp", "word-count")).plan


def use(kafka: KafkaConfig, plan: Plan, owner: str) -> Admin:
    """Does a driver's part: makes the topics, writes down their owner, and shows its position."""
    admin = Admin(kafka)
    ensure_topics(admin, topics_of(plan), create_all=True)
    record_ownership(kafka, plan, owner)
    consumer = Consumer({**kafka.for_librdkafka(), "group.id": plan.application_id})
    consumer.commit(offsets=[TopicPartition("text-lines", 0, 0)], asynchronous=False)
    consumer.close()
    return admin


def owner_of(apps: Apps) -> str:
    metadata = apps.get("StreamApp", "word-count")["metadata"]
    return f"{metadata['namespace']}/{metadata['name']}/{metadata['uid']}"


def delete(apps: Apps) -> None:
    uid = apps.get("StreamApp", "word-count")["metadata"]["uid"]
    apps.kube.delete("StreamApp", apps.namespace, "word-count", uid)


def find(apps: Apps) -> Object | None:
    return apps.kube.get("StreamApp", apps.namespace, "word-count")


def await_gone(apps: Apps) -> None:
    def gone() -> bool:
        apps.reconcile()
        return find(apps) is None

    until(gone, 60, "the app is gone", every=0.2)


def be_late(apps: Apps) -> None:
    apps.now = datetime.now(UTC) + timedelta(seconds=DEADLINE_SECONDS + 5)


def told(apps: Apps, reason: str) -> str:
    """The message of the only event with that reason."""
    found = [event["message"] for event in apps.kube.list("Event", apps.namespace) if event["reason"] == reason]
    assert len(found) == 1, apps.events()
    return str(found[0])


def internal(plan: Plan) -> set[str]:
    return {topic.name for topic in plan.topics}


def test_internal_topics_and_group_go_with_the_app_and_nothing_else(apps: Apps, kafka: KafkaConfig) -> None:
    plan = create(apps, kafka.bootstrap_servers)
    assert apps.get("StreamApp", "word-count")["metadata"]["finalizers"] == [FINALIZER]
    admin = use(kafka, plan, owner_of(apps))
    neighbour = f"{plan.application_id}-two-metadata"  # of an app whose name begins with this one's
    admin.create([TopicSpec(neighbour, "test", 1)])
    assert internal(plan) <= admin.topics().keys()
    delete(apps)
    apps.reconcile()
    assert apps.status()["phase"] == "Deleting"
    assert "Deleting" in apps.events()
    await_gone(apps)
    left = admin.topics().keys()
    assert not internal(plan) & left
    assert {"text-lines", "word-counts", neighbour} <= left
    assert group_offsets(kafka, plan.application_id, "text-lines") == {}
    assert f"{plan.application_id}-metadata" in told(apps, "Deleted")
    until(lambda: not apps_objects(apps), 60, "all objects are gone", every=0.2)


def apps_objects(apps: Apps) -> list[Object]:
    kinds = ("StatefulSet", "ConfigMap", "Service", "Pod")
    label = "app.kubernetes.io/instance=word-count"
    return [item for kind in kinds for item in apps.kube.list(kind, apps.namespace, label)]


def test_a_crash_after_any_write_makes_no_difference(apps: Apps, kafka: KafkaConfig) -> None:
    crashes = 0
    for count in range(20):
        plan = create(apps, kafka.bootstrap_servers)
        admin = use(kafka, plan, owner_of(apps))
        delete(apps)
        try:
            with apps.crashing_after(count):
                await_gone(apps)
        except Crash:
            crashes += 1
            apps.memory = Memory()
            await_gone(apps)
        assert not internal(plan) & admin.topics().keys(), f"after a crash at write {count}"
        until(lambda: not apps_objects(apps), 60, "all objects are gone", every=0.1)
        if crashes <= count:
            break
    assert crashes >= 4  # status, StatefulSet, event, finalizer


def test_an_operator_that_has_lost_the_lease_deletes_no_topic(apps: Apps, kafka: KafkaConfig) -> None:
    """Another operator may have let the app go, and somebody may have made it anew."""
    plan = create(apps, kafka.bootstrap_servers)
    admin = use(kafka, plan, owner_of(apps))
    delete(apps)
    assert apps.reconcile() is not None  # the objects that would make new drivers go
    until(lambda: not running_pods(apps), 30, "the driver is gone", every=0.2)
    with apps.losing_the_lease_after(0), pytest.raises(NotHolder):
        apps.reconcile()
    assert internal(plan) <= admin.topics().keys()
    await_gone(apps)
    assert not internal(plan) & admin.topics().keys()


def test_topics_of_somebody_else_with_the_same_id_stay(apps: Apps, kafka: KafkaConfig) -> None:
    plan = create(apps, kafka.bootstrap_servers)
    admin = use(kafka, plan, "shop/words/their-uid")
    delete(apps)
    await_gone(apps)
    assert internal(plan) <= admin.topics().keys()
    assert "belongs to 'shop/words/their-uid': nothing of it is deleted" in told(apps, "TopicsLeft")


def test_with_retain_nothing_waits_and_nothing_goes(apps: Apps, kafka: KafkaConfig) -> None:
    plan = create(apps, kafka.bootstrap_servers, "Retain")
    assert "finalizers" not in apps.get("StreamApp", "word-count")["metadata"]
    admin = use(kafka, plan, owner_of(apps))
    delete(apps)
    assert find(apps) is None
    assert internal(plan) <= admin.topics().keys()


def test_the_finalizer_follows_the_policy_and_others_stay(apps: Apps) -> None:
    create(apps, NOBODY, "Retain")
    body = apps.get("StreamApp", "word-count")
    body["metadata"]["finalizers"] = ["example.dev/theirs"]
    apps.kube.replace(body)
    apps.change(deletionPolicy="Delete")
    apps.settle()
    assert apps.get("StreamApp", "word-count")["metadata"]["finalizers"] == ["example.dev/theirs", FINALIZER]
    with apps.counting() as writes:
        apps.reconcile()
    assert writes == []
    apps.change(deletionPolicy="Retain")
    apps.settle()
    assert apps.get("StreamApp", "word-count")["metadata"]["finalizers"] == ["example.dev/theirs"]


def test_a_kafka_that_is_gone_holds_nothing_up_for_longer_than_the_deadline(apps: Apps) -> None:
    plan = create(apps, NOBODY)
    apps.memory.cleaner = Cleaner(Backoff(RETRY_SECONDS, RETRY_SECONDS, lambda: apps._clock().timestamp()))
    delete(apps)
    until(lambda: apps.reconcile() and not running_pods(apps), 30, "the driver is gone", every=0.2)
    assert apps.reconcile() is not None  # asks Kafka, in vain
    assert find(apps) is not None
    be_late(apps)
    assert apps.reconcile() is None
    assert find(apps) is None
    words = told(apps, "TopicsLeft")
    assert all(name in words for name in internal(plan))
    assert f"no Kafka broker answers at {NOBODY}" in words


class BrokenCleaner(Cleaner):
    """Fails as if it, or a library, had a mistake."""

    tries = 0

    def clean(self, remains: Remains, may_write: Callable[[], object] = lambda: None) -> Outcome:
        self.tries += 1
        raise ZeroDivisionError("planted")


def test_a_fault_of_ours_holds_nothing_up_for_longer_than_the_deadline_either(apps: Apps) -> None:
    create(apps, NOBODY)
    apps.memory.cleaner = cleaner = BrokenCleaner()
    delete(apps)
    until(lambda: apps.reconcile() == TRY_SECONDS, 30, "Kafka is to be asked", every=0.2)
    assert find(apps) is not None
    tries = cleaner.tries
    be_late(apps)
    assert apps.reconcile() is None
    assert find(apps) is None
    assert "ZeroDivisionError: planted" in told(apps, "TopicsLeft")
    assert cleaner.tries == tries, "the time for tries was over"


def test_an_operator_that_comes_too_late_tries_once(apps: Apps, kafka: KafkaConfig) -> None:
    plan = create(apps, kafka.bootstrap_servers)
    admin = use(kafka, plan, owner_of(apps))
    delete(apps)
    assert apps.reconcile() is not None
    until(lambda: not running_pods(apps), 30, "the driver is gone", every=0.2)
    be_late(apps)
    assert apps.reconcile() is None
    assert not internal(plan) & admin.topics().keys()


def running_pods(apps: Apps) -> list[Object]:
    return apps.kube.list("Pod", apps.namespace, "app.kubernetes.io/instance=word-count")


def test_a_driver_that_does_not_end_holds_nothing_up_either(apps: Apps, kafka: KafkaConfig, nodes: Nodes) -> None:
    """Its topics stay: it may still write to them."""
    plan = create(apps, kafka.bootstrap_servers)
    admin = use(kafka, plan, owner_of(apps))
    pod = run_on(apps, nodes.make())
    delete(apps)
    for _ in range(3):
        assert apps.reconcile() is not None
    be_late(apps)
    await_gone(apps)
    assert "word-count-driver-0 does not end" in told(apps, "TopicsLeft")
    assert internal(plan) <= admin.topics().keys()
    apps.kube.delete("Pod", apps.namespace, DRIVER, pod["metadata"]["uid"], grace=0)


def test_a_manifest_that_never_was_one_holds_nothing_up(apps: Apps) -> None:
    topology = [{"name": "x", "filter": "a > 1"}]
    apps.create(kafka={"bootstrapServers": NOBODY}, deletionPolicy="Delete", topology=topology)
    apps.settle()
    assert apps.status()["phase"] == "Invalid"
    delete(apps)
    await_gone(apps)
    assert "internal topics are left, if there are any" in told(apps, "TopicsLeft")


def test_a_pod_template_that_is_not_allowed_any_more_holds_nothing_up(apps: Apps, kafka: KafkaConfig) -> None:
    apps.settings = Settings(pod_template_allow=("hostNamespaces",))
    plan = create(apps, kafka.bootstrap_servers, driver={"podTemplate": {"spec": {"hostPID": True}}})
    admin = use(kafka, plan, owner_of(apps))
    apps.settings = Settings()
    apps.settle()
    assert apps.condition("TopologyValid")["status"] == "False"
    delete(apps)
    await_gone(apps)
    assert not internal(plan) & admin.topics().keys()


def test_the_kafka_that_was_used_is_cleaned_and_not_one_that_was_edited_in(apps: Apps, kafka: KafkaConfig) -> None:
    plan = create(apps, kafka.bootstrap_servers)
    admin = use(kafka, plan, owner_of(apps))
    body = apps.get("StreamApp", "word-count")
    tls = {"secretRef": {"name": "not-there"}}
    body["spec"]["kafka"] = {"bootstrapServers": NOBODY, "tls": tls}
    apps.kube.replace(body)
    delete(apps)
    await_gone(apps)
    assert not internal(plan) & admin.topics().keys()


def test_paused_reconciliation_does_not_hold_a_deletion_up(apps: Apps, kafka: KafkaConfig) -> None:
    plan = create(apps, kafka.bootstrap_servers)
    admin = use(kafka, plan, owner_of(apps))
    body = apps.get("StreamApp", "word-count")
    body["metadata"]["annotations"] = {"streamapp.dev/pause-reconciliation": "true"}
    apps.kube.replace(body)
    delete(apps)
    await_gone(apps)
    assert not internal(plan) & admin.topics().keys()


def test_a_namespace_that_is_deleted_goes(apps: Apps, api: ApiServer) -> None:
    """No event can be written there any more, and Kafka does not answer: that does not hold the namespace up."""
    create(apps, NOBODY)
    api.kubectl("delete", "namespace", apps.namespace, "--wait=false")
    until(lambda: "deletionTimestamp" in (find(apps) or {}).get("metadata", {}), 30, "the app is to go", every=0.2)
    be_late(apps)
    await_gone(apps)

    def is_there() -> bool:
        return bool(api.kubectl("get", "namespace", apps.namespace, "--ignore-not-found", "--output=name"))

    until(lambda: not is_there(), 60, "the namespace is gone", every=0.5)


def test_an_operator_that_goes_with_its_namespace_lets_changing_apps_go(apps: Apps, api: ApiServer) -> None:
    create(apps, NOBODY)
    changes = iter(range(2, TRIES + 1))

    def change() -> float:
        if replicas := next(changes, None):
            apps.change(replicas=replicas)
        return SECONDS

    def is_there() -> bool:
        found = find(apps)
        return found is not None and has_finalizer(found)

    leaver = Kube(apps.kube.api, may_write=change)
    release_apps(leaver, apps.namespace)
    assert is_there()  # the namespace stays
    api.kubectl("delete", "namespace", apps.namespace, "--wait=false")
    release_apps(leaver, apps.namespace)
    assert next(changes, None) is None
    assert not is_there()
