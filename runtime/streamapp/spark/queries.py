# SPDX-License-Identifier: Apache-2.0
"""Starts one Structured Streaming query per sub-topology."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame
from pyspark.sql.streaming import StreamingQuery

from streamapp import nodes as n
from streamapp import operations as o
from streamapp.errors import ManifestError
from streamapp.expressions import read_expression
from streamapp.inputs import Numbering
from streamapp.internal_topics import POSITION
from streamapp.kafka.config import KafkaConfig
from streamapp.plan import Plan, Store, SubTopology
from streamapp.spark.analyze import require_types
from streamapp.spark.assemble import assemble
from streamapp.spark.jvm import java_class
from streamapp.spark.session import PREFIX
from streamapp.spark.sources import Sources
from streamapp.spark.streamtime import tags_of
from streamapp.spark.visitor import Visitor

_SOURCE = "org.apache.spark.sql.kafka010.PacedKafkaSourceProvider"
_SINK = "org.apache.spark.sql.streamapp.TransactionalSinkProvider"
_POOL = "epochs"
"""The pool of all epochs' jobs: the first to come is served first. Of several pools Spark would prefer the one with the
first name in the alphabet, and the last one's epochs would wait for seconds."""


class Queries:
    """The application's queries.

    Args:
        spark: the application's session.
        plan: the plan to run.
        kafka: where Kafka is.
        begun_late: the stores that were added to a sub-topology that had run, each with the last epoch planned by then.
        numberings: the numbers of each sub-topology's sources: positions stand under these numbers.

    Raises:
        ManifestError: when Spark cannot make sense of expressions, with every one of them.
    """

    def __init__(
        self,
        spark: SparkSession,
        plan: Plan,
        kafka: KafkaConfig,
        begun_late: Mapping[str, int],
        numberings: Mapping[str, Numbering],
    ) -> None:
        self._spark = spark
        self._plan = plan
        self._kafka = kafka
        self._begun_late = begun_late
        self._numberings = numberings
        self._visitor = Visitor(Sources(self._read, plan.on_bad_record.kind))
        self._current: SubTopology | None = None
        self._headers_wanted = False
        self._frames: dict[str, DataFrame] = {}
        mentions_headers = any(_mentions_headers(part) for part in plan.subtopologies)
        for part in plan.subtopologies:
            self._current = part
            self._visitor.enter(part)
            self._headers_wanted = mentions_headers or any(isinstance(node, n.DeadLetter) for node in part.nodes)
            try:
                self._frames[part.name] = assemble(part, self._visitor)
            except ManifestError:
                require_types(spark, plan)  # which finds the other mistakes too
                raise

    def start(self, part: SubTopology, *, until_caught_up: bool) -> StreamingQuery:
        """Starts the query of a sub-topology: until it has read all present records, or for ever."""
        for key, value in self._settings(part).items():
            self._spark.conf.set(key, value)
        self._spark.sparkContext.setLocalProperty("spark.scheduler.pool", _POOL)
        position = next((t.partitions for t in self._plan.topics if t.role == POSITION), 1)
        writer = (
            standing(self._frames[part.name])
            .writeStream.format(_SINK)
            .queryName(part.name)
            .outputMode(part.output_mode)
            .option("stateful", str(bool(part.stateful)).lower())
            .option("positionPartitions", position)
            .option("timed", str(part.timed).lower())
            .option("hops", ",".join(part.hops_with_time))
            .option("checkpointLocation", f"/{self._plan.application_id}/{part.name}")
        )
        if until_caught_up:
            return writer.trigger(availableNow=True).start()
        # The source itself waits for the epoch interval.
        return writer.trigger(processingTime="0 milliseconds").start()

    def _settings(self, part: SubTopology) -> dict[str, str]:
        stores = (store for store in self._plan.stores if store.subtopology == part.name)
        return {
            PREFIX + "subTopology": part.name,
            PREFIX + "stores": ",".join(map(self._on_record, stores)),
            PREFIX + "functions": ", ".join(
                f"node '{node.name}' ({function})" for node in part.nodes for function in node.functions
            ),
        }

    def _on_record(self, store: Store) -> str:
        since = self._begun_late.get(store.name)
        return f"{store.name}={store.fingerprint}" + ("" if since is None else f"={since}")

    def _read(self, node: n.Node) -> DataFrame:
        """The raw records of a source node, read committed."""
        part = self._current
        assert part is not None
        # The JVM side reads the credentials from the client's settings file: options are part of plans.
        options = {
            "kafka.bootstrap.servers": self._kafka.bootstrap_servers,
            "kafka.isolation.level": "read_committed",
            "kafka.allow.auto.create.topics": "false",
            # The records of an epoch are on the broker: a fetch that waits for more would only delay the next requests.
            "kafka.fetch.max.wait.ms": "1",
            # Spark asks the broker for two offsets after each poll, and the client gives 500 records by default.
            "kafka.max.poll.records": "5000",
            "subTopology": part.name,
            "epochIntervalMs": str(self._plan.epoch_interval_ms),
            "mayCombine": str(bool(part.stateful)).lower(),
            **self._timing(part, node),
            **self._start_of_tables(part, node),
            "byTime": str(not isinstance(node, o.Stream) or node.timestamp is None).lower(),
            "includeHeaders": str(self._headers_wanted).lower(),
            "groupIdPrefix": f"{self._plan.application_id}-{part.name}",
        }
        # Only we delete from a hop, and only records that have been read.
        on_loss = "Fail" if isinstance(node, n.RepartitionSource) else self._plan.on_source_loss
        options |= {"onSourceLoss": on_loss, "failOnDataLoss": str(on_loss == "Fail").lower()}
        if isinstance(node, n.RepartitionSource):
            options |= {"subscribe": node.topic, "startingOffsets": "earliest"}
        else:
            assert isinstance(node, o.Stream)
            if node.pattern is not None:
                options["subscribePattern"] = node.pattern
            else:
                options["subscribe"] = ",".join(node.topics)
            options["countedAs"] = node.pattern or ",".join(sorted(node.topics))
            # A table needs all records of its topic.
            options |= {"startingOffsets": "earliest"} if isinstance(node, o.Table) else self._start_from()
        numbering = self._numberings[part.name]
        if position := numbering.positions.get(node.name):
            options["goesOnAt"] = position
        number = str(numbering.numbers[node.name])
        return self._spark.readStream.format(_SOURCE).options(**options).name(number).load()

    def _timing(self, part: SubTopology, node: n.Node) -> dict[str, str]:
        tag = tags_of(part).get(node.name)
        if tag is None:
            return {}
        return {
            "timedAs": tag,
            "idleTimeoutMs": str(self._plan.idle_timeout_ms),
            "closeAtEnd": str(self._plan.close_windows).lower(),
            **_writer(node),
        }

    def _start_of_tables(self, part: SubTopology, node: n.Node) -> dict[str, str]:
        if isinstance(node, o.Table):
            return {"tables": "read"} if node.bootstrap else {}
        behind = self._tables_behind(node)
        looked_up = behind and not isinstance(node, n.MovesSource)  # nobody looks rows on their way up
        reads = {"tables": "read"} if looked_up else {"tables": "await"} if part.task else {}
        return reads | ({"behind": ",".join(behind)} if behind else {})

    def _tables_behind(self, node: n.Node) -> list[str]:
        """The sources of the tables that the rows of an internal topic are made of, each as SUBTOPOLOGY/NUMBER."""
        if not isinstance(node, n.RepartitionSource) or node.kind != n.TABLE:
            return []
        writer = next(part for part in self._plan.subtopologies if {*node.topics_read} & part.writes_internally)
        numbers = self._numberings[writer.name].numbers
        return [f"{writer.name}/{numbers[one.name]}" for one in writer.nodes if self._is_awaited(one)]

    def _is_awaited(self, source: n.Node) -> bool:
        return (isinstance(source, o.Table) and source.bootstrap) or bool(self._tables_behind(source))

    def _start_from(self) -> dict[str, str]:
        start = str(self._plan.start_from)
        if start in ("earliest", "latest"):
            return {"startingOffsets": start}
        # If there is no record after the timestamp, the app starts at the end: it wants no older records.
        return {"startingTimestamp": start, "startingOffsetsByTimestampStrategy": "latest"}


def standing(frame: DataFrame) -> DataFrame:
    """The same rows; a query of them analyses and optimizes their plan once, and not anew for each epoch."""
    return ClassicDataFrame(java_class("StandingPlan").of(frame._jdf), frame.sparkSession)


def _writer(node: n.Node) -> dict[str, str]:
    if not isinstance(node, n.RepartitionSource):
        return {}
    return {"writtenBy": node.written_by, "lagUs": str(node.writers_lag_ms * 1000)}


def _mentions_headers(part: SubTopology) -> bool:
    """Whether any expression may look at record headers; making them columns costs time for every record."""
    return any(_is_of_headers(used) for node in part.nodes for used in node.expressions())


def _is_of_headers(used: n.NodeExpression) -> bool:
    if used.role == n.Role.KEY:
        return used.text.lower() == "headers"
    # A join's side stands before the name.
    return any("headers" in map(str.lower, parts[:2]) for parts in read_expression(used.text).columns)
