# SPDX-License-Identifier: Apache-2.0
"""The wanted topics compared with those on Kafka."""

from __future__ import annotations

from streamapp.kafka.admin import TopicSpec, TopicState
from streamapp.kafka.topics import compare

CHANGELOG = TopicSpec("app-s-changelog", "counts", 8, {"cleanup.policy": "compact"}, internal=True)
INPUT = TopicSpec("lines", "source", 4)


def there(name: str, partitions: int) -> dict[str, TopicState]:
    return {name: TopicState(name, partitions, 1)}


def test_nothing_there() -> None:
    comparison = compare([INPUT, CHANGELOG, INPUT], {}, {})
    assert comparison.missing == (INPUT, CHANGELOG)
    assert comparison.wrong == ()


def test_as_wanted() -> None:
    config = {CHANGELOG.name: {"cleanup.policy": "compact", "retention.ms": "5"}}
    comparison = compare([CHANGELOG], there(CHANGELOG.name, 8), config)
    assert (comparison.missing, comparison.wrong) == ((), ())


def test_a_topic_of_the_users_is_taken_as_it_is() -> None:
    assert compare([INPUT], there(INPUT.name, 1), {}).wrong == ()


def test_wrong_partitions_name_topic_node_and_both_numbers() -> None:
    (line,) = compare([CHANGELOG], there(CHANGELOG.name, 4), {}).wrong
    assert "node 'counts'" in line
    assert "'app-s-changelog' has 4 partitions and needs 8" in line
    assert "maxParallelism" in line


def test_wrong_setting_names_the_command_that_puts_it_right() -> None:
    config = {CHANGELOG.name: {"cleanup.policy": "delete"}}
    (line,) = compare([CHANGELOG], there(CHANGELOG.name, 8), config).wrong
    assert "has cleanup.policy=delete and needs cleanup.policy=compact" in line
    assert "--entity-name app-s-changelog --add-config cleanup.policy=compact" in line


def test_a_setting_that_the_broker_does_not_tell_is_taken_as_it_is() -> None:
    """Some services that speak Kafka's protocol keep settings to themselves: a user could not put that right."""
    config = {CHANGELOG.name: {"retention.ms": "5"}}
    assert compare([CHANGELOG], there(CHANGELOG.name, 8), config).wrong == ()


def test_the_order_of_a_list_setting_does_not_matter() -> None:
    spec = TopicSpec("t", "n", 1, {"cleanup.policy": "compact,delete"}, internal=True)
    assert compare([spec], there("t", 1), {"t": {"cleanup.policy": "delete, compact"}}).wrong == ()


def test_deletions_that_go_too_early_are_refused_and_such_as_stay_too_long_are_altered() -> None:
    spec = TopicSpec("t", "n", 1, {"delete.retention.ms": "100"}, internal=True)
    short = compare([spec], there("t", 1), {"t": {"delete.retention.ms": "99"}})
    assert "has delete.retention.ms=99 and needs delete.retention.ms=100" in short.wrong[0]
    long = compare([spec], there("t", 1), {"t": {"delete.retention.ms": "101"}})
    assert (long.wrong, long.untuned) == ((), {"t": {"delete.retention.ms": "100"}})


def test_settings_that_only_bound_a_size_are_no_reason_to_refuse() -> None:
    wishes = {"segment.bytes": "1048576", "min.cleanable.dirty.ratio": "0.5"}
    spec = TopicSpec("t", "n", 1, {"cleanup.policy": "compact"}, internal=True, wishes=wishes)
    config = {"cleanup.policy": "compact", "segment.bytes": "1073741824", "min.cleanable.dirty.ratio": "0.50"}
    found = compare([spec], there("t", 1), {"t": config})
    assert (found.wrong, found.untuned) == ((), {"t": {"segment.bytes": "1048576"}})
    assert compare([spec], there("t", 1), {"t": {}}).untuned == {}
