// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp

import java.net.URL
import java.util.{Collections, Enumeration}

/**
 * Spark's machine learning adds functions to each session that is made, and a tenth of a start is spent on them: they
 * alone need Scala's reflection. No app can call them, so a thread that does not find them makes the session.
 */
object SessionServices {
  private val Services = "META-INF/services/org.apache.spark.sql.SparkSessionExtensionsProvider"

  /** Hides them from this thread, and those that it starts, until [[show]]. */
  def hide(): Unit = {
    val thread = Thread.currentThread
    thread.setContextClassLoader(new WithoutMachineLearning(thread.getContextClassLoader))
  }

  def show(): Unit = {
    val thread = Thread.currentThread
    thread.getContextClassLoader match {
      case hiding: WithoutMachineLearning => thread.setContextClassLoader(hiding.getParent)
      case _ =>
    }
  }

  private final class WithoutMachineLearning(parent: ClassLoader) extends ClassLoader(parent) {
    override def getResources(name: String): Enumeration[URL] = {
      val found = super.getResources(name)
      if (name != Services) found
      else {
        val others = new java.util.ArrayList[URL](Collections.list(found))
        others.removeIf(_.getPath.contains("/spark-mllib"))
        Collections.enumeration(others)
      }
    }
  }
}
