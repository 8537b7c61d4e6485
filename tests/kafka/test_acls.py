# SPDX-License-Identifier: Apache-2.0
"""An app needs exactly the rights that `streamapp topics --acls` prints: with them it works on a Kafka that forbids
everything else, and the error for a missing right names it."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka.admin import AclBinding, AclOperation

from lib.app import AppProcess
from lib.broker import group_offsets, in_order, unique_name
from lib.guarded import AN_APP, NEEDED, PREFIX, make_topics, make_users_topics, plan_of, without, write
from lib.ownership import record_ownership
from lib.secured import CERTIFIED, SecuredBroker, bindings_of, secured_broker
from lib.verify import committed
from lib.wait import until
from streamapp.cli.main import main
from streamapp.compile import compile_manifest
from streamapp.kafka.acls import TOPIC, TRANSACTIONAL_ID
from streamapp.kafka.admin import Admin
from streamapp.kafka.group import GroupPosition
from streamapp.kafka.secured import config_of
from streamapp.kafka.topics import ensure_topics, topics_of, tune
from streamapp.manifest import parse_manifest
from streamapp.plan import Plan
from streamapp_operator.deletion.kafka import Cleaner
from streamapp_operator.observe.remains import Remains

pytestmark = pytest.mark.kafka

ASKED_FOR = [need for need in NEEDED if need[0] != TRANSACTIONAL_ID and need[2] != "Create"]
"""The rights that one can ask Kafka about."""


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    with secured_broker(tmp_path_factory.mktemp("guarded"), "unused", guarded=True) as running:
        yield running


def printed(manifest: Path, capfd: pytest.CaptureFixture[str]) -> list[AclBinding]:
    capfd.readouterr()
    assert main(["topics", str(manifest), "--acls", "--principal", CERTIFIED]) == 0
    return bindings_of(capfd.readouterr().out)


@pytest.mark.timeout(180)
def test_with_what_is_printed_the_app_works(
    guarded: SecuredBroker, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    prefix = unique_name("acls")
    manifest = write(guarded, tmp_path, prefix)
    make_users_topics(guarded, prefix)
    guarded.allow(printed(manifest, capfd))
    producer = in_order(guarded.open)
    for key, n in (("a", 5), ("a", 7), ("b", 1)):
        producer.produce(f"{prefix}-numbers", json.dumps({"n": n}), key)
    producer.produce(f"{prefix}-numbers", "not json", "a")
    producer.produce(f"{prefix}-other-one", "by pattern", "a")
    assert producer.flush(30) == 0
    app = AppProcess(manifest, tmp_path / "state", None, tmp_path / "log", arguments=["--until-caught-up"])
    try:
        assert app.await_exit(120) == 0, app.tail()
    finally:
        app.end()
    results = committed(guarded.open, f"{prefix}-totals")
    totals = {message.key(): json.loads(message.value() or b"") for message in results}
    assert totals == {b"a": {"total": 12, "marks": 2}, b"b": {"total": 1, "marks": 1}}
    assert len(committed(guarded.open, f"{prefix}-echo")) == 3
    assert len(committed(guarded.open, f"{prefix}-bad")) == 1
    assert [message.value() for message in committed(guarded.open, f"{prefix}-rest")] == [b"by pattern"]
    assert sum(group_offsets(guarded.open, prefix, f"{prefix}-numbers").values()) == 4


@pytest.fixture(scope="module")
def ready(guarded: SecuredBroker, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """An app, all of whose topics are there."""
    prefix = unique_name("dropped")
    make_topics(guarded, prefix)
    return prefix, write(guarded, tmp_path_factory.mktemp("dropped"), prefix)


@pytest.mark.timeout(60)
@pytest.mark.parametrize(("kind", "name", "operation"), ASKED_FOR)
def test_what_is_missing_is_told_before_anything_is_done(
    guarded: SecuredBroker,
    ready: tuple[str, Path],
    capfd: pytest.CaptureFixture[str],
    kind: str,
    name: str,
    operation: str,
) -> None:
    prefix, manifest = ready
    name = name.replace(AN_APP, prefix)
    bindings = printed(manifest, capfd)
    missing, _ = without(bindings, name, operation)
    guarded.allow(bindings)
    guarded.forbid(missing)
    assert main(["run", str(manifest), "--state-dir", str(manifest.parent / "state")]) == 3
    error = capfd.readouterr().err
    assert len(error.splitlines()) == 1, error
    (told,) = re.findall(r"does not allow what the app needs: (.*); allow it", error)
    by_pattern = name == PREFIX.replace(AN_APP, prefix)
    what = f"{kind}s that begin with" if by_pattern else kind
    or_none = ", or no such topic exists: Kafka's answer is the same for both" if by_pattern else ""
    assert re.fullmatch(rf"{operation} on {what} '{re.escape(name)}' \([^()]+\){or_none}", told), error


@pytest.mark.timeout(60)
@pytest.mark.parametrize("topic", [f"{AN_APP}-metadata", f"{AN_APP}-position"])  # made before and with all other rights
def test_each_topic_that_cannot_be_made_is_told(
    guarded: SecuredBroker, tmp_path: Path, capfd: pytest.CaptureFixture[str], topic: str
) -> None:
    prefix = unique_name("uncreated")
    manifest = write(guarded, tmp_path, prefix)
    make_users_topics(guarded, prefix)
    missing, rest = without(printed(manifest, capfd), topic.replace(AN_APP, prefix), "Create")
    guarded.allow(rest)
    assert main(["run", str(manifest), "--state-dir", str(tmp_path / "state")]) == 3
    (error,) = [line for line in capfd.readouterr().err.splitlines() if line.startswith("error: ")]
    (spec,) = [spec for spec in topics_of(plan_of(prefix)) if spec.name == missing.name]
    (told,) = re.findall(r"would not create topic '(\S+)' for node '(\S+)'", error)
    assert told == (missing.name, spec.node)
    assert f"it needs Create on topic '{missing.name}'" in error
    assert missing.name not in Admin(guarded.open).topics()


@pytest.mark.timeout(120)
def test_transactional_ids_that_are_not_allowed_are_told(
    guarded: SecuredBroker, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    prefix = unique_name("untransacted")
    manifest = write(guarded, tmp_path, prefix)
    make_users_topics(guarded, prefix)
    _, rest = without(printed(manifest, capfd), f"{prefix}/", "Write")
    guarded.allow(rest)
    app = AppProcess(manifest, tmp_path / "state", None, tmp_path / "log")
    try:
        assert app.await_exit(90) == 3, app.tail()
    finally:
        app.end()
    assert f"Write on transactional-ids that begin with '{prefix}/'" in app.said


@pytest.mark.timeout(120)
def test_what_is_printed_lets_the_operator_delete_what_an_app_leaves(
    guarded: SecuredBroker, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    prefix = unique_name("deleted")
    manifest = write(guarded, tmp_path, prefix)
    manifest.write_text(manifest.read_text().replace("spec:\n", "spec:\n  deletionPolicy: Delete\n"))
    plan = plan_of(prefix)
    ensure_topics(Admin(guarded.open), topics_of(plan), create_all=True)
    group = GroupPosition(guarded.open, prefix)
    assert group.write({(f"{prefix}-numbers", 0): 0})
    group.close()
    record_ownership(guarded.open, plan, "here/app/1")
    bindings = printed(manifest, capfd)
    deletes = [binding for binding in bindings if binding.operation == AclOperation.DELETE]
    assert {binding.name for binding in deletes} == {*(topic.name for topic in plan.topics), prefix}
    guarded.allow(bindings)
    for missing in deletes:
        guarded.forbid(missing)
    outcome = Cleaner().clean(remains(guarded, plan))
    assert outcome.deleted == ()
    assert set(outcome.left) == {topic.name for topic in plan.topics}
    assert "authori" in outcome.why.lower(), outcome.why
    guarded.allow(deletes)
    outcome = Cleaner().clean(remains(guarded, plan))
    assert (outcome.left, outcome.why) == ((), "")
    assert set(outcome.deleted) == {topic.name for topic in plan.topics}
    until(lambda: not set(outcome.deleted) & Admin(guarded.open).topics().keys(), 30, "the topics are gone")
    assert f"{prefix}-numbers" in Admin(guarded.open).topics()
    assert group_offsets(guarded.open, prefix, f"{prefix}-numbers") == {}


def remains(guarded: SecuredBroker, plan: Plan) -> Remains:
    """The operator's record of an app that is deleted."""
    names = {"ca.crt": "ca.pem", "tls.crt": "client.pem", "tls.key": "client.key"}
    data = {key: base64.b64encode((guarded.folder / name).read_bytes()).decode() for key, name in names.items()}
    *others, metadata = sorted((topic.name for topic in plan.topics), key=lambda name: name.endswith("-metadata"))
    kafka = replace(plan.kafka, bootstrap_servers=guarded.certified, tls_secret="kafka-tls")
    secrets = {"kafka-tls": {"data": data}}
    return Remains(plan.application_id, "here/app/1", kafka, metadata, tuple(others), secrets)


def test_every_kind_of_right_is_tried() -> None:
    """The parameters above have all needed rights, and no others."""
    assert {kind for kind, _, _ in ASKED_FOR} == {TOPIC, "group"}
    assert {operation for _, _, operation in ASKED_FOR} == {"Read", "Write", "Delete", "DescribeConfigs"}
    assert len(NEEDED) - len(ASKED_FOR) == 1 + len(plan_of("x").topics)


@pytest.mark.timeout(60)
def test_topics_that_may_not_be_altered_are_told_and_borne(
    guarded: SecuredBroker, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    prefix = unique_name("unaltered")
    manifest = write(guarded, tmp_path, prefix)
    (spec,) = [spec for spec in topics_of(plan_of(prefix)) if spec.name.endswith("-position")]
    Admin(guarded.open).create([replace(spec, wishes={})])
    guarded.allow(printed(manifest, capfd))
    plan = compile_manifest(parse_manifest(manifest.read_text()))
    (line,) = tune(Admin(config_of(plan.kafka, tmp_path)), [spec])
    assert line.startswith(f"internal topic '{spec.name}' grows more than it has to: ")
    assert "--add-config segment.bytes=1048576,min.cleanable.dirty.ratio=0.1" in line
