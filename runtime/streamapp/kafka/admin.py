# SPDX-License-Identifier: Apache-2.0
"""Kafka's admin client for topics: it looks at them, makes, alters and deletes them."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from confluent_kafka import (
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from streamapp.errors import RunError
from streamapp.kafka.client import ANSWER_SECONDS, Troubles, is_unreachable, make_client, unreachable
from streamapp.kafka.config import KafkaConfig

Partition = tuple[str, int]
"""A topic's name, and the number of one of its partitions."""

CREATE_SECONDS = 30.0
BROKER_DEFAULT = -1
_EARLIEST: OffsetSpec = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
_LATEST: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]
_LEADER_IS_MOVING = (
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.REPLICA_NOT_AVAILABLE,
    # A broker knows from the metadata that it leads before it does.
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.UNKNOWN_TOPIC_OR_PART,  # made a moment ago, and not known everywhere yet
)
_NOT_TAKEN = (KafkaError.INVALID_CONFIG, KafkaError.POLICY_VIOLATION)
_FORBIDDEN = (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED)


@dataclass(frozen=True)
class TopicSpec:
    """A topic that an app needs. `node` is the node of the manifest that needs it; errors name it.

    An `internal` topic is the app's own: it is made when missing, and must have its partitions and `config`. Any other
    topic only has to exist.
    """

    name: str
    node: str
    partitions: int = BROKER_DEFAULT
    config: Mapping[str, str] = field(default_factory=dict)
    internal: bool = False
    wishes: Mapping[str, str] = field(default_factory=dict)
    """Settings that keep the topic small. The app works without them, and some services refuse them."""


@dataclass(frozen=True)
class TopicState:
    """A topic as it is."""

    name: str
    partitions: int
    replication_factor: int


class MissingTopic(RunError):
    """A topic that was asked about is not there."""


