// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp

import java.util.Collections
import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.TimeUnit.SECONDS

import scala.jdk.CollectionConverters._
import scala.util.Try

import org.apache.kafka.clients.admin.Admin
import org.apache.kafka.common.config.ConfigResource
import org.apache.kafka.common.errors.TransactionAbortableException
import org.apache.kafka.common.protocol.Errors

import org.apache.spark.{SparkContext, TaskContext}

/** A transaction took longer than its timeout, and Kafka has ended it. */
final class OverdueTransactionException(message: String, cause: Throwable) extends RuntimeException(message, cause)

/**
 * How long the transactions of an epoch may take.
 *
 * The range of an epoch is fixed when it is planned. One that is too large for `transactionTimeout` would fail in the same way
 * each time, so a task that is tried again, with its epoch or alone, may take as long as the brokers allow.
 */
private[streamapp] object TransactionTimeout {
  // Properties of Spark's jobs, which reach the tasks that load the stores and those that write.
  private val Again = "streamapp.epochAgain"
  private val Records = "streamapp.epochRecords"
  private val BrokerSetting = "transaction.max.timeout.ms"
  /** The longest timeout that brokers allow by default. */
  private val UsualMostMs = 900000
  private val AnswerSeconds = 5L
  /** The longest timeout that brokers are known to allow, by their addresses. */
  private val known = new ConcurrentHashMap[String, Int]()

  /**
   * Sets the properties of the jobs that this thread starts from now on.
   *
   * @param records the records of all sources in the epoch
   * @param again   whether the epoch was planned by an earlier try
   */
  def announce(spark: SparkContext, records: Long, again: Boolean): Unit = {
    spark.setLocalProperty(Records, records.toString)
    spark.setLocalProperty(Again, again.toString)
  }

  /** Whether the task at hand repeats work that was begun before: with the query, its stage, or alone. */
  def isAgain: Boolean = Option(TaskContext.get()).exists { task =>
    task.attemptNumber() > 0 || task.stageAttemptNumber() > 0 || Option(task.getLocalProperty(Again)).exists(_.toBoolean)
  }

  /** The number of records in the epoch of the task at hand. */
  def recordsOfEpoch: Option[String] = Option(TaskContext.get()).flatMap(task => Option(task.getLocalProperty(Records)))

  /** The longest timeout that brokers allow, in milliseconds, as far as we may know; not less than the user asks for. */
  def most(conf: RuntimeConf): Int =
    math.max(conf.transactionTimeoutMs, known.computeIfAbsent(conf.bootstrapServers, _ => allowed(conf).getOrElse(UsualMostMs)))

  /**
   * The next timeout to ask for when brokers refuse one, and do not let us read what they allow: half of it, so that we get at least
   * half of what they allow. Not less than the user asks for, which is no guess.
   */
  def less(conf: RuntimeConf, refusedMs: Int): Int = {
    known.merge(conf.bootstrapServers, refusedMs / 2, (some, other) => math.min(some, other))
    most(conf)
  }

  /** Whether Kafka may have ended the transaction: it then answers as to a fenced producer or, since 4.0, that the producer can abort. */
  def mayHaveEnded(error: Throwable): Boolean = MetadataTopic.isDisowned(error) ||
    Iterator.iterate(error)(_.getCause).takeWhile(_ != null).exists(_.isInstanceOf[TransactionAbortableException])

  /** Whether the error says that brokers allow less. The producer passes on Kafka's words, and not always the kind of error. */
  def isRefused(error: Throwable): Boolean = {
    val words = Errors.INVALID_TRANSACTION_TIMEOUT.message
    Iterator.iterate(error)(_.getCause).takeWhile(_ != null).exists(cause => String.valueOf(cause.getMessage).contains(words))
  }

  // Some clients may not read the settings of a broker.
  private def allowed(conf: RuntimeConf): Option[Int] = Try {
    val admin = Admin.create(conf.client())
    try {
      val broker = admin.describeCluster().nodes.get(AnswerSeconds, SECONDS).asScala.head
      val resource = new ConfigResource(ConfigResource.Type.BROKER, broker.idString)
      admin.describeConfigs(Collections.singleton(resource)).values.get(resource).get(AnswerSeconds, SECONDS)
        .get(BrokerSetting).value.toInt
    } finally admin.close()
  }.toOption
}
