# SPDX-License-Identifier: Apache-2.0
"""The topics that an app needs, compared with the topics that exist.

`compare` compares and does no I/O; `ensure_topics` looks, compares, and makes missing topics.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from streamapp.errors import RunError, StreamAppError
from streamapp.kafka.admin import BROKER_DEFAULT, Admin, TopicSpec, TopicState
from streamapp.plan import Plan

_REFUSED = ("cleanup.policy", "retention.ms", "retention.bytes")
"""Settings of an internal topic that must be as wanted: another value loses records, or keeps all of them for ever."""
_DELETIONS = "delete.retention.ms"
"""The time for which tombstones stay. If it is shorter than wanted, a reader misses them; if it is longer, transaction
markers pile up."""
_ANY_TIME = "message.timestamp.after.max.ms"
_WISHES = ("segment.bytes", "min.cleanable.dirty.ratio", _ANY_TIME)
"""Settings that bound a topic's size, or let it take any event time. We alter them where we may; otherwise the app runs
without them."""


@dataclass(frozen=True)
class Comparison:
    """The missing topics, and the wrong ones (a complete line for each mistake)."""

    missing: tuple[TopicSpec, ...]
    wrong: tuple[str, ...]
    untuned: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The settings to alter so that a topic serves better, by topic."""


class TopicError(StreamAppError):
    """Topics are missing or wrong. `problems` has one line each."""

    exit_code = 1

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(self.problems))


def ensure_topics(
    admin: Admin,
    specs: Iterable[TopicSpec],
    create_all: bool = False,
    file: str = "FILE",
    left: Collection[str] = (),
) -> list[TopicSpec]:
    """Make the missing internal topics, and with `create_all` the missing others too; returns those made.

    The topics in `left` are only compared: somebody else makes them.

    Raises TopicError, before anything is made, when one of the user's topics is missing or an internal one is
    wrong.
    """
    comparison = compare_with(admin, specs)
    problems = list(comparison.wrong)
    if not create_all:
        problems += [missing_line(spec, file) for spec in comparison.missing if not spec.internal]
    if problems:
        raise TopicError(problems)
    made = [spec for spec in comparison.missing if spec.name not in left]
    admin.create(made)
    return made


def compare_with(admin: Admin, specs: Iterable[TopicSpec]) -> Comparison:
    wanted = list(specs)
    there = admin.topics()
    internal = [spec.name for spec in wanted if spec.internal and spec.name in there]
    return compare(wanted, there, admin.configs(internal))


def compare(
    wanted: Iterable[TopicSpec], there: Mapping[str, TopicState], configs: Mapping[str, Mapping[str, str]]
) -> Comparison:
    missing: dict[str, TopicSpec] = {}
    wrong: list[str] = []
    untuned: dict[str, dict[str, str]] = {}
    for spec in wanted:
        state = there.get(spec.name)
        if state is None:
            missing.setdefault(spec.name, spec)
        elif spec.internal:
            config = configs.get(spec.name, {})
            wrong += _differences(spec, state, config)
            if changes := _tuning(spec, config):
                untuned[spec.name] = changes
    return Comparison(tuple(missing.values()), tuple(wrong), untuned)


def tune(admin: Admin, specs: Iterable[TopicSpec]) -> list[str]:
    """Alter settings of internal topics that let them grow or refuse event times far ahead. Such settings come from an
    earlier version, or from somebody who made the topics by hand. The topics must be proven to be ours. Returns a line
    for each topic that we may not alter."""
    left = []
    for name, settings in compare_with(admin, specs).untuned.items():
        try:
            admin.alter(name, settings)
        except RunError as error:
            fix = f"set it: {_command(name, settings)}"
            harms = ["grows more than it has to"] if settings.keys() - {_ANY_TIME} else []
            harms += ["may refuse a record whose event time is far ahead"] if _ANY_TIME in settings else []
            left.append(f"internal topic {name!r} {' and '.join(harms)}: {error}; {fix}")
    return left


def missing_line(spec: TopicSpec, file: str) -> str:
    return (
        f"node {spec.node!r}: topic {spec.name!r} does not exist; make it yourself, or with "
        f"`streamapp topics {file} --create`"
    )


def _differences(spec: TopicSpec, state: TopicState, config: Mapping[str, str]) -> list[str]:
    found = []
    who = f"node {spec.node!r}: internal topic {spec.name!r}"
    if spec.partitions not in (BROKER_DEFAULT, state.partitions):
        found.append(
            f"{who} has {state.partitions} partitions and needs {spec.partitions}; the number is fixed for "
            "the life of its data: set the old maxParallelism again, or delete the topic and what is in it"
        )
    for setting in (*_REFUSED, _DELETIONS):
        want = spec.config.get(setting)
        seen = config.get(setting)
        if want is None or seen is None or _same(want, seen) or (setting == _DELETIONS and int(seen) > int(want)):
            continue
        found.append(
            f"{who} has {setting}={seen} and needs {setting}={want}; set it: {_command(spec.name, {setting: want})}"
        )
    return found


def _tuning(spec: TopicSpec, config: Mapping[str, str]) -> dict[str, str]:
    """The settings to alter. `compare` has already refused a topic whose `_DELETIONS` is shorter than wanted."""
    wanted = dict(spec.wishes) | ({_DELETIONS: spec.config[_DELETIONS]} if _DELETIONS in spec.config else {})
    return {
        setting: want
        for setting, want in wanted.items()
        if (seen := config.get(setting)) is not None and float(seen) != float(want)
    }


def _command(topic: str, settings: Mapping[str, str]) -> str:
    changes = ",".join(_argument(setting, value) for setting, value in settings.items())
    return f"kafka-configs --alter --entity-type topics --entity-name {topic} --add-config {changes}"


def _same(want: str, seen: str) -> bool:
    return sorted(part.strip() for part in want.split(",")) == sorted(part.strip() for part in seen.split(","))


def _argument(setting: str, value: str) -> str:
    return f"{setting}=[{value}]" if "," in value else f"{setting}={value}"


def topics_of(plan: Plan) -> list[TopicSpec]:
    """Every topic of a plan that has a known name (a pattern has none), each once, internal ones last."""
    found: dict[str, TopicSpec] = {}
    owners = {store.changelog_topic: store.node for store in plan.stores}
    for node in (node for part in plan.subtopologies for node in part.nodes):
        if node.internal:
            owners |= dict.fromkeys(node.topics_written, node.owner)
            continue
        for name in (*node.topics_read, *node.topics_written):
            found.setdefault(name, TopicSpec(name, node.owner, node.partitions_wanted or BROKER_DEFAULT))
    for topic in plan.topics:
        owner = owners.get(topic.name, topic.role)
        config = {setting: value for setting, value in topic.configs if setting not in _WISHES}
        wishes = {setting: value for setting, value in topic.configs if setting in _WISHES}
        found[topic.name] = TopicSpec(topic.name, owner, topic.partitions, config, internal=True, wishes=wishes)
    return list(found.values())
