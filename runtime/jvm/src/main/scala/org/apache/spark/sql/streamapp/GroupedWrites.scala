// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp

import java.util.concurrent.{CompletableFuture, ConcurrentLinkedQueue, ExecutionException, Executors, Future, RejectedExecutionException}

/**
 * Few writes for many threads: items that come while a write is under way go out together in the next.
 *
 * One thread of its own does the writes. A caller that is interrupted stops waiting, and leaves its write and those of others alone.
 *
 * @param write gets all waiting items, in the order in which they came; an exception from it goes to each of their callers
 */
private[streamapp] final class GroupedWrites[Item](name: String, write: Seq[Item] => Unit) {
  private final class Waiting(val item: Item) {
    val done = new CompletableFuture[Unit]
  }

  private val waiting = new ConcurrentLinkedQueue[Waiting]
  private val writer = Executors.newSingleThreadExecutor { task =>
    val thread = new Thread(task, name)
    thread.setDaemon(true)
    thread
  }

  /** Writes an item; returns when it is written. */
  def apply(item: Item): Unit = GroupedWrites.await(begin(item))

  /** Begins to write an item. */
  def begin(item: Item): CompletableFuture[Unit] = {
    val mine = new Waiting(item)
    waiting.add(mine)
    submit(() => writeAll())
    mine.done
  }

  /** Writes the waiting items, calls `last`, and then ends. */
  def close(last: () => Unit): Unit = {
    val ended = new CompletableFuture[Unit]
    submit(() => try last() finally ended.complete(()))
    writer.shutdown()
    ended.get()
  }

  private def submit(task: Runnable): Unit =
    try writer.execute(task)
    catch { case _: RejectedExecutionException => throw new IllegalStateException(s"$name has ended") }

  private def writeAll(): Unit = {
    val group = Iterator.continually(waiting.poll()).takeWhile(_ != null).toSeq
    if (group.nonEmpty) {
      try {
        write(group.map(_.item))
        group.foreach(_.done.complete(()))
      } catch { case error: Throwable => group.foreach(_.done.completeExceptionally(error)) }
    }
  }
}

private[streamapp] object GroupedWrites {
  /** Returns when it is written; throws what the write has thrown. */
  def await(write: Future[Unit]): Unit =
    try write.get()
    catch { case failed: ExecutionException => throw failed.getCause }
}
