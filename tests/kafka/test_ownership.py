# SPDX-License-Identifier: Apache-2.0
"""An app neither uses nor deletes topics or a consumer group that it cannot prove to be its own."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from lib.broker import group_offsets, unique_name, write
from lib.ownership import InMemory, record_ownership
from lib.verify import committed
from streamapp.compile import compile_manifest
from streamapp.errors import InputError
from streamapp.kafka.access import make_ready
from streamapp.kafka.admin import Admin
from streamapp.kafka.claims import Claimed, NotOurs, TopicLost, claim
from streamapp.kafka.config import KafkaConfig
from streamapp.kafka.group import GroupPosition
from streamapp.kafka.ownership import GROUP, TOPIC, read_ownership
from streamapp.kafka.topics import ensure_topics, topics_of
from streamapp.manifest import parse_manifest
from streamapp.plan import Plan
from streamapp.spark.app import Options, run_app
from streamapp_operator.deletion.kafka import Cleaner
from streamapp_operator.observe.remains import Remains

pytestmark = pytest.mark.kafka

MANIFEST = """
apiVersion: streamapp.dev/v1alpha1
kind: StreamApp
metadata: {name: $A}
spec:
  maxParallelism: 1
  topology:
  - {name: lines, stream: {topic: $T-lines, value: text}}
  - {name: counts, groupBy: [value], aggregate: {count: count(*)}, store: $S}
  - {name: out, to: {topic: $T-counts}}
"""


def plan_of(application_id: str, store: str, topics: str) -> Plan:
    text = MANIFEST.replace("$A", application_id).replace("$S", store).replace("$T", topics)
    return compile_manifest(parse_manifest(text))


def remains(kafka: KafkaConfig, plan: Plan) -> Remains:
    """The operator's record of an app that is deleted."""
    metadata = f"{plan.application_id}-metadata"
    others = tuple(topic.name for topic in plan.topics if topic.name != metadata)
    servers = replace(plan.kafka, bootstrap_servers=kafka.bootstrap_servers)
    return Remains(plan.application_id, f"shop/{plan.application_id}/1", servers, metadata, others)


def test_an_app_that_never_ran_deletes_nothing(kafka: KafkaConfig) -> None:
    """It deletes neither a group that has its applicationId's name, nor topics with the names that its own would
    have."""
    admin, name = Admin(kafka), unique_name("never")
    plan = plan_of(name, "counts", name)
    ensure_topics(admin, [spec for spec in topics_of(plan) if not spec.name.endswith("-metadata")], create_all=True)
    write(kafka, f"{name}-counts-changelog", ("theirs", "x"))
    with closing(GroupPosition(kafka, name)) as group:
        assert group.write({(f"{name}-lines", 0): 7})
    outcome = Cleaner().clean(remains(kafka, plan))
    assert (outcome.deleted, outcome.left) == ((), ())
    assert f"{name}-counts-changelog" in outcome.why
    assert f"{name}-counts-changelog" in admin.topics()
    assert group_offsets(kafka, name, f"{name}-lines") == {(f"{name}-lines", 0): 7}


def test_what_somebody_else_has_made_anew_is_not_deleted(kafka: KafkaConfig) -> None:
    """Nor are topics that the app only meant to make, or that another app has on record; topics that are proven to be
    its own go."""
    admin, name = Admin(kafka), unique_name("anew")
    plan = plan_of(name, "counts", name)
    ensure_topics(admin, topics_of(plan), create_all=True)
    changelog = f"{name}-counts-changelog"
    for recorded in ("", "AAAAAAAAAAEAAAAAAAAAAg"):
        others = {TOPIC + changelog: recorded, TOPIC + f"{name}-metadata": "?"}
        record_ownership(kafka, plan, f"shop/{name}/1", others)
        outcome = Cleaner().clean(remains(kafka, plan))
        assert (outcome.deleted, outcome.left) == ((), ())
        assert changelog in outcome.why
    record_ownership(kafka, plan, f"shop/{name}/1")
    outcome = Cleaner().clean(remains(kafka, plan))
    assert outcome == type(outcome)(deleted=(changelog, f"{name}-metadata"), group=True)


def claimed(kafka: KafkaConfig, plan: Plan, book: InMemory, before: tuple[str, ...] = ()) -> Claimed:
    return claim(kafka, Admin(kafka), plan, book, before, ran=bool(before))


