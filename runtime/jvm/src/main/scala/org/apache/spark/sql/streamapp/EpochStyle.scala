// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.internal.SQLConf

/**
 * The settings that depend on the size of an epoch. Epochs of few records run on Spark's interpreted expressions: generating code costs
 * the driver and each task milliseconds for every epoch, whatever its size, and pays only from some thousand records on;
 * the results are the same. Tasks of larger epochs share the processors ([[ProcessorShare]]).
 */
object EpochStyle {
  private val Few = 10000L
  private val Interpreted = "NO_CODEGEN"

  /** Sets the style of the epoch that is about to be planned in this session, for so many records. */
  def choose(session: SparkSession, records: Long): Unit = {
    val few = records < Few
    session.conf.set(SQLConf.WHOLESTAGE_CODEGEN_ENABLED.key, !few)
    session.conf.set(SQLConf.CODEGEN_FACTORY_MODE.key, if (few) Interpreted else "FALLBACK")
    // Looking for repeated expressions takes a task longer than computing them twice for some hundred records.
    session.conf.set(SQLConf.SUBEXPRESSION_ELIMINATION_ENABLED.key, !few)
    ProcessorShare.declare(session.sparkContext, large = !few)
  }

  /** Whether the expressions of the epoch are compiled, for the task that asks. */
  def compiles: Boolean = SQLConf.get.getConf(SQLConf.CODEGEN_FACTORY_MODE).toString != Interpreted
}
