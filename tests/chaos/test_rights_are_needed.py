# SPDX-License-Identifier: Apache-2.0
"""Each right that `streamapp topics --acls` prints is needed: without it something really fails, whatever is checked
beforehand."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lib.broker import in_order, unique_name
from lib.guarded import AN_APP, NEEDED, PREFIX, make_users_topics, plan_of, without, write
from lib.secured import CERTIFIED, SecuredBroker, bindings_of, secured_broker
from streamapp.cli.main import main
from streamapp.compile import compile_manifest
from streamapp.errors import RunError, StreamAppError
from streamapp.kafka.admin import Admin
from streamapp.kafka.config import KafkaConfig
from streamapp.kafka.group import GroupPosition
from streamapp.kafka.secured import config_of
from streamapp.kafka.topics import ensure_topics, topics_of
from streamapp.manifest import parse_manifest
from streamapp.plan import Plan
from streamapp.spark.app import Options, run_app

pytestmark = [pytest.mark.kafka, pytest.mark.chaos, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    with secured_broker(tmp_path_factory.mktemp("guarded"), "unused", guarded=True) as running:
        yield running


def do_all(plan: Plan, kafka: KafkaConfig, folder: Path, send: Callable[[], None]) -> None:
    """Does all that an app does on Kafka in its life. Raises when something of it fails. `send` sends it records."""
    admin = Admin(kafka)
    ensure_topics(admin, topics_of(plan))
    ensure_topics(admin, topics_of(plan))  # looks at what is there
    client = folder / "client.properties"
    kafka.write(client)
    for run in ("first", "second"):  # the second one restores its state, for which it reads changelogs
        send()
        run_app(plan, kafka, Options(state_dir=folder / run, until_caught_up=True, client_config=client))
    position = GroupPosition(kafka, plan.application_id)
    try:
        if not position.write({(plan.source_topics[0], 0): 1}):
            raise RunError(position.trouble or "the position was not written")
    finally:
        position.close()
    admin.purge({(topic.name, 0): 0 for topic in plan.topics if topic.role == "repartition"})


@pytest.mark.parametrize(
    ("kind", "name", "operation"),
    # A topic that a pattern may not see is hidden. Nothing fails then: only the look beforehand reports it.
    [(None, "", ""), *(need for need in NEEDED if need[1] != PREFIX)],
)
def test_without_it_something_fails(
    guarded: SecuredBroker,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    kind: str | None,
    name: str,
    operation: str,
) -> None:
    prefix = unique_name("needed")
    manifest = write(guarded, tmp_path, prefix)
    make_users_topics(guarded, prefix)
    capfd.readouterr()
    assert main(["topics", str(manifest), "--acls", "--principal", CERTIFIED]) == 0
    bindings = bindings_of(capfd.readouterr().out)
    if kind is not None:
        _, bindings = without(bindings, name.replace(AN_APP, prefix), operation)
    guarded.allow(bindings)

    def send() -> None:
        producer = in_order(guarded.open)
        for key, value in (("a", json.dumps({"n": 20})), ("b", json.dumps({"n": 1})), ("c", "not json")):
            producer.produce(f"{prefix}-numbers", value, key)
        assert producer.flush(30) == 0

    plan = compile_manifest(parse_manifest(manifest.read_text()))
    assert plan.source_topics == plan_of(prefix).source_topics
    kafka = config_of(plan.kafka, tmp_path)
    if kind is None:  # with all rights nothing fails
        do_all(plan, kafka, tmp_path, send)
    else:
        with pytest.raises(StreamAppError):
            do_all(plan, kafka, tmp_path, send)
