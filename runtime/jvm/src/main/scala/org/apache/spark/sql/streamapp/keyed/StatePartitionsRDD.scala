// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp.keyed

import org.apache.spark.{Partition, TaskContext}
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorStateInfo
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.types.StructType
import org.apache.spark.util.SerializableConfiguration

/**
 * The work on each state partition, preferably where the partition's stores are. It does what Spark's own RDD of state stores does, except that
 * the settings are sent to executors once per run of a query: they are a third of the driver's work on a small epoch.
 */
private[keyed] abstract class StatePartitionsRDD(rows: RDD[InternalRow], @transient operator: SparkPlan,
    protected val state: StatefulOperatorStateInfo)
  extends RDD[InternalRow](rows) {

  @transient private val coordinator = operator.session.streams.stateStoreCoordinator
  private val settings = OncePerRun.send(operator.session.sparkContext, state, "settings") {
    val session = operator.session.sessionState
    StoreSettings(new StateStoreConf(session.conf), new SerializableConfiguration(session.newHadoopConf()))
  }

  override protected def getPartitions: Array[Partition] = firstParent[InternalRow].partitions

  override def getPreferredLocations(partition: Partition): Seq[String] =
    coordinator.getLocation(StateStoreProviderId(state, partition.index, StateStoreId.DEFAULT_STORE_NAME)).toSeq

  /** Opens a store at the epoch's version, for the task that calls. Where it was not committed by the task's end, it is aborted. */
  protected final def open(form: StoreForm, partition: Int, task: TaskContext): StateStore = {
    val StoreSettings(storeConf, hadoopConf) = settings.value
    val store = StateStore.get(StateStoreProviderId(state, partition, form.name), form.keys, form.values, form.encoding,
      state.storeVersion, None, None, useColumnFamilies = form.hasFamilies, storeConf, hadoopConf.value)
    task.addTaskCompletionListener[Unit](_ => if (!store.hasCommitted) store.abort())
    store
  }
}

/**
 * A store as Spark opens it.
 *
 * @param name Spark's name for the store
 */
private[keyed] final case class StoreForm(name: String, keys: StructType, values: StructType, encoding: KeyStateEncoderSpec,
    hasFamilies: Boolean)

/** The settings of a query's stores. Those that change from epoch to epoch are no settings of stores. */
private[keyed] final case class StoreSettings(stores: StateStoreConf, hadoop: SerializableConfiguration)
