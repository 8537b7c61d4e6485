// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp

import java.util.Collections

import scala.jdk.CollectionConverters._

import org.apache.kafka.clients.admin.{Admin, TransactionDescription, TransactionState}

import org.apache.spark.{SparkContext, TaskContext}
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.classic.ClassicConversions.castToImpl

/** Kafka's records of the transactions of tasks. */
object TransactionProbe {
  private val PatienceNs = 60L * 1000 * 1000 * 1000

  /** Declares whether the jobs that follow belong to an epoch that an earlier try has planned. */
  def announce(spark: SparkContext, again: Boolean): Unit = TransactionTimeout.announce(spark, records = 1, again)

  private def described(conf: RuntimeConf, id: String): TransactionDescription = {
    val admin = Admin.create(conf.client())
    val name = s"${conf.applicationId}/$id"
    try admin.describeTransactions(Collections.singleton(name)).description(name).get() finally admin.close()
  }

  /** The time after which Kafka ends the transaction of a task, in milliseconds. */
  def timeoutMs(settings: java.util.Map[String, String], id: String): Long =
    described(RuntimeConf(settings.asScala.toMap), id).transactionTimeoutMs

  /** Lets the running task have several partitions. */
  def beginTask(firstPartition: Int): Unit = TaskPartitions.begin(TaskContext.get(), firstPartition)

  /** Begins a run of a query, on the driver. */
  def beginRun(session: SparkSession, subTopology: String, run: String): Unit = inRun(session, run) { context =>
    TransactionalIds.beginRun(context, subTopology)
  }

  /** Lets a task of a run take an id; throws what that throws. */
  def takeId(session: SparkSession, applicationId: String, run: String): Unit = inRun(session, run) { context =>
    context.runJob(context.parallelize(Seq(0), 1), (_: TaskContext, _: Iterator[Int]) => TransactionalIds.requireRun(applicationId))
  }

  private def inRun(session: SparkSession, run: String)(work: SparkContext => Unit): Unit = {
    val context = castToImpl(session).sparkContext
    context.setJobGroup(run, "a run of a query")
    try work(context) finally context.clearJobGroup()
  }

  /** Waits until the open transaction has been ended. */
  def awaitEnd(conf: RuntimeConf, id: String): Unit = {
    val begun = System.nanoTime()
    var open = false
    def state = described(conf, id).state
    while (!open || state == TransactionState.ONGOING) {
      open ||= state == TransactionState.ONGOING
      if (System.nanoTime() - begun > PatienceNs) throw new IllegalStateException(s"$id is $state after a minute")
      Thread.sleep(50)
    }
  }
}