@pytest.fixture
def two(kafka: KafkaConfig) -> tuple[Plan, Plan]:
    """Two apps whose changelogs have the same name; their metadata topics are there."""
    name = unique_name("word")
    first, second = plan_of(name, "count-totals", name), plan_of(f"{name}-count", "totals", name)
    assert first.stores[0].changelog_topic == second.stores[0].changelog_topic
    specs = [*topics_of(first), *topics_of(second)]
    ensure_topics(Admin(kafka), [spec for spec in specs if "metadata" in spec.name])
    return first, second


def test_a_topic_that_another_app_has_on_record_is_refused(kafka: KafkaConfig, two: tuple[Plan, Plan]) -> None:
    first, second = two
    changelog = first.stores[0].changelog_topic
    book = InMemory()
    ids = claimed(kafka, first, book).topics
    assert ids == Admin(kafka).topic_ids([topic.name for topic in first.topics])
    assert claimed(kafka, first, book).topics == ids
    record_ownership(kafka, first, "shop/first/1")
    theirs = InMemory()
    belongs = rf"'{changelog}' of 'counts' belongs to application '{first.application_id}' of 'shop/first/1'"
    with pytest.raises(NotOurs, match=belongs):
        claimed(kafka, second, theirs)
    assert TOPIC + changelog not in theirs.records, "the intent is withdrawn"
    with pytest.raises(NotOurs):  # even one that an earlier version has let in
        claimed(kafka, second, theirs, (changelog,))


def test_a_topic_that_an_app_of_before_the_records_uses_is_refused(kafka: KafkaConfig, two: tuple[Plan, Plan]) -> None:
    first, second = two
    ensure_topics(Admin(kafka), topics_of(first), create_all=True)
    app = first.application_id
    write(kafka, f"{app}-metadata", ("owner", "shop/first/1"), (f"/{app}/count-totals/commits/0", "v1"))
    with pytest.raises(NotOurs, match="belongs to application"):
        claimed(kafka, second, InMemory())
    changelog = first.stores[0].changelog_topic
    write(kafka, changelog, ("state", "x"))
    assert claimed(kafka, first, InMemory(), (changelog,)).topics[changelog], "its own use counts more"


def run(kafka: KafkaConfig, plan: Plan, folder: Path, owner: str = "", adopted: str | None = None) -> None:
    """Runs the app to the end of the input, as on a cluster: `shop` is the namespace."""
    make_ready(kafka, plan, create_all=True)
    owner = owner or f"shop/{plan.application_id}/1"
    run_app(plan, kafka, Options(folder / plan.application_id, until_caught_up=True, owner=owner, adopted=adopted))


@pytest.mark.timeout(120)
def test_of_two_apps_with_one_changelog_the_second_is_refused_and_deletes_nothing(
    kafka: KafkaConfig, tmp_path: Path, two: tuple[Plan, Plan]
) -> None:
    admin, (first, second) = Admin(kafka), two
    changelog, app = first.stores[0].changelog_topic, first.application_id
    ensure_topics(admin, [spec for spec in topics_of(first) if not spec.internal], create_all=True)
    write(kafka, f"{app}-lines", ("", "a"))
    run(kafka, first, tmp_path)
    found = read_ownership(kafka, f"{app}-metadata", app)
    assert found.topics == admin.topic_ids([topic.name for topic in first.topics])
    assert (found.owner, found.has_group(app), *found.committed) == (f"shop/{app}/1", True, "count-totals")
    with pytest.raises(NotOurs, match=f"'{changelog}' of 'counts' belongs to application '{app}' of 'shop/{app}/1'"):
        run(kafka, second, tmp_path)
    outcome = Cleaner().clean(remains(kafka, second))
    assert (outcome.deleted, outcome.left) == ((f"{second.application_id}-metadata",), ())
    assert changelog in outcome.why
    run(kafka, first, tmp_path)
    outcome = Cleaner().clean(remains(kafka, first))
    assert (set(outcome.deleted), outcome.why) == ({changelog, f"{app}-metadata"}, "")


def test_an_intent_of_another_app_is_enough(kafka: KafkaConfig, two: tuple[Plan, Plan]) -> None:
    """The other app has just made the topic, or is about to."""
    first, second = two
    write(kafka, f"{first.application_id}-metadata", ("owner", "a/b/c"), (TOPIC + first.stores[0].changelog_topic, ""))
    with pytest.raises(NotOurs, match="belongs to application"):
        claimed(kafka, second, InMemory())


