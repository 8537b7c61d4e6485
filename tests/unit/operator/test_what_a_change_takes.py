# SPDX-License-Identifier: Apache-2.0
"""Each field has a class, and its class says what a change of it restarts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from streamapp.manifest.model import PodSpec, Spec
from streamapp_operator.commands.plan import lines_of
from streamapp_operator.crd.rules import _of_the_app
from streamapp_operator.manifest.app import App, read_app
from streamapp_operator.manifest.change_classes import (
    CLASSES,
    FIELDS,
    FORBIDDEN,
    LIVE,
    NEEDS_STATE_MIGRATION,
    RESTART_QUERY,
    ROLL_EXECUTORS,
    class_of,
    heaviest,
)
from streamapp_operator.settings import Settings
from streamapp_operator.versions.changes import DRIVER, EXECUTORS, NOTHING, Changes, changes_between
from streamapp_operator.versions.state_changes import KEPT, NEW, REFUSED, UNUSED, would_miss
from streamapp_operator.versions.update_plan import described

LINES = {"name": "lines", "stream": {"topic": "text-lines", "value": "text"}}
WORDS = {"name": "words", "from": "lines", "flatMap": {"word": "split(lower(value), ' ')"}}
COUNTS = {
    "name": "counts",
    "from": "words",
    "groupBy": ["word"],
    "aggregate": {"count": "count(*)"},
    "store": "word-counts",
}
OUT = {"name": "out", "from": "counts", "to": {"topic": "word-counts"}}
TOPOLOGY = [LINES, WORDS, COUNTS, OUT]

OTHERS: dict[str, Any] = {
    "autoscaling": {"maxReplicas": 3},
    "deletionPolicy": "Delete",
    "driver": {"resources": {"limits": {"memory": "2Gi"}}},
    "epochInterval": "1s",
    "executor.podTemplate": {"spec": {"nodeSelector": {"disk": "fast"}}},
    "executor.resources": {"limits": {"memory": "3Gi"}},
    "guarantee": "at-least-once",
    "image": "other:1",
    "kafka": {"bootstrapServers": "elsewhere:9092"},
    "onBadRecord": "Drop",
    "onSourceLoss": "Earliest",
    "replicas": 3,
    "idleTimeout": "5 minutes",
    "run": "untilCaughtUp",
    "startFrom": "latest",
    "suspend": True,
    "transactionTimeout": "90s",
    "upgrade": {"progressDeadline": "1 minute"},
}
"""Each field that can have another value by itself, and that value."""
ELSEWHERE = {
    "applicationId": "fixed: the API server refuses a change",
    "maxParallelism": "test_another_parallelism_is_forbidden",
    "closeWindows": "only with run: untilCaughtUp: test_windows_are_closed_by_a_restart",
    "code": "only with a node that calls it: test_user_modules.py",
    "schedule": "test_a_schedule_restarts_where_it_comes_or_goes",
    "standbyReplicas": "has one value in this version",
    "topology": "the tests of state, below",
}
"""Each field that cannot, and where it is tested, or why it is not."""
RESTARTS = {LIVE: NOTHING, ROLL_EXECUTORS: EXECUTORS, RESTART_QUERY: DRIVER}


def app(**spec: Any) -> App:
    body = {"kafka": {"bootstrapServers": "kafka:9092"}, "topology": TOPOLOGY, **spec}
    return read_app(
        {
            "apiVersion": "streamapp.dev/v1alpha1",
            "kind": "StreamApp",
            "metadata": {"name": "app", "namespace": "default", "uid": "1", "generation": 1},
            "spec": body,
        }
    )


def others(*fields: str) -> dict[str, Any]:
    """A spec with other values in these fields."""
    found: dict[str, Any] = {}
    for path in fields:
        field, _, inner = path.partition(".")
        found.setdefault(field, {}).update({inner: OTHERS[path]}) if inner else found.update({field: OTHERS[path]})
    return found


def changes(**spec: Any) -> Changes:
    return changes_between(app(), app(**spec), Settings())


def test_every_field_of_a_manifest_has_a_class() -> None:
    fields = {info.alias or name for name, info in Spec.model_fields.items()}
    assert {field.partition(".")[0] for field in FIELDS} == fields
    inner = {field for field in FIELDS if "." in field}
    assert inner == {f"executor.{info.alias or name}" for name, info in PodSpec.model_fields.items()}
    assert set(FIELDS.values()) <= set(CLASSES)


def test_every_field_is_changed_by_a_test() -> None:
    assert set(OTHERS) | set(ELSEWHERE) == set(FIELDS)
    assert not set(OTHERS) & set(ELSEWHERE)


def test_the_manual_has_the_same_table(root: Path) -> None:
    text = (root / "docs" / "kubernetes" / "updates.md").read_text()
    rows = [line.split("|") for line in text.splitlines() if line.startswith("| `")]
    told = {field.strip(" `"): row[2].strip(" `") for row in rows for field in row[1].split(",")}
    assert {field: kind for field, kind in told.items() if field in FIELDS} == FIELDS


def test_what_is_forbidden_is_refused_by_the_api_server_already() -> None:
    forbidden = {field for field, kind in FIELDS.items() if kind == FORBIDDEN}
    messages = [rule.message for rule in _of_the_app() if "oldSelf" in rule.rule]
    assert {field for field in forbidden if any(f"{field} cannot change" in words for words in messages)} == forbidden


@pytest.mark.parametrize("field", OTHERS)
def test_a_field_restarts_what_its_class_says(field: str) -> None:
    found = changes(**others(field))
    assert {change.kind for change in found.fields} == {FIELDS[field]}
    assert found.kind == FIELDS[field]
    assert found.restarts == RESTARTS[FIELDS[field]]
    assert found.refused == ""


@given(st.sets(st.sampled_from(sorted(set(OTHERS) - {"suspend", "replicas"}))))
def test_together_they_take_what_the_heaviest_takes(fields: set[str]) -> None:
    found = changes(**others(*fields))
    assert found.kind == heaviest(FIELDS[field] for field in fields)
    assert {class_of(change.field) for change in found.fields} == {FIELDS[field] for field in fields}
    assert found.restarts == RESTARTS[found.kind]


@given(st.sets(st.sampled_from(sorted(set(OTHERS) - {"replicas"}))))
def test_a_version_is_what_is_not_taken_up_live(fields: set[str]) -> None:
    other = app(**others(*fields))
    same = all(FIELDS[field] == LIVE for field in fields)
    assert (other.version_name == app().version_name) == same
    again = read_app({**_resource(other), "spec": {**other.version_spec, **other.live_spec}})
    assert again.plan == other.plan
    assert again.version_name == other.version_name


def test_other_settings_of_internal_topics_restart_nothing() -> None:
    """An operator of a later version may want other settings: they take effect at the next start."""
    now = app()
    topics = tuple(replace(topic, configs=(("segment.bytes", "1"),)) for topic in now.plan.topics)
    found = changes_between(now, replace(now, plan=replace(now.plan, topics=topics)), Settings())
    assert (found.kind, found.restarts) == (LIVE, NOTHING)


RUN, NIGHTLY = {"run": "untilCaughtUp"}, {"run": "untilCaughtUp", "schedule": "0 3 * * *"}


@pytest.mark.parametrize(
    ("before", "after", "kind", "restarts"),
    [
        (RUN, NIGHTLY, RESTART_QUERY, DRIVER),
        (NIGHTLY, RUN, RESTART_QUERY, DRIVER),
        (NIGHTLY, {**NIGHTLY, "schedule": "0 4 * * *"}, LIVE, NOTHING),
    ],
    ids=["comes", "goes", "another time"],
)
def test_a_schedule_restarts_where_it_comes_or_goes(
    before: dict[str, Any], after: dict[str, Any], kind: str, restarts: str
) -> None:
    found = changes_between(app(**before), app(**after), Settings())
    assert [(change.field, change.kind) for change in found.fields] == [("schedule", kind)]
    assert found.restarts == restarts


def test_windows_are_closed_by_a_restart() -> None:
    bounded = {"run": "untilCaughtUp"}
    found = changes_between(app(**bounded), app(**bounded, closeWindows=True), Settings())
    assert [(change.field, change.kind) for change in found.fields] == [("closeWindows", RESTART_QUERY)]


def test_a_default_that_is_written_out_is_no_change() -> None:
    assert changes(epochInterval="100ms", suspend=False, applicationId="app").fields == ()
    assert app(epochInterval="100ms").version_name == app().version_name


def test_nested_fields_are_told_by_their_paths() -> None:
    before, after = (app(executor={"resources": {"limits": {"memory": size}}}) for size in ("1Gi", "2Gi"))
    (change,) = changes_between(before, after, Settings()).fields
    assert (change.field, change.words) == (
        "executor.resources.limits.memory",
        "executor.resources.limits.memory: 1Gi becomes 2Gi",
    )


def outcomes(found: Changes) -> dict[str, str]:
    return {change.name: change.outcome for change in found.state}


def test_what_is_done_before_and_behind_a_store_leaves_it() -> None:
    kept = [
        [LINES, WORDS, COUNTS, {**OUT, "to": {"topic": "elsewhere"}}],
        [LINES, {"name": "some", "from": "lines", "filter": "value <> ''"}, {**WORDS, "from": "some"}, COUNTS, OUT],
    ]
    for topology in kept:
        found = changes(topology=topology)
        assert (outcomes(found), found.kind, found.restarts) == ({"word-counts": KEPT}, RESTART_QUERY, DRIVER)


def test_a_store_of_another_meaning_is_refused_and_the_node_that_did_it_named() -> None:
    other = [LINES, {**WORDS, "flatMap": {"word": "split(value, ' ')"}}, COUNTS, OUT]
    found = changes(topology=other)
    assert outcomes(found) == {"word-counts": REFUSED}
    assert found.kind == NEEDS_STATE_MIGRATION
    assert found.refused.startswith("node 'words' changes: store 'word-counts' (node 'counts', changelog ")
    assert "holds state that would mean something else: the nodes before 'counts' have changed; " in found.refused
    assert "give the node another `store`" in found.refused


def test_another_store_is_no_migration() -> None:
    found = changes(topology=[LINES, WORDS, {**COUNTS, "store": "new-counts", "aggregate": {"n": "sum(1)"}}, OUT])
    assert outcomes(found) == {"word-counts": UNUSED, "new-counts": NEW}
    assert found.refused == ""


MARKED: dict[str, Any] = {"name": "marked", "from": "words", "with": {"mark": "rand()"}}
"""A node that may give something else the second time: its output is written to an internal topic before it is
counted."""


def test_a_store_that_is_fed_by_an_internal_topic_is_told_what_it_misses() -> None:
    def version(store: str) -> App:
        return app(topology=[LINES, WORDS, MARKED, {**COUNTS, "from": "marked", "store": store}, OUT])

    found = changes_between(version("old"), version("new"), Settings())
    words = {change.name: change.words for change in found.state}
    assert outcomes(found) == {"old": UNUSED, "new": NEW}
    assert words["old"].endswith("It cannot come back when 'lines' has gone on without it")
    assert words["new"] == "store 'new' is new and begins empty, with the records of 'lines' from now on"
    assert would_miss(version("new").plan, version("old").plan) == (
        "store 'old' would miss the records that 'lines' has processed without it"
    )
    assert would_miss(version("old").plan, version("old").plan) == ""
    directly = changes(topology=[LINES, WORDS, {**COUNTS, "store": "new"}, OUT])
    words = {change.name: change.words for change in directly.state}
    assert words["new"] == "store 'new' is new and begins empty, and reads its input from startFrom on"


def test_a_store_that_comes_to_a_task_is_told_what_it_misses() -> None:
    """The store's input comes out of its task, which has one position."""
    users = {"name": "users", "table": {"topic": "users"}}
    seen = {"name": "seen", "from": "lines", "join": {"with": "users", "select": {"who": "users.value"}}}
    group = {"name": "visits", "from": "seen", "groupBy": ["key"], "aggregate": {"n": "count(*)"}}
    before = app(topology=[users, LINES, seen, {**OUT, "from": "seen"}])
    after = app(topology=[users, LINES, seen, {**OUT, "from": "seen"}, group])
    found = changes_between(before, after, Settings())
    words = {change.name: change.words for change in found.state}
    assert outcomes(found) == {"users": KEPT, "visits": NEW}
    assert words["visits"] == "store 'visits' is new and begins empty, with the records of 'users' from now on"
    missed = would_miss(before.plan, after.plan)
    assert missed == "store 'visits' would miss the records that 'users' has processed without it"
    back = changes_between(after, before, Settings())
    words = {change.name: change.words for change in back.state}
    assert outcomes(back) == {"users": KEPT, "visits": UNUSED}
    assert words["visits"].endswith("It cannot come back when 'users' has gone on without it")


