# SPDX-License-Identifier: Apache-2.0
"""The parts of a plan."""

from __future__ import annotations

import json
from dataclasses import dataclass

from streamapp.errors import InputError
from streamapp.nodes import Node, RepartitionSink, Topology
from streamapp.plan import codec

PLAN_VERSION = 10


@dataclass(frozen=True)
class SubTopology:
    """One query: sources, at most one shuffle with stateful nodes behind it, sinks. All effects of an epoch are one."""

    name: str
    """The name of its first store, or if it is stateless of its first source. Offsets, transactions and metrics stand
    under it."""
    nodes: tuple[Node, ...]
    """The nodes in an order in which inputs come first."""
    stateful: tuple[str, ...]
    """The nodes for which records are shuffled: none, one with an operator of its own, or those that share a task."""
    task: tuple[str, ...]
    """The nodes that run in such a task, with what lies between them; in order."""
    output_mode: str
    """`append` or `update`."""
    stores: tuple[str, ...]

    @property
    def topology(self) -> Topology:
        """The nodes as a graph that can be asked for columns and kinds."""
        return Topology(self.nodes)

    @property
    def timed(self) -> bool:
        """Whether its stateful node goes by the stream time of its sources."""
        return any(node.timed for node in self.nodes)

    @property
    def keeps_order(self) -> bool:
        """Whether the rows of an epoch are processed in an order."""
        return any(node.in_order for node in self.nodes)

    @property
    def reads_internally(self) -> frozenset[str]:
        """The internal topics that it reads."""
        return frozenset(topic for node in self.nodes if node.internal for topic in node.topics_read)

    @property
    def writes_internally(self) -> frozenset[str]:
        """The internal topics that it writes."""
        return frozenset(topic for node in self.nodes if node.internal for topic in node.topics_written)

    @property
    def hops_with_time(self) -> tuple[str, ...]:
        """The internal topics that it writes for readers that go by stream time."""
        return tuple(node.topic for node in self.nodes if isinstance(node, RepartitionSink) and node.carries_time)

    def reads(self, topic: str) -> bool:
        """Whether it reads that topic."""
        return any(node.reads(topic) for node in self.nodes)


@dataclass(frozen=True)
class Store:
    """State of one node, and where its changes are kept."""

    name: str
    node: str
    subtopology: str
    changelog_topic: str
    partitions: int
    fingerprint: str
    """Changes when the state of an older version would mean something else; see `compile.fingerprint`."""


@dataclass(frozen=True)
class InternalTopic:
    """A topic of the app's own. `role` is changelog, repartition, metadata or position."""

    name: str
    role: str
    partitions: int
    configs: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class OnBadRecord:
    """The treatment of records that cannot be read: `kind` is Fail, Drop or DeadLetter (then with a topic)."""

    kind: str
    topic: str | None = None


@dataclass(frozen=True)
class KafkaSettings:
    """Where Kafka is, and where the credentials are; never the credentials themselves."""

    bootstrap_servers: str | None = None
    """None: the runner's choice, which on a laptop is the embedded broker."""
    tls: bool = False
    ca_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None
    tls_secret: str | None = None
    sasl_mechanism: str | None = None
    credentials_file: str | None = None
    sasl_secret: str | None = None
    token_endpoint: str | None = None
    """Where OAUTHBEARER's tokens are asked for."""
    scope: str | None = None


@dataclass(frozen=True)
class Plan:
    """An application, ready to be run. Times are in milliseconds."""

    version: int
    name: str
    application_id: str
    guarantee: str
    """`exactly-once` or `at-least-once`."""
    max_parallelism: int
    epoch_interval_ms: int
    transaction_timeout_ms: int
    idle_timeout_ms: int
    run: str
    """`continuous` or `untilCaughtUp`."""
    close_windows: bool
    """Whether a run to the end closes the windows that are open there."""
    start_from: str
    """`earliest`, `latest`, or milliseconds since the epoch as decimal text."""
    on_bad_record: OnBadRecord
    on_source_loss: str
    """`Fail`, `Earliest` or `Latest`."""
    replicas: int
    subtopologies: tuple[SubTopology, ...]
    """The sub-topologies in an order in which each comes after those whose output it reads."""
    stores: tuple[Store, ...]
    topics: tuple[InternalTopic, ...]
    source_topics: tuple[str, ...] = ()
    source_patterns: tuple[str, ...] = ()
    sink_topics: tuple[str, ...] = ()
    kafka: KafkaSettings = KafkaSettings()
    code: tuple[tuple[str, str], ...] = ()
    """The user's own modules: file name and text, in the names' order."""

    @property
    def calls_functions(self) -> bool:
        """Whether Python functions of the user's take part."""
        return any(node.functions for part in self.subtopologies for node in part.nodes)

    def to_json(self) -> str:
        """The plan as text, equal for equal plans; `from_json` reads it back."""
        return json.dumps(codec.to_plain(self), indent=2, ensure_ascii=False) + "\n"

    @staticmethod
    def from_json(text: str) -> Plan:
        """The plan that `to_json` wrote.

        Raises:
            InputError: when the text is no plan, or one of another version.
        """
        try:
            data = json.loads(text)
        except (ValueError, RecursionError):
            raise InputError("this is not a plan: it is not JSON") from None
        version = data.get("version") if isinstance(data, dict) else None
        if version != PLAN_VERSION:
            raise InputError(f"the plan has version {version}, and this runtime reads version {PLAN_VERSION}")
        try:
            plan = codec.from_plain(Plan, data)
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            raise InputError(f"this is not a plan: {' '.join(str(error).split())}") from None
        assert isinstance(plan, Plan)
        return plan

    def subtopology(self, name: str) -> SubTopology:
        """The sub-topology of that name; KeyError when there is none."""
        found = next((part for part in self.subtopologies if part.name == name), None)
        if found is None:
            raise KeyError(name)
        return found

    def store(self, name: str) -> Store:
        """The store of that name; KeyError when there is none."""
        found = next((store for store in self.stores if store.name == name), None)
        if found is None:
            raise KeyError(name)
        return found
