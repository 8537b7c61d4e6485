// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp

import java.util.concurrent.ConcurrentHashMap

import scala.jdk.CollectionConverters._

import org.apache.kafka.clients.admin.{Admin, AdminClientConfig}

import org.apache.spark.{SparkContext, TaskContext}

/**
 * Decides who may commit under the transactional ids of an application, where Kafka alone cannot know.
 *
 * Kafka lets one producer at a time commit under an id. The state of a partition is committed under the id of its task, and tasks of
 * different epochs may have different partitions. Within a query's run that is sound: an epoch begins when each task of the one before has
 * committed, and a task that is tried again has the same partitions and the same id. A new run [[settle]]s all ids before its first task. Tasks of
 * earlier runs could take ids back afterwards, so a task asks the driver once it has taken one: [[requireRun]].
 */
private[streamapp] object TransactionalIds {
  /** How long Kafka's clients wait for an answer, before they ask again. */
  private val UsualAnswerMs = 30000
  /** On the driver: the run of each sub-topology's query. */
  private val runs = new ConcurrentHashMap[String, String]()
  // On an executor: the runs at the last answer, and when that was asked for.
  private var known: Seq[String] = Nil
  private var askedNs: Option[Long] = None

  /** Makes the run of the calling thread's query the one whose tasks may commit. */
  def beginRun(context: SparkContext, subTopology: String): Unit =
    Option(context.getLocalProperty(SparkContext.SPARK_JOB_GROUP_ID)).foreach(runs.put(subTopology, _))

  /** The runs whose tasks may commit. */
  def currentRuns: Seq[String] = runs.values.asScala.toSeq

  /** Forgets all runs. */
  def clear(): Unit = runs.clear()

  /**
   * Ends the transactions that a former run has left open under these ids, and takes the ids from it, before any task begins. A task could
   * wait for them itself, but all running tasks could be waiting for one that is not running yet. Called on the driver.
   */
  def settle(conf: RuntimeConf, ids: Iterable[String]): Unit = if (conf.exactlyOnce) {
    MetadataTopic.current(conf.applicationId).confirm()
    // It fences in the name of producers whose transactions may take as long as it waits for an answer, which by default is
    // longer than some brokers allow.
    val admin = Admin.create(conf.client(AdminClientConfig.REQUEST_TIMEOUT_MS_CONFIG ->
      math.min(UsualAnswerMs, conf.transactionTimeoutMs).toString))
    try admin.fenceProducers(ids.map(inKafka(conf, _)).toList.asJava).all().get() finally admin.close()
  }

  /** The run of the query that the running task belongs to. */
  def runOfTask: Option[String] =
    Option(TaskContext.get()).flatMap(task => Option(task.getLocalProperty(SparkContext.SPARK_JOB_GROUP_ID)))

  /** The id as Kafka knows it. */
  def inKafka(conf: RuntimeConf, id: String): String = s"${conf.applicationId}/$id"

  /**
   * To be called by a task when it has taken an id, before it commits: checks that its run goes on. A run that begins later takes the id from it.
   *
   * @throws FencedException when another driver has taken over
   * @throws SupersededRunException when another run has begun
   */
  def requireRun(applicationId: String): Unit = {
    val since = System.nanoTime()
    // One question at a time: its answer is for all tasks that wait meanwhile.
    synchronized {
      if (!askedNs.exists(_ - since > 0)) {
        val asking = System.nanoTime()
        RuntimePlugin.runs(applicationId).foreach { answer =>
          known = answer
          askedNs = Some(asking)
        }
      }
      for (run <- runOfTask if askedNs.isDefined && !known.contains(run)) {
        throw new SupersededRunException(s"the query's run $run is over: another one has begun")
      }
    }
  }
}

/** A task of a run that is over must not commit. */
final class SupersededRunException(message: String) extends RuntimeException(message)
