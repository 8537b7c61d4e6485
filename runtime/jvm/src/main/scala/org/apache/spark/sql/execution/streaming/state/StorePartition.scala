// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.execution.streaming.state

/** The state of this process's copy of one store partition, which decides what the copy may be used for. */
sealed trait PartitionState

object PartitionState {
  /** Nothing is known: the database must not be used. */
  case object Unknown extends PartitionState

  /** The database equals what Kafka has committed as `version`, and no task changes it. `nextOffset` follows its marker. */
  final case class Confirmed(version: Long, nextOffset: Long) extends PartitionState

  /** Rebuilt for a task whose epoch is committed already: whatever this attempt makes of the database is dropped. */
  final case class Done(version: Long, attempt: Long) extends PartitionState

  /** The attempt may have changed the database since `version`. */
  final case class Writing(version: Long, attempt: Long) extends PartitionState

  /**
   * The attempt has sent all changes up to `version`; its transaction decides whether they become real. Spark may close
   * the store from now on: when it has (`leaving`), the transaction's end closes it.
   */
  final case class Flushed(version: Long, attempt: Long, leaving: Boolean) extends PartitionState

  case object Closed extends PartitionState
}

/** A bug of ours, or a habit of Spark's that has changed. */
final class IllegalPartitionState(message: String) extends IllegalStateException(message)

/**
 * Owns the state of one store partition in this process, and the view of its readers. Tasks, the task's transaction,
 * Spark's maintenance and readers meet here, under the lock of this object.
 *
 * The holder of this lock asks for no other: a transaction calls this with its own lock held.
 *
 * @param name the name for messages
 * @param place where readers find the store; none for one that cannot be read
 */
final class StorePartition(name: String, place: Option[StorePlace]) {
  import PartitionState._

  private var state: PartitionState = Unknown
  private val view = place.map(new CommittedView(_, this))

  def now: PartitionState = synchronized(state)

  /**
   * Whether this attempt may use the database as that version.
   * @param unchanged whether Kafka has no other committed changes; asked of a confirmed version
   */
  def usable(version: Long, attempt: Long, unchanged: Boolean): Boolean = synchronized {
    state match {
      case Confirmed(`version`, _) => unchanged
      case Done(`version`, `attempt`) | Writing(`version`, `attempt`) => true
      case _ => false
    }
  }

  /** Prepares for the database to be closed and made anew. Returns when no reader uses it. */
  def reopen(): Unit = synchronized {
    state match {
      case Closed | Flushed(_, _, true) => refuse(Unknown)
      case _ => state = Unknown
    }
    view.foreach(_.withdraw())
  }

  /** Notes that the database was rebuilt, and equals what Kafka has committed as `version`. */
  def restored(version: Long, nextOffset: Long): Unit = rebuilt(Confirmed(version, nextOffset))

  /** Notes that the database was rebuilt for an attempt whose epoch `version` is committed already. */
  def restoredDone(version: Long, attempt: Long): Unit = rebuilt(Done(version, attempt))

  private def rebuilt(next: PartitionState): Unit = synchronized {
    if (state != Unknown) refuse(next)
    state = next
  }

  /** Notes that the database is open: readers may see it where it equals what is committed. */
  def opened(snapshot: => Snapshot): Unit = synchronized {
    state match {
      case Confirmed(version, _) => view.foreach(_.publish(snapshot, version))
      case _ =>
    }
  }

  /** Notes that the attempt changes the database from now on. */
  def write(version: Long, attempt: Long): Unit = synchronized {
    state match {
      case Confirmed(`version`, _) | Writing(`version`, `attempt`) => state = Writing(version, attempt)
      case Done(`version`, `attempt`) =>
      case _ => refuse(Writing(version, attempt))
    }
  }

  /** Notes that the attempt has sent all its changes, which lead to `version`. */
  def flushed(version: Long, attempt: Long): Unit = synchronized {
    val before = version - 1
    state match {
      case Writing(`before`, `attempt`) => state = Flushed(version, attempt, leaving = false)
      case Done(`before`, `attempt`) =>
      case _ => refuse(Flushed(version, attempt, leaving = false))
    }
  }

  /**
   * Notes that Kafka has committed the flushed changes as `version`.
   * @return whether the caller has to close the database now
   */
  def confirmed(version: Long, nextOffset: Long)(snapshot: => Snapshot): Boolean = synchronized {
    state match {
      case Flushed(`version`, _, true) => leave()
      case Flushed(`version`, _, false) =>
        state = Confirmed(version, nextOffset)
        view.foreach(_.publish(snapshot, version))
        false
      case _ => refuse(Confirmed(version, nextOffset))
    }
  }

  /**
   * Notes that the changed or flushed version never becomes real. Right in every state, as nothing is trusted afterwards.
   * @return whether the caller has to close the database now
   */
  def lost(): Boolean = synchronized {
    state match {
      case Flushed(_, _, true) => leave()
      case Closed => false
      case _ =>
        state = Unknown
        false
    }
  }

  /**
   * Closes the store, which Spark gives up. A store that waits for its transaction is closed when that has ended.
   * @return whether the caller has to close the database now; then no reader uses it
   */
  def close(): Boolean = synchronized {
    state match {
      case flushed: Flushed =>
        state = flushed.copy(leaving = true)
        false
      case Closed => false
      case _ => leave()
    }
  }

  /** Returns the last committed version for a reader, who closes it; None when it is older than `leastVersion`. */
  def read(leastVersion: Long): Option[CommittedView#Held] = view.flatMap(_.open(leastVersion))

  private def leave(): Boolean = {
    state = Closed
    view.foreach(_.withdraw())
    true
  }

  private def refuse(next: PartitionState): Nothing =
    throw new IllegalPartitionState(s"$name cannot go from $state to $next")
}