@pytest.mark.parametrize("begins", ["by a topic", "directly"])
def test_records_that_come_by_another_way_are_refused(begins: str) -> None:
    ways = [[LINES, WORDS, COUNTS, OUT], [LINES, WORDS, MARKED, {**COUNTS, "from": "marked"}, OUT]]
    before, after = ways if begins == "directly" else reversed(ways)
    found = changes_between(app(topology=before), app(topology=after), Settings())
    assert found.kind == NEEDS_STATE_MIGRATION
    assert "has its position in" in found.refused
    assert "-word-counts-repartition'" in found.refused


def test_nodes_in_another_order_may_be_another_app() -> None:
    chain = [LINES, {"name": "b", "filter": "value <> ''"}, {**WORDS, "from": "b"}, COUNTS, OUT]
    found = changes_between(app(topology=chain), app(topology=[chain[0], chain[1], chain[2], OUT, COUNTS]), Settings())
    assert [change.words for change in found.fields] == ["the order of the nodes changes"]


def test_a_source_of_other_topics() -> None:
    found = changes(topology=[{**LINES, "stream": {"topic": "others", "value": "text"}}, WORDS, COUNTS, OUT])
    assert (outcomes(found), found.kind, found.restarts) == (
        {"word-counts": KEPT, "lines": NEW},
        RESTART_QUERY,
        DRIVER,
    )
    (words,) = [change.words for change in found.state if change.name == "lines"]
    assert words == "source 'lines' of store 'word-counts' reads other topics than before, from startFrom on"


