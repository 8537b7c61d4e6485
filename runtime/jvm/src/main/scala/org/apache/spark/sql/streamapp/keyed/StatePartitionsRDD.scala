// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp.keyed

import java.util.UUID
import java.util.concurrent.ConcurrentHashMap

import org.apache.hadoop.conf.Configuration

import org.apache.spark.{Partition, SparkContext, TaskContext}
import org.apache.spark.broadcast.Broadcast
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorStateInfo
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.types.StructType
import org.apache.spark.util.SerializableConfiguration

/**
 * One task per state partition, preferably where the partition's stores are. It does what Spark's own RDD of state stores does, except that
 * the settings are sent to executors once per run of a query: they are a third of the driver's work on a small epoch.
 */
private[keyed] abstract class StatePartitionsRDD(rows: RDD[InternalRow], operator: SparkPlan, protected val state: StatefulOperatorStateInfo)
  extends RDD[InternalRow](rows) {

  @transient private val coordinator = operator.session.streams.stateStoreCoordinator
  private val storeConf = new StateStoreConf(operator.session.sessionState.conf)
  private val settings = SettingsOfRun.of(operator, state)

  override protected def getPartitions: Array[Partition] = firstParent[InternalRow].partitions

  override def getPreferredLocations(partition: Partition): Seq[String] =
    coordinator.getLocation(StateStoreProviderId(state, partition.index, StateStoreId.DEFAULT_STORE_NAME)).toSeq

  /**
   * Opens a store at the epoch's version, for the task that calls. Where it was not committed by the task's end, it is aborted.
   *
   * @param name Spark's name for the store
   */
  protected final def open(name: String, keys: StructType, values: StructType, encoding: KeyStateEncoderSpec, partition: Int,
      hasFamilies: Boolean, task: TaskContext): StateStore = {
    val store = StateStore.get(StateStoreProviderId(state, partition, name), keys, values, encoding, state.storeVersion, None, None,
      useColumnFamilies = hasFamilies, storeConf, settings.value.value)
    task.addTaskCompletionListener[Unit](_ => if (!store.hasCommitted) store.abort())
    store
  }
}

/** The settings of a query's run, as its tasks get them. Those that change from epoch to epoch are no settings of stores. */
private object SettingsOfRun {
  private final case class Sent(run: UUID, settings: Broadcast[SerializableConfiguration])
  private val sent = new ConcurrentHashMap[String, Sent]()

  def of(operator: SparkPlan, state: StatefulOperatorStateInfo): Broadcast[SerializableConfiguration] =
    sent.compute(state.checkpointLocation, (_, former) =>
      if (former != null && former.run == state.queryRunId) former
      else Sent(state.queryRunId, send(operator.session.sparkContext, operator.session.sessionState.newHadoopConf()))).settings

  private def send(context: SparkContext, settings: Configuration) = SerializableConfiguration.broadcast(context, settings)
}
