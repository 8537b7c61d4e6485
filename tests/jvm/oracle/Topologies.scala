// SPDX-License-Identifier: Apache-2.0
package dev.streamapp.oracle

import java.time.Duration
import java.util.function.{Function => JFunction}

import com.fasterxml.jackson.databind.JsonNode
import org.apache.kafka.common.utils.Bytes
import org.apache.kafka.streams.{KeyValue, StreamsBuilder}
import org.apache.kafka.streams.kstream._
import org.apache.kafka.streams.state.{KeyValueStore, SessionStore, Stores, WindowStore}

import dev.streamapp.oracle.Json.{Key, Value, number, pair, put, text, top, windowed}

/**
 * The topologies, each by the name that its twin has in tests/differential/topologies.py. Inputs are the streams `s` and `t`
 * and the tables `u` and `v`, all with values {"n": NUMBER, "g": TEXT or null, "x": NUMBER or null}. Results go to [[Output]].
 */
object Topologies {
  val Output = "out"

  def build(name: String, in: StreamsBuilder): Unit = All(name)(new Inputs(in))

  private type Stream = KStream[String, JsonNode]
  private type Table = KTable[String, JsonNode]

  private class Inputs(builder: StreamsBuilder) {
    private val consumed = Consumed.`with`(Key, Value)
    lazy val s: Stream = builder.stream("s", consumed)
    lazy val t: Stream = builder.stream("t", consumed)
    lazy val u: Table = builder.table("u", consumed, kept)
    lazy val v: Table = builder.table("v", consumed, kept)
    /** The same with the earlier versions of its rows. */
    lazy val w: Table = builder.table("v", consumed, Materialized
      .as[String, JsonNode](Stores.persistentVersionedKeyValueStore("w", Duration.ofDays(1))).withKeySerde(Key).withValueSerde(Value))
    lazy val everywhere: GlobalKTable[String, JsonNode] = builder.globalTable("v", consumed, Materialized
      .as[String, JsonNode, KeyValueStore[Bytes, Array[Byte]]]("everywhere").withKeySerde(Key).withValueSerde(Value))
    def kept: Materialized[String, JsonNode, KeyValueStore[Bytes, Array[Byte]]] = Materialized.`with`(Key, Value)
  }

  // The settings of the twins' manifests.
  private val Tumbling = TimeWindows.ofSizeAndGrace(seconds(10), seconds(4))
  private val Hopping = TimeWindows.ofSizeAndGrace(seconds(12), seconds(2)).advanceBy(seconds(4))
  // Kafka Streams forgets a record, and a session, one millisecond before the last record that may meet it comes. Times are whole
  // seconds, so this is that moment alone.
  private val Session = SessionWindows.ofInactivityGapAndGrace(seconds(4), seconds(3).plusMillis(1))
  // So long that nothing is late: there, a record that is late for the window which ends with it may be missing in later windows, as
  // those are made of windows that are kept.
  private val Sliding = SlidingWindows.ofTimeDifferenceAndGrace(seconds(6), Duration.ofMinutes(10))
  private val Seldom: Suppressed[String] = Suppressed.untilTimeLimit(seconds(7), Suppressed.BufferConfig.unbounded())
  private val Around = JoinWindows.ofTimeDifferenceAndGrace(seconds(4), seconds(3).plusMillis(1)).after(seconds(9))
  private val Near = JoinWindows.ofTimeDifferenceAndGrace(seconds(5), Duration.ofMillis(1))
  private val Published = JoinWindows.ofTimeDifferenceAndGrace(seconds(15), seconds(5).plusMillis(1))

  private def seconds(count: Long) = Duration.ofSeconds(count)

