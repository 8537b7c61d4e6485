// SPDX-License-Identifier: Apache-2.0
package dev.streamapp.oracle

import java.io.{BufferedReader, InputStreamReader, PrintStream}
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.Files
import java.time.Instant
import java.util.{HashMap, Properties}

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.ObjectNode
import org.apache.kafka.streams.{StreamsBuilder, StreamsConfig, TestInputTopic, TopologyConfig, TopologyTestDriver}
import org.apache.kafka.streams.state.BuiltInDslStoreSuppliers

import dev.streamapp.oracle.Json.{Key, Mapper}

/**
 * Kafka Streams, asked for the results of its own topologies ([[Topologies]]). Each line of stdin is a question:
 *
 *   {"topology": NAME, "records": [{"topic": T, "key": TEXT or null, "value": OBJECT or null, "timestamp": MS}, …]}
 *
 * and each line of stdout its answer, with the number of the record that caused a result:
 *
 *   {"records": [{"key": TEXT or null, "value": OBJECT or null, "timestamp": MS, "after": NUMBER}, …], "dropped": COUNT}
 *
 * The key of a window is JSON: {"key": TEXT, "start": MS, "end": MS}. Records are processed one by one, in their order.
 */
object Oracle {
  def main(arguments: Array[String]): Unit = {
    val answers = new PrintStream(System.out, true, UTF_8)
    System.setOut(System.err)
    val questions = new BufferedReader(new InputStreamReader(System.in, UTF_8))
    Iterator.continually(questions.readLine()).takeWhile(_ != null).foreach { line =>
      answers.println(Mapper.writeValueAsString(answer(Mapper.readTree(line))))
    }
    answers.flush()
    Runtime.getRuntime.halt(0) // threads of the driver's clients
  }

  private def answer(question: JsonNode): ObjectNode = {
    val builder = new StreamsBuilder(new TopologyConfig(new StreamsConfig(settings)))
    Topologies.build(question.get("topology").asText, builder)
    val driver = new TopologyTestDriver(builder.build(settings), settings, Instant.EPOCH)
    try {
      val result = Mapper.createObjectNode()
      val records = result.putArray("records")
      val inputs = new HashMap[String, TestInputTopic[String, JsonNode]]
      val output = driver.createOutputTopic(Topologies.Output, Key.deserializer, Json.Value.deserializer)
      question.get("records").asScala.zipWithIndex.foreach { case (record, i) =>
        val input = inputs.computeIfAbsent(record.get("topic").asText,
          topic => driver.createInputTopic(topic, Key.serializer, Json.Value.serializer))
        input.pipeInput(record.get("key").textValue, orNull(record.get("value")), record.get("timestamp").asLong)
        output.readRecordsToList().forEach { found =>
          records.addObject().put("key", found.key).put("timestamp", found.timestamp.longValue).put("after", i)
            .set[JsonNode]("value", found.value)
        }
      }
      result.put("dropped", dropped(driver))
    } finally driver.close()
  }

  private def orNull(value: JsonNode): JsonNode = if (value.isNull) null else value

  private def dropped(driver: TopologyTestDriver): Long = driver.metrics().asScala.collect {
    case (name, metric) if name.name == "dropped-records-total" => metric.metricValue.asInstanceOf[Double].toLong
  }.sum

  private def settings: Properties = {
    val settings = new Properties
    settings.put(StreamsConfig.APPLICATION_ID_CONFIG, "oracle")
    settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "nobody:1")
    settings.put(StreamsConfig.STATE_DIR_CONFIG, State)
    settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, "0")
    // The driver commits after each record; otherwise RocksDB would write files each time.
    settings.put(StreamsConfig.DSL_STORE_SUPPLIERS_CLASS_CONFIG, classOf[BuiltInDslStoreSuppliers.InMemoryDslStoreSuppliers])
    // Otherwise a result without a partner waits for a clock that stands still here.
    settings.put(StreamsConfig.InternalConfig.EMIT_INTERVAL_MS_KSTREAMS_OUTER_JOIN_SPURIOUS_RESULTS_FIX, "0")
    settings
  }

  private val State = Files.createTempDirectory("oracle").toString
}