class Admin:
    """A connection for looking at and making topics. A question is answered or raises within ten seconds.

    Raises:
        RunError: when the settings cannot be used.
    """

    def __init__(self, kafka: KafkaConfig) -> None:
        self._kafka = kafka
        self._troubles = Troubles()
        self._begin_anew()

    # --- looking --------------------------------------------------------------------------------------------

    def topics(self) -> dict[str, TopicState]:
        """Every topic, by name."""
        deadline = time.monotonic() + ANSWER_SECONDS
        while True:
            # Short waits: the client delivers complaints, which end a hopeless wait early, only between them.
            try:
                metadata = self._open_client.list_topics(timeout=min(1.0, ANSWER_SECONDS))
            except KafkaException as error:
                if not is_unreachable(error):
                    raise self._run_error("list the topics", error) from None
                self._open_client.poll(0)
                if self._troubles.fatal or time.monotonic() >= deadline:
                    raise self._unreachable() from None
                continue
            if metadata.brokers:
                self._knows_brokers = True
                break
            # A broker that joins its cluster, or is late with a heartbeat, does not count itself. librdkafka then waits
            # for a controller without asking again (seen with 2.16).
            self._begin_anew()
            if time.monotonic() >= deadline:
                raise RunError(
                    f"Kafka at {self._kafka.bootstrap_servers} says that its cluster has no broker; wait until its "
                    "brokers have joined it"
                )
            time.sleep(0.1)
        return {
            name: TopicState(
                name,
                len(topic.partitions),
                min((len(partition.replicas) for partition in topic.partitions.values()), default=0),
            )
            for name, topic in metadata.topics.items()
            if topic.error is None
        }

    def configs(self, names: Sequence[str]) -> dict[str, dict[str, str]]:
        """The effective settings of these topics."""
        if not names:
            return {}
        resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
        futures = self._client.describe_configs(resources, request_timeout=ANSWER_SECONDS)
        found: dict[str, dict[str, str]] = {}
        for resource, future in futures.items():
            entries = self._answer(f"read the settings of topic {resource.name!r}", future)
            found[resource.name] = {name: entry.value for name, entry in entries.items()}
        return found

    def end_offsets(self, name: str, committed_only: bool = True) -> dict[int, int]:
        """The end of each partition, for a reader that sees only committed records (or everything)."""
        return self._offsets_of_topic(name, _LATEST, committed_only)

    def start_offsets(self, name: str) -> dict[int, int]:
        """The first offset that retention and deletion have left in each partition."""
        return self._offsets_of_topic(name, _EARLIEST, committed_only=False)

    def ends_of(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        """The same as `end_offsets` for all of these partitions, which must exist, in one request."""
        return self._offsets(partitions, _LATEST, committed_only=True)

    def starts_of(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        """The same as `start_offsets`."""
        return self._offsets(partitions, _EARLIEST, committed_only=False)

    def offsets_since(self, name: str, time: float) -> dict[int, int | None]:
        """The first committed record of each partition whose timestamp is this or later, in seconds since 1970; None
        where there is none."""
        found = self._offsets_of_topic(name, OffsetSpec.for_timestamp(int(time * 1000)), committed_only=True)
        return {partition: offset if offset >= 0 else None for partition, offset in found.items()}

    def topic_ids(self, names: Sequence[str]) -> dict[str, str]:
        """The id of each of these topics; a missing one is left out. A topic that is made anew has another id."""
        if not names:
            return {}
        futures = self._client.describe_topics(TopicCollection(list(names)), request_timeout=ANSWER_SECONDS)
        found: dict[str, str] = {}
        for name, future in futures.items():
            try:
                id = str(self._answer(f"describe topic {name!r}", future).topic_id)
                found[name] = id.replace("+", "-").replace("/", "_")  # as Kafka itself writes it
            except _Refused as refused:
                if refused.code not in _LEADER_IS_MOVING:
                    raise
        return found

    def allowed_on(self, names: Sequence[str]) -> dict[str, frozenset[str] | None]:
        """The operations that we may do on each of these topics, by Kafka's names; a missing topic is left out.

        None where the brokers do not say. A broker without an authorizer allows everything.
        """
        if not names:
            return {}
        futures = self._client.describe_topics(
            TopicCollection(list(names)), include_authorized_operations=True, request_timeout=ANSWER_SECONDS
        )
        found: dict[str, frozenset[str] | None] = {}
        for name, future in futures.items():
            try:
                operations = self._answer(f"describe topic {name!r}", future).authorized_operations
                found[name] = None if operations is None else frozenset(_words(o.name) for o in operations)
            except _Refused as refused:
                if refused.code == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                    found[name] = frozenset()
                elif refused.code not in _LEADER_IS_MOVING:
                    raise
        return found

    # --- changing -------------------------------------------------------------------------------------------

    def create(self, specs: Iterable[TopicSpec]) -> None:
        """Make these topics, replicated as the broker does by default, and wait until every one can be used.

        A topic that somebody else has made meanwhile stays as it is.
        """
        wanted = list(specs)
        if not wanted:
            return
        # A service that refuses our wishes gets only the settings that the app needs.
        if plain := [replace(spec, wishes={}) for spec in self._try_to_create(wanted)]:
            self._try_to_create(plain)
        self._await_visible({spec.name for spec in wanted})

    def alter(self, name: str, settings: Mapping[str, str]) -> None:
        """Set these settings of a topic, and leave its others as they are."""
        entries = [
            ConfigEntry(setting, value, incremental_operation=AlterConfigOpType.SET)
            for setting, value in settings.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=entries)
        futures = self._client.incremental_alter_configs([resource], request_timeout=ANSWER_SECONDS)
        self._answer(f"alter the settings of topic {name!r}", futures[resource])

    def purge(self, before: Mapping[tuple[str, int], int]) -> None:
        """Delete the records of each (topic, partition) that lie before its offset."""
        ends = [TopicPartition(topic, partition, offset) for (topic, partition), offset in before.items()]
        futures = self._client.delete_records(ends, request_timeout=ANSWER_SECONDS)
        for partition, future in futures.items():
            self._answer(f"purge topic {partition.topic!r}", future)

    def delete(self, names: Iterable[str]) -> None:
        """Delete these topics; a missing one is no error."""
        for refused in self.delete_each(names).values():
            raise refused

    def delete_each(self, names: Iterable[str]) -> dict[str, RunError]:
        """Delete these topics, and return those that still exist, each with the reason. A missing one is no error."""
        wanted = list(names)
        if not wanted:
            return {}
        futures = self._client.delete_topics(wanted, operation_timeout=ANSWER_SECONDS, request_timeout=CREATE_SECONDS)
        left: dict[str, RunError] = {}
        for name, future in futures.items():
            try:
                self._answer(f"delete topic {name!r}", future)
            except _Refused as refused:
                if refused.code != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    left[name] = refused
            except RunError as error:
                left[name] = error
        self._await_gone(set(wanted) - left.keys())
        return left

    def delete_group(self, group: str) -> None:
        """Delete a consumer group with its offsets; a missing one is no error.

        Ask the group something first (GroupPosition): if its coordinator has just started, librdkafka ends the process
        here.
        """
        futures = self._client.delete_consumer_groups([group], request_timeout=ANSWER_SECONDS)
        try:
            self._answer(f"delete group {group!r}", futures[group])
        except _Refused as refused:
            if refused.code != KafkaError.GROUP_ID_NOT_FOUND:
                raise

    # --- below ----------------------------------------------------------------------------------------------

    def _try_to_create(self, specs: Iterable[TopicSpec]) -> list[TopicSpec]:
        """Returns the topics whose wishes the service refuses. None of these has been made."""
        wanted = list(specs)
        new = [
            NewTopic(
                spec.name,
                num_partitions=spec.partitions,
                replication_factor=BROKER_DEFAULT,
                config={**spec.config, **spec.wishes},
            )
            for spec in wanted
        ]
        futures = self._client.create_topics(new, operation_timeout=ANSWER_SECONDS, request_timeout=CREATE_SECONDS)
        left = []
        for spec in wanted:
            try:
                self._answer(f"create topic {spec.name!r} for node {spec.node!r}", futures[spec.name])
            except _Refused as refused:
                if refused.code in _NOT_TAKEN and spec.wishes:
                    left.append(spec)
                    continue
                if refused.code in _FORBIDDEN:
                    raise RunError(f"{refused}; it needs Create on topic '{spec.name}'") from None
                if refused.code != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise
        return left

    def _offsets_of_topic(self, name: str, spec: OffsetSpec, committed_only: bool) -> dict[int, int]:
        state = self.topics().get(name)
        if state is None:
            raise MissingTopic(f"topic {name!r} does not exist")
        found = self._offsets([(name, partition) for partition in range(state.partitions)], spec, committed_only)
        return {partition: offset for (_, partition), offset in found.items()}

    def _offsets(self, wanted: Collection[Partition], spec: OffsetSpec, committed_only: bool) -> dict[Partition, int]:
        isolation = IsolationLevel.READ_COMMITTED if committed_only else IsolationLevel.READ_UNCOMMITTED
        missing = set(wanted)
        found: dict[Partition, int] = {}
        deadline = time.monotonic() + ANSWER_SECONDS
        while missing:
            futures = self._client.list_offsets(
                {TopicPartition(topic, partition): spec for topic, partition in missing},
                isolation_level=isolation,
                request_timeout=ANSWER_SECONDS,
            )
            for where, future in futures.items():
                try:
                    answer = self._answer(f"read the offsets of topic {where.topic!r}", future)
                    found[where.topic, where.partition] = answer.offset
                except _Refused as refused:
                    if refused.code not in _LEADER_IS_MOVING or time.monotonic() > deadline:
                        raise
            missing -= found.keys()
            if missing:
                time.sleep(0.1)
        return found

    def _await_visible(self, names: set[str]) -> None:
        """Waits until the new topics are visible. Not every broker knows of them at once; one that does not would deny
        that they exist."""
        deadline = time.monotonic() + CREATE_SECONDS
        while missing := names - self.topics().keys():
            if time.monotonic() > deadline:
                raise RunError(f"topic {min(missing)!r} was created but did not appear in {CREATE_SECONDS:.0f} s")
            time.sleep(0.05)

    def _await_gone(self, names: set[str]) -> None:
        """Waits until the topics are gone. Not every broker knows that at once."""
        deadline = time.monotonic() + ANSWER_SECONDS
        while names & self.topics().keys() and time.monotonic() < deadline:
            time.sleep(0.05)

    def _answer(self, purpose: str, future: Any) -> Any:
        try:
            return future.result(timeout=CREATE_SECONDS + ANSWER_SECONDS)
        except KafkaException as error:
            if is_unreachable(error):
                raise self._unreachable() from None
            raise self._run_error(purpose, error) from None

    @property
    def _client(self) -> AdminClient:
        """A client that knows a broker."""
        if not self._knows_brokers:
            self.topics()
        return self._open_client

    def _begin_anew(self) -> None:
        """Opens a new client, which knows no broker yet."""
        self._open_client = make_client(AdminClient, self._kafka, self._troubles)
        self._knows_brokers = False

    def _unreachable(self) -> RunError:
        self._begin_anew()  # see kafka/reader.py: the old client may never hear of a broker again
        return unreachable(self._kafka, self._troubles)

    def _run_error(self, purpose: str, error: KafkaException) -> RunError:
        reason: KafkaError = error.args[0]
        return _Refused(f"Kafka at {self._kafka.bootstrap_servers} would not {purpose}: {reason.str()}", reason.code())


def _words(name: str) -> str:
    """The name of an operation as Kafka's tools write it: DescribeConfigs for DESCRIBE_CONFIGS."""
    return "".join(word.capitalize() for word in name.split("_"))


class _Refused(RunError):
    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code