  private val All: Map[String, Inputs => Unit] = Map(
    // Aggregates of a stream.
    "count" -> (in => told(sums(in))),
    "count-filter" -> (in => told(sums(in).filter((_, sum) => number(sum, "total").exists(_ > 0)))),
    "count-by-g" -> (in => told(counted(in.s.groupBy((_, value) => text(value, "g"), grouped)))),
    "reduce" -> (in => told(in.s.groupByKey().reduce(Following, in.kept).mapValues(Reduced))),
    "fold" -> (in => told(folded(in))),
    "top" -> (in => told(in.s.groupByKey().aggregate(() => put(), Highest, in.kept))),
    "fold-seldom" -> (in => told(folded(in).suppress(Seldom))),
    "fold-looked-up" -> (in => told(in.t.join(folded(in), WithLast, Joined.`with`(Key, Value, Value)))),
    "cogroup" -> (in => told(in.s.groupByKey().cogroup(Earliest).cogroup(in.t.groupByKey(), Latest)
      .aggregate(() => put("first" -> None, "last" -> None, "many" -> Some(0L)), in.kept))),
    // Windows.
    // A record that one stream's time has passed must still be there for the other stream.
    "cogroup-hopping" -> (in => toldAll(in.s.groupByKey().cogroup(Ours).cogroup(in.t.groupByKey(), Theirs).windowedBy(Hopping)
      .aggregate(() => put("ours" -> Some(0L), "theirs" -> None), windowsKept))),
    "tumbling" -> (in => toldOf(in.s.groupByKey().windowedBy(Tumbling).count())),
    "hopping-final" -> (in => toldOf(ended(in.s.groupByKey().windowedBy(Hopping).count()))),
    "tumbling-reduce" -> (in => toldAll(in.s.groupByKey().windowedBy(Tumbling).reduce(Following, windowsKept).mapValues(Reduced))),
    "hopping-fold" -> (in => toldAll(in.s.groupByKey().windowedBy(Hopping).aggregate(() => put(), Fold, windowsKept)
      .suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded())))),
    "session-reduce" -> (in => toldAll(in.s.groupByKey().windowedBy(Session).reduce(Following, sessionsKept).mapValues(Reduced))),
    "session-final" -> (in => toldOf(ended(in.s.groupByKey().windowedBy(Session).count()))),
    "sliding" -> (in => toldOf(in.s.groupByKey().windowedBy(Sliding).count())),
    "sliding-final" -> (in => toldOf(ended(in.s.groupByKey().windowedBy(Sliding).count()))),
    // Joins of two streams.
    "around-outer" -> (in => told(in.s.outerJoin(in.t, Pair, Around, joined))),
    "near-left" -> (in => told(in.s.leftJoin(in.t, Pair, Near, joined))),
    "published-inner" -> (in => told(in.s.join(in.t, Pair, Published, joined))),
    "published-left" -> (in => told(in.s.leftJoin(in.t, Pair, Published, joined))),
    "published-outer" -> (in => told(in.s.outerJoin(in.t, Pair, Published, joined))),
    // Tables.
    "table" -> (in => told(in.u)),
    "table-filter" -> (in => told(in.u.filter((_, value) => number(value, "x").exists(_ > 0)))),
    "table-select" -> (in => told(in.u.mapValues((value: JsonNode) => put("twice" -> number(value, "x").map(_ * 2))))),
    "table-seldom" -> (in => told(in.u.suppress(Seldom))),
    "to-table" -> (in => told(in.s.toTable(in.kept))),
    "table-count" -> (in => told(summed(byG(in.u).aggregate(() => Sum.None, Add, Subtract, in.kept)))),
    // Joins with tables.
    "stream-table-inner" -> (in => told(in.s.join(in.v, Pair, Joined.`with`(Key, Value, Value)))),
    "stream-table-left" -> (in => told(in.s.leftJoin(in.v, Pair, Joined.`with`(Key, Value, Value)))),
    "global-inner" -> (in => told(in.s.join(in.everywhere, Named, Pair))),
    "global-left" -> (in => told(in.s.leftJoin(in.everywhere, Named, Pair))),
    "as-of-inner" -> (in => told(in.s.join(in.w, Pair, Joined.`with`(Key, Value, Value)))),
    "as-of-left" -> (in => told(in.s.leftJoin(in.w, Pair, Joined.`with`(Key, Value, Value)))),
    "as-of-held-left" -> (in => told(in.s.leftJoin(in.w, Pair, Joined.`with`(Key, Value, Value)))),
    "versions-count" -> (in => told(summed(byG(in.w).aggregate(() => Sum.None, Add, Subtract, in.kept)))),
    "table-table-inner" -> (in => told(in.u.join(in.v, Pair, in.kept))),
    "table-table-left" -> (in => told(in.u.leftJoin(in.v, Pair, in.kept))),
    "table-table-outer" -> (in => told(in.u.outerJoin(in.v, Pair, in.kept))),
    "foreign-key-inner" -> (in => told(in.u.join(in.v, OfRow, Pair, in.kept))),
    "foreign-key-left" -> (in => told(in.u.leftJoin(in.v, OfRow, Pair, in.kept))),
  )

  private type OfWindow = KeyValueMapper[Windowed[String], JsonNode, KeyValue[String, JsonNode]]
  private lazy val Pair: ValueJoiner[JsonNode, JsonNode, JsonNode] = (left, right) => pair(left, right)
  private lazy val Named: KeyValueMapper[String, JsonNode, String] = (_, value) => if (value == null) null else text(value, "g")
  private lazy val OfRow: JFunction[JsonNode, String] = value => text(value, "g")
  private lazy val Add: Aggregator[String, JsonNode, JsonNode] = (_, value, sum) => Sum.add(sum, value)
  private lazy val Subtract: Aggregator[String, JsonNode, JsonNode] = (_, value, sum) => Sum.subtract(sum, value)

  private def sessionsKept: Materialized[String, JsonNode, SessionStore[Bytes, Array[Byte]]] = Materialized.`with`(Key, Value)
  private def windowsKept: Materialized[String, JsonNode, WindowStore[Bytes, Array[Byte]]] =
    Materialized.`with`[String, JsonNode, WindowStore[Bytes, Array[Byte]]](Key, Value).withRetention(Duration.ofDays(1))

  private def grouped = Grouped.`with`(Key, Value)
  private def joined = StreamJoined.`with`(Key, Value, Value)
  private def byG(table: Table) = table.groupBy((key, value) => KeyValue.pair(text(value, "g"), value), grouped)

  private def counted(groups: KGroupedStream[String, JsonNode]): Table =
    groups.count().mapValues((count: java.lang.Long) => put("n" -> Some(count.longValue)))
  private def sums(in: Inputs): Table = summed(in.s.groupByKey().aggregate(() => Sum.None, Add, in.kept))
  private def summed(sums: Table): Table = sums.mapValues((sum: JsonNode) => Sum.told(sum))

  private lazy val WithLast: ValueJoiner[JsonNode, JsonNode, JsonNode] = (left, right) =>
    put("left" -> number(left, "n"), "right" -> number(right, "last"))
  private lazy val Following: Reducer[JsonNode] = (before, value) => put(
    "n" -> number(value, "n").map(Math.max(_, number(before, "n").get)),
    "x" -> number(value, "n").map(number(before, "x").getOrElse(0L) * 3 % 1009 + _))
  private lazy val Reduced: ValueMapper[JsonNode, JsonNode] = value => put("n" -> number(value, "n"), "x" -> number(value, "x"))
  private lazy val Fold: Aggregator[String, JsonNode, JsonNode] = (_, value, before) =>
    put("first" -> number(before, "first").orElse(number(value, "n")), "last" -> number(value, "n"), "x" -> number(value, "x"))
  private lazy val Highest: Aggregator[String, JsonNode, JsonNode] = (_, value, before) => top(before, value, 3)
  private lazy val Earliest: Aggregator[String, JsonNode, JsonNode] = (_, value, before) =>
    put("first" -> number(before, "first").orElse(number(value, "n")), "last" -> number(before, "last"), "many" -> number(before, "many"))
  private lazy val Latest: Aggregator[String, JsonNode, JsonNode] = (_, value, before) =>
    put("first" -> number(before, "first"), "last" -> number(value, "n"), "many" -> number(before, "many").map(_ + 1))
  private lazy val Ours: Aggregator[String, JsonNode, JsonNode] = (_, _, before) =>
    put("ours" -> number(before, "ours").map(_ + 1), "theirs" -> number(before, "theirs"))
  private lazy val Theirs: Aggregator[String, JsonNode, JsonNode] = (_, value, before) =>
    put("ours" -> number(before, "ours"), "theirs" -> number(value, "n").map(_ + number(before, "theirs").getOrElse(0L)))
  private def folded(in: Inputs): Table = in.s.groupByKey().aggregate(() => put(), Fold, in.kept)

  private def ended[W <: Window](windows: KTable[Windowed[String], java.lang.Long]) =
    windows.suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded()))

  private def told(stream: Stream): Unit = stream.to(Output, Produced.`with`(Key, Value))
  private def told(table: Table): Unit = told(table.toStream)
  private def toldOf(windows: KTable[Windowed[String], java.lang.Long]): Unit =
    toldAll(windows.mapValues((count: java.lang.Long) => put("n" -> Some(count.longValue))))
  private def toldAll(windows: KTable[Windowed[String], JsonNode]): Unit =
    told(windows.toStream.map[String, JsonNode](((key: Windowed[String], value: JsonNode) =>
      KeyValue.pair(windowed(key), value)): OfWindow))
}

/** The sum of `x` as SQL has it: null if all are null. With the number of rows, and of those that have an `x`. */
private object Sum {
  val None: JsonNode = put("rows" -> Some(0L), "given" -> Some(0L), "total" -> Some(0L))

  def add(sum: JsonNode, value: JsonNode): JsonNode = changed(sum, value, 1)
  def subtract(sum: JsonNode, value: JsonNode): JsonNode = changed(sum, value, -1)

  def told(sum: JsonNode): JsonNode =
    put("n" -> number(sum, "rows"), "total" -> number(sum, "total").filter(_ => number(sum, "given").exists(_ > 0)))

  private def changed(sum: JsonNode, value: JsonNode, by: Int): JsonNode = {
    val x = number(value, "x")
    put("rows" -> number(sum, "rows").map(_ + by), "given" -> number(sum, "given").map(_ + x.fold(0)(_ => by)),
      "total" -> number(sum, "total").map(_ + by * x.getOrElse(0L)))
  }
}
