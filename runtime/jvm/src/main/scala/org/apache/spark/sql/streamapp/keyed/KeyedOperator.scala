// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp.keyed

import java.util.UUID

import org.apache.hadoop.conf.Configuration

import org.apache.spark.SparkContext
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.streaming.operators.stateful._
import org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.streamapp.RuntimeConf
import org.apache.spark.sql.types.{IntegerType, StructType}

/**
 * A stateful operator that is ours from the logical plan on. Spark gives its own operators the place and version of their
 * stores when it plans an epoch; this one finds them in the local properties of the epoch's thread.
 */
trait KeyedOperator extends SparkPlan with StatefulOperator {

  private var found: Option[StatefulOperatorStateInfo] = None

  /** The place and version of the stores; None until the epoch's thread has asked, as other threads do not know the epoch. */
  override def stateInfo: Option[StatefulOperatorStateInfo] = synchronized {
    if (found.isEmpty) found = Option(sparkContext.getLocalProperty(SparkContext.SPARK_JOB_GROUP_ID)).map { run =>
      stateInfo(UUID.fromString(run), sparkContext.getLocalProperty(MicroBatchExecution.BATCH_ID_KEY).toLong)
    }
    found
  }

  /** The place and version of the stores, for a run of the query and a version. */
  def stateInfo(run: UUID, version: Long): StatefulOperatorStateInfo = {
    val conf = RuntimeConf(session.conf.getAll)
    StatefulOperatorStateInfo(s"/${conf.applicationId}/${conf.subTopology}/state", run, operatorId = 0, storeVersion = version,
      numPartitions = conf.maxParallelism, stateSchemaMetadata = None, stateStoreCkptIds = None)
  }

  // The form of the state is on record as the store's fingerprint.
  override def validateAndMaybeEvolveStateSchema(hadoopConf: Configuration, batchId: Long,
      stateSchemaVersion: Int): List[StateSchemaValidationResult] = Nil
}

object KeyedOperator {
  /** The form of a column family that has nothing in its keys, or in its values. */
  private[keyed] val Unused: StructType = new StructType().add("unused", IntegerType)
}
