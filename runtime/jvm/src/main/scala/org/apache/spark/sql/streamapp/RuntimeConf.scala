// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp

import java.util.Properties

import org.apache.hadoop.conf.Configuration

/**
 * The JVM side's knowledge of the application, carried in Spark's own configuration
 * (session settings reach executors inside the broadcast Hadoop configuration).
 *
 * Credentials never travel here: `clientConfig` names a file of Kafka client properties that is
 * mounted on the driver and on every executor (see [[ClientProperties]]).
 */
final class RuntimeConf(@transient get: String => Option[String]) extends Serializable {
  import RuntimeConf._

  private def required(key: String): String =
    get(Prefix + key).getOrElse(throw new IllegalStateException(s"Spark setting ${Prefix + key} is missing"))

  val applicationId: String = required("applicationId")
  val bootstrapServers: String = required("bootstrapServers")
  val subTopology: String = required("subTopology")
  /** The stores; the first has Spark's default name. */
  val stores: Seq[StoreOnRecord] =
    get(Prefix + "stores").getOrElse("").split(',').toSeq.filter(_.nonEmpty).map { store =>
      val parts = store.split('=')
      StoreOnRecord(parts(0), parts.lift(1).getOrElse(""), parts.lift(2).map(_.toLong))
    }
  /** The number of state partitions of every store. */
  val maxParallelism: Int = required("maxParallelism").toInt
  val exactlyOnce: Boolean = get(Prefix + "guarantee").forall(_ == "exactly-once")
  /** Whether a marker says that all effects of its epoch are committed. Without a transaction it speaks for its store alone. */
  def commitsTogether: Boolean = exactlyOnce || stores.size == 1
  /** The time after which Kafka ends the transaction of a silent producer. */
  val transactionTimeoutMs: Int = get(Prefix + "transactionTimeoutMs").map(_.toInt).getOrElse(60000)
  /** The nodes that call a function of the user's, as error messages name them; empty where there is none. */
  val functions: String = get(Prefix + "functions").getOrElse("")
  val clientConfig: Option[String] = get(Prefix + "clientConfig").filter(_.nonEmpty)
  /** Changelog records after which a live store of any size refreshes its local base (see LocalBase). */
  val localBaseRecords: Long = get(Prefix + "localBaseRecords").map(_.toLong).getOrElse(1000000L)

  /** The most that all producers of a process may hold together; None for a share of its heap. */
  val producersBytes: Option[Long] = get(Prefix + "producersBytes").map(_.toLong)

  def metadataTopic: String = s"$applicationId-metadata"
  def positionTopic: String = s"$applicationId-position"
  /** Whether a topic is a hop, as `is_repartition_topic` in internal_topics.py defines it. */
  def isHop(topic: String): Boolean = topic.startsWith(s"$applicationId-") && topic.endsWith("-repartition")

  /** The manifest's name for one of Spark's stores. */
  def storeOf(sparkStoreName: String): String =
    if (sparkStoreName == "default") stores.headOption.map(_.name).getOrElse("") else sparkStoreName

  /** The fingerprint of a store; empty where none is known. */
  def fingerprintOf(store: String): String = stores.find(_.name == store).map(_.fingerprint).getOrElse("")

  /** The version up to which a store is empty if its changelog has no marker: it may have been added after its task had run. */
  def emptyUntil(store: String): Long = stores.find(_.name == store).flatMap(_.since).map(_ + 1).getOrElse(0L)

  def changelogTopic(store: String): String = s"$applicationId-$store-changelog"

  /** Kafka client properties: the user's file (TLS, SASL) first, ours on top. */
  def client(settings: (String, String)*): Properties = {
    val properties = clientConfig.map(ClientProperties.load).getOrElse(new Properties())
    properties.put("bootstrap.servers", bootstrapServers)
    settings.foreach { case (key, value) => properties.put(key, value) }
    properties
  }
}

object RuntimeConf {
  val Prefix = "spark.streamapp."

  /** @param since the last epoch that was planned when the store was added; None for one that was there from the first on */
  final case class StoreOnRecord(name: String, fingerprint: String, since: Option[Long])

  def apply(hadoopConf: Configuration): RuntimeConf = new RuntimeConf(key => Option(hadoopConf.get(key)))
  def apply(settings: Map[String, String]): RuntimeConf = new RuntimeConf(settings.get)
}
