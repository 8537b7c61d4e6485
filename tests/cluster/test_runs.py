# SPDX-License-Identifier: Apache-2.0
"""Apps that stop at the end of their input, in pods: a run goes on where the last one ended, and counts are exact."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.app import GONE_SECONDS
from cluster.namespace import Manifest, Namespace
from cluster.word_count import LINES, WordCount
from lib.wait import until
from streamapp.kafka.admin import Admin
from streamapp.kafka.config import KafkaConfig

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

ONCE = {"run": "untilCaughtUp"}


@pytest.fixture
def words(operated: Namespace, pods_kafka: KafkaConfig, root: Path) -> WordCount:
    return WordCount(operated, pods_kafka, root)


def await_run(words: WordCount, phase: str, other_than: str = "") -> Manifest:
    """Waits for the end of a run; returns it when the app rests again."""

    def there() -> Manifest | None:
        status = words.status()
        run: Manifest = status.get("run", {})
        is_new = run.get("result") == "Completed" and run["startedAt"] != other_than
        return run if status.get("phase") == phase and is_new else None

    words._until(there, 150, f"a run has completed, and the app is {phase}")
    found = there()
    assert found is not None
    return found


def test_two_runs_with_more_input_between_count_everything_once(words: WordCount) -> None:
    words.say(*LINES)
    words.begin(**ONCE)
    first = await_run(words, "Completed")
    assert first["records"] == len(LINES)
    words.await_counts(LINES)
    assert words.status()["lag"] == {"total": 0}
    assert not [name for name in words.objects() if name.startswith("statefulset")]
    assert words.executors() == []

    words.say(*LINES, "one more")
    words.patch(epochInterval="200ms")
    second = await_run(words, "Completed", other_than=first["startedAt"])
    assert second["records"] == len(LINES) + 1
    words.await_counts([*LINES, *LINES, "one more"])
    line = words.namespace.kubectl("get", f"sapp/{words.name}", "--no-headers")
    assert line.split()[1:6] == ["Completed", "False", "0", "0", "0"]


@pytest.mark.chaos
def test_a_run_that_is_told_to_stop_is_not_taken_for_one_that_is_done(words: WordCount) -> None:
    """A node's drain does the same. The first epoch is held up, so that the stop comes in the middle."""
    env = [{"name": "STREAMAPP_FAILPOINTS", "value": "epoch.planned=pause:8000"}]
    pods = {"podTemplate": {"spec": {"containers": [{"name": "driver", "env": env}]}}}
    words.say(*LINES)
    words.begin(**ONCE, driver=pods)
    words._until(lambda: paused(words), 90, "the first epoch is held up")
    pod = words.drivers()[-1]
    words.namespace.kubectl("delete", f"pod/{pod}", "--wait=false")
    run = await_run(words, "Completed")
    assert words.drivers()[-1] != pod
    assert run["records"] <= len(LINES)
    words.await_counts(LINES)


def paused(words: WordCount) -> bool:
    return "FAILPOINT epoch.planned" in words.said_by_drivers()


def test_a_schedule_makes_runs_that_can_also_be_begun_by_hand(words: WordCount) -> None:
    """The times of schedules are tested in tests/apiserver: no test should wait for them here."""
    words.begin(**ONCE, schedule="0 0 29 2 *", deletionPolicy="Delete")
    words.await_phase("Scheduled", 30)
    assert words.status()["run"]["nextAt"].endswith("-02-29T00:00:00Z")
    words.say(*LINES)
    words.namespace.kubectl("create", "job", "by-hand", f"--from=cronjob/{words.name}-run")
    run = await_run(words, "Scheduled")
    assert (run["job"], run["records"]) == ("by-hand", len(LINES))
    words.await_counts(LINES)
    require_deleted_with_its_topics(words)


def test_internal_topics_go_with_a_running_app(words: WordCount) -> None:
    words.say(*LINES)
    words.begin(deletionPolicy="Delete")
    words.await_counts(LINES, 120)
    require_deleted_with_its_topics(words)


def require_deleted_with_its_topics(words: WordCount) -> None:
    admin = Admin(words.kafka)
    mine = {name for name in admin.topics() if name.startswith(f"{words.name}-")}
    internal = mine - {words.lines, words.counts}
    assert len(internal) == 2
    words.namespace.kubectl("delete", f"sapp/{words.name}", f"--timeout={GONE_SECONDS:g}s")
    assert {name for name in admin.topics() if name.startswith(f"{words.name}-")} == {words.lines, words.counts}
    words.await_gone()
    told = words.namespace.kubectl("get", "events", "--field-selector=reason=Deleted", "--output=jsonpath={..message}")
    assert all(name in told for name in internal)


def test_a_namespace_with_its_operator_goes(words: WordCount) -> None:
    """The operator removes the finalizer on its way out, as no operator is left then to do so. Topics stay."""
    words.say(*LINES)
    words.begin(deletionPolicy="Delete", **ONCE)
    await_run(words, "Completed")
    cluster, name = words.namespace.cluster, words.namespace.name
    cluster.kubectl("delete", f"namespace/{name}", "--wait=false")
    until(lambda: not cluster.has(f"namespace/{name}"), GONE_SECONDS, f"namespace {name} is gone", every=0.5)
    assert f"{words.name}-metadata" in Admin(words.kafka).topics()
