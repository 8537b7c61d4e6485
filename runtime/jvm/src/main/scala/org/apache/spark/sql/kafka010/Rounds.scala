// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.kafka010

import scala.collection.mutable

/** Tells rounds apart: Spark asks the sources of a query one after the other, on one thread, and begins again. */
private[kafka010] final class Rounds {
  private val asked = mutable.Set.empty[AnyRef]

  /** Notes that Spark asks the source; returns whether a round begins with it. */
  def begins(source: AnyRef): Boolean = {
    if (!asked.add(source)) {
      asked.clear()
      asked += source
    }
    asked.size == 1
  }
}