def test_a_start_goes_on_where_a_crash_left_it(kafka: KafkaConfig) -> None:
    """Between the intent and the id the topic may be there or not; it is empty, as no process writes before that."""
    name = unique_name("crash")
    plan = plan_of(name, "counts", name)
    changelog = plan.stores[0].changelog_topic
    ensure_topics(Admin(kafka), topics_of(plan), create_all=True)
    book = InMemory({TOPIC + changelog: ""})
    assert claimed(kafka, plan, book).topics == Admin(kafka).topic_ids([changelog, f"{name}-metadata"])
    write(kafka, changelog, ("somebody's", "x"))
    with pytest.raises(NotOurs, match="exists, has been written to, and is not on record"):
        claimed(kafka, plan, InMemory({TOPIC + changelog: ""}))
    assert changelog in claimed(kafka, plan, InMemory(), (changelog,)).topics, "adopted: the app has run with it"


def test_a_topic_that_is_gone_or_was_made_anew_is_refused(kafka: KafkaConfig) -> None:
    admin, name = Admin(kafka), unique_name("lost")
    plan = plan_of(name, "counts", name)
    changelog = plan.stores[0].changelog_topic
    ensure_topics(admin, [spec for spec in topics_of(plan) if "metadata" in spec.name])
    claimed(kafka, plan, book := InMemory())
    admin.delete([changelog])
    with pytest.raises(TopicLost, match="does not exist any more: its content is lost"):
        claimed(kafka, plan, book)
    ensure_topics(admin, topics_of(plan), create_all=True)
    with pytest.raises(TopicLost, match="was deleted and made anew"):
        claimed(kafka, plan, book)


def test_a_group_that_was_there_before_is_not_taken(kafka: KafkaConfig) -> None:
    name = unique_name("group")
    plan = plan_of(name, "counts", name)
    ensure_topics(Admin(kafka), topics_of(plan), create_all=True)
    book = InMemory(free=False)
    assert not claimed(kafka, plan, book).group
    assert GROUP + name not in book.records
    assert claimed(kafka, plan, book, (plan.stores[0].changelog_topic,)).group, "an earlier version has written it"
    assert GROUP + name in book.records


def test_what_anybody_may_write_is_read_within_bounds(kafka: KafkaConfig) -> None:
    name = unique_name("bounds")
    plan = plan_of(name, "counts", name)
    ensure_topics(Admin(kafka), topics_of(plan), create_all=True)
    write(kafka, f"{name}-metadata", ("owner", "a/b/c"), ("x" * 100_000, "y"), ("other", "z" * 500_000))
    assert read_ownership(kafka, f"{name}-metadata", name).owner == "a/b/c"
    write(kafka, f"{name}-metadata", (TOPIC + "t", "z" * 500_000))
    outcome = Cleaner().clean(remains(kafka, plan))
    assert outcome.deleted == ()
    assert "it is not trusted" in outcome.why


@pytest.mark.timeout(180)
def test_an_app_that_was_made_anew_adopts_its_state(kafka: KafkaConfig, tmp_path: Path) -> None:
    """By the exact name of the owner on record. From then on the applicationId belongs to the new app, no longer to the
    old one."""
    admin, name = Admin(kafka), unique_name("adopt")
    plan = plan_of(name, "counts", name)
    old, new = f"shop/{name}/1", f"shop/{name}/2"
    ensure_topics(admin, [spec for spec in topics_of(plan) if not spec.internal], create_all=True)
    write(kafka, f"{name}-lines", ("", "a"), ("", "a"))
    run(kafka, plan, tmp_path)
    before = admin.topic_ids([topic.name for topic in plan.topics])
    write(kafka, f"{name}-lines", ("", "a"))
    with pytest.raises(InputError, match=rf"belongs to '{old}'.* not to '{new}': .*streamapp adopt NAME {old}"):
        run(kafka, plan, tmp_path, owner=new)
    with pytest.raises(InputError, match=rf"belongs to '{old}'.* \('shop/{name}/0', .*, does not own it\)"):
        run(kafka, plan, tmp_path, owner=new, adopted=f"shop/{name}/0")
    assert read_ownership(kafka, f"{name}-metadata", name).owner == old, "a refused start has changed nothing"
    run(kafka, plan, tmp_path, owner=new, adopted=old)
    found = read_ownership(kafka, f"{name}-metadata", name)
    assert (found.owner, found.topics) == (new, before)
    run(kafka, plan, tmp_path, owner=new, adopted=old)  # `adopted` may stay there after it has done its work
    with pytest.raises(InputError, match=rf"belongs to '{new}'.* not to '{old}'"):
        run(kafka, plan, tmp_path)
    assert committed(kafka, f"{name}-counts")[-1].value() == b'{"count":3}'
    assert Cleaner().clean(remains(kafka, plan)).deleted == (), "the old one's deletion takes nothing along"
    assert read_ownership(kafka, f"{name}-metadata", name).owner == new
