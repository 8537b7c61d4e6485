// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp

import scala.collection.mutable.ArrayBuffer

import org.apache.kafka.clients.consumer.KafkaConsumer
import org.rocksdb.{RocksDB => NativeRocksDB, Statistics}

import org.apache.spark.deploy.LocalSparkCluster
import org.apache.spark.rpc.RpcEnv
import org.apache.spark.sql.execution.streaming.state.RocksDB

/** Access to members that Spark keeps private: all reflection is here. */
private[spark] object SparkInternals {
  private val Native = new Internal[RocksDB, NativeRocksDB](classOf[RocksDB], "db")
  private val NativeStatistics = new Internal[RocksDB, Statistics](classOf[RocksDB], "nativeStats")
  private val Workers = new Internal[LocalSparkCluster, ArrayBuffer[RpcEnv]](classOf[LocalSparkCluster], "workerRpcEnvs")
  private val Masters = new Internal[LocalSparkCluster, ArrayBuffer[RpcEnv]](classOf[LocalSparkCluster], "masterRpcEnvs")
  private lazy val Consumer = new Internal[AnyRef, KafkaConsumer[Array[Byte], Array[Byte]]](
    Class.forName("org.apache.spark.sql.kafka010.consumer.InternalKafkaConsumer"), "consumer")

  /** The database of a store: merged values and local bases need it. Null while it is closed. */
  def native(store: RocksDB): NativeRocksDB = Native.of(store)

  def statistics(store: RocksDB): Statistics = NativeStatistics.of(store)

  /** The workers of a `local-cluster`, which stops them when it ends. */
  def workers(cluster: LocalSparkCluster): ArrayBuffer[RpcEnv] = Workers.of(cluster)

  def masters(cluster: LocalSparkCluster): ArrayBuffer[RpcEnv] = Masters.of(cluster)

  /** Kafka's consumer within one of Spark's (an `InternalKafkaConsumer`). */
  def consumer(owner: AnyRef): KafkaConsumer[Array[Byte], Array[Byte]] = Consumer.of(owner)

  private final class Internal[Owner, Content](owner: Class[_], name: String) {
    private val field = owner.getDeclaredField(name)
    field.setAccessible(true)
    def of(some: Owner): Content = field.get(some).asInstanceOf[Content]
  }
}