def test_a_source_comes_to_a_store_and_goes() -> None:
    more = {"name": "more", "stream": {"topics": ["more-lines", "most-lines"], "value": "text"}}
    both = {"name": "both", "merge": ["lines", "more"]}
    one, two = [LINES, WORDS, COUNTS, OUT], [LINES, more, both, {**WORDS, "from": "both"}, COUNTS, OUT]
    comes = changes_between(app(topology=one), app(topology=two), Settings())
    assert outcomes(comes) == {"word-counts": KEPT, "more": NEW}
    assert comes.refused == ""
    words = "source 'more' of store 'word-counts' is new: its topics are read from startFrom on"
    assert words in [change.words for change in comes.state]
    goes = changes_between(app(topology=two), app(topology=one), Settings())
    assert outcomes(goes) == {"word-counts": KEPT, "more": UNUSED}
    assert goes.refused == ""
    fewer = {**more, "stream": {"topic": "most-lines", "value": "text"}}
    less = changes_between(app(topology=two), app(topology=[LINES, fewer, *two[2:]]), Settings())
    words = "source 'more' of store 'word-counts' does not read more-lines any more"
    assert words in [change.words for change in less.state]


def test_a_position_that_would_be_lost_is_refused() -> None:
    def copy(name: str) -> list[dict[str, Any]]:
        return [
            {"name": name, "stream": {"topic": "text-lines", "value": "text"}},
            {"name": "out", "to": {"topic": "copies", "value": "text"}},
        ]

    found = changes_between(app(topology=copy("lines")), app(topology=copy("rows")), Settings())
    assert outcomes(found) == {"rows": REFUSED}
    assert found.kind == NEEDS_STATE_MIGRATION
    assert "would process topic 'text-lines' from startFrom on" in found.refused


def test_another_parallelism_is_forbidden() -> None:
    found = changes(maxParallelism=4)
    assert found.kind == FORBIDDEN
    assert "has 8 partitions and would have 4" in found.refused
    assert "maxParallelism: 8 becomes 4" in found.refused


def _resource(of: App) -> dict[str, Any]:
    return yaml.safe_load(yaml.safe_dump(of.manifest.to_object()))  # type: ignore[no-any-return]


def test_the_plan_shows_the_old_and_the_new_text_of_a_node() -> None:
    other = {**WORDS, "flatMap": {"word": "split(value, ' ')"}}
    found = changes(topology=[LINES, other, COUNTS, {**OUT, "to": {"topic": "elsewhere"}}])
    words = [change["change"] for change in described(found)["changes"]]
    assert words == [
        "node 'words' changes: flatMap.word: split(lower(value), ' ') becomes split(value, ' ')",
        "node 'out' changes: to.topic: word-counts becomes elsewhere",
    ]
    assert all(line in "\n".join(lines_of(found)) for line in words)
