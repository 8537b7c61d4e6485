// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp

import java.util.UUID

import scala.collection.mutable

import org.apache.spark.SparkEnv
import org.apache.spark.scheduler.{ExecutorCacheTaskLocation, TaskLocation}
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.operators.stateful.{StatefulOperator, StatefulOperatorStateInfo}
import org.apache.spark.sql.execution.streaming.runtime.StreamingQueryWrapper
import org.apache.spark.sql.execution.streaming.state.{StateStoreCoordinatorRef, StateStoreId, StateStoreProviderId}

/**
 * The executor of each state partition. Spark runs a task where its store is, wherever that came to be: a new executor would
 * get a share only by chance. So this sets the places of the stores, and the next epoch's tasks follow and restore the
 * stores there.
 */
private[streamapp] class Placement(session: SparkSession) {

  private val coordinator = StateStoreCoordinatorRef.forDriver(SparkEnv.get, session.sessionState.conf)
  private var balanced: (Set[String], Set[UUID]) = (Set.empty, Set.empty)
  // Tasks that find no free slot where their stores are go elsewhere, and the stores with them.
  private var nextLookNs = System.nanoTime()
  /** By query and operator: the version of a store when the places of its partitions were last set. */
  private val placedAt = mutable.Map.empty[(UUID, Long), Long]

  /**
   * Gives each executor its share, if executors or queries have changed since the last time, and now and then. Tasks of an epoch that was
   * planned before may open a store at its old place once more, so the check repeats until such epochs are over.
   */
  def balance(executors: Set[String]): Unit = {
    val stores = states()
    val now = (executors, stores.map(_.queryRunId).toSet)
    if (executors.nonEmpty && (now != balanced || System.nanoTime() - nextLookNs >= 0)) {
      nextLookNs = System.nanoTime() + Placement.LookEveryNs
      val hosts = session.sparkContext.env.blockManager.master.getMemoryStatus.keys
        .map(manager => manager.executorId -> manager.host).toMap
      if (executors.forall(hosts.contains)) {
        val settled = stores.map { store =>
          val owners = 0.until(store.numPartitions).map(owner(store, _))
          val moves = Placement.moves(owners, executors.toSeq.sorted)
          moves.foreach { case (partition, executor) =>
            coordinator.reportActiveInstance(id(store, partition), hosts(executor), executor, Nil)
          }
          val operator = (store.queryRunId, store.operatorId)
          if (moves.nonEmpty) placedAt(operator) = store.storeVersion
          placedAt.get(operator).forall(store.storeVersion > _ + 1)
        }
        if (settled.forall(identity)) {
          balanced = now
          placedAt.clear()
        }
      }
    }
  }

  /** The number of state partitions of each executor. */
  def counts(): Map[String, Int] =
    states().flatMap(store => 0.until(store.numPartitions).flatMap(owner(store, _))).groupMapReduce(identity)(_ => 1)(_ + _)

  /** The stores of the queries that have had an epoch. */
  private def states(): Seq[StatefulOperatorStateInfo] = session.streams.active.toSeq.flatMap {
    case query: StreamingQueryWrapper =>
      Option(query.streamingQuery.lastExecution).toSeq.flatMap(_.executedPlan.collect {
        case operator: StatefulOperator if operator.stateInfo.isDefined => operator.getStateInfo
      })
    case _ => Nil
  }.distinctBy(store => (store.queryRunId, store.operatorId))

  private def owner(store: StatefulOperatorStateInfo, partition: Int): Option[String] =
    coordinator.getLocation(id(store, partition)).map(TaskLocation(_)).collect {
      case ExecutorCacheTaskLocation(_, executor) => executor
    }

  private def id(store: StatefulOperatorStateInfo, partition: Int): StateStoreProviderId =
    StateStoreProviderId(store, partition, StateStoreId.DEFAULT_STORE_NAME)
}

private[streamapp] object Placement {
  private val LookEveryNs = 30L * 1000 * 1000 * 1000

  /**
   * The new executors of the partitions that move, so that all have equally many, give or take one, and as few as possible move.
   *
   * @param owners the executor of each partition; one that is not among `executors` has lost its partitions
   */
  def moves(owners: Seq[Option[String]], executors: Seq[String]): Map[Int, String] = {
    val shares = executors.map(_ -> mutable.Stack.empty[Int]).toMap
    def least: String = executors.minBy(shares(_).size)
    def most: String = executors.maxBy(shares(_).size)
    val (kept, lost) = owners.indices.partition(owners(_).exists(shares.contains))
    kept.foreach(partition => shares(owners(partition).get).push(partition))
    lost.foreach(shares(least).push)
    while (shares(most).size > shares(least).size + 1) shares(least).push(shares(most).pop())
    shares.flatMap { case (executor, partitions) =>
      partitions.filterNot(owners(_).contains(executor)).map(_ -> executor)
    }
  }
}
