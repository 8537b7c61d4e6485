// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.execution.streaming.state

import java.util.concurrent.ConcurrentLinkedQueue
import java.util.concurrent.atomic.{AtomicInteger, AtomicLong}
import java.util.concurrent.locks.ReentrantLock

import scala.jdk.CollectionConverters._
import scala.util.Random

import org.rocksdb.RocksIterator

/** Drives the state of a store partition without a broker, a task or a database. */
object PartitionProbe {
  import PartitionState._

  private object NoSnapshot extends Snapshot {
    override def families: Map[String, Short] = Map.empty
    override def get(key: Array[Byte]): Array[Byte] = null
    override def rows(): RocksIterator = null
    override def release(): Unit = ()
  }

  private val paths: Seq[(String, Seq[StorePartition => Any])] = {
    val restored = (_: StorePartition).restored(1, 10)
    val writing = Seq(restored, (_: StorePartition).write(1, 7))
    val flushed = writing :+ ((_: StorePartition).flushed(2, 7))
    Seq("Unknown" -> Nil, "Confirmed" -> Seq(restored), "Done" -> Seq((_: StorePartition).restoredDone(1, 7)),
      "Writing" -> writing, "Flushed" -> flushed, "leaving" -> (flushed :+ ((_: StorePartition).close())),
      "Closed" -> Seq((_: StorePartition).close()))
  }

  private val steps: Seq[(String, StorePartition => Any)] = Seq(
    "restored" -> (_.restored(1, 10)), "restoredDone" -> (_.restoredDone(1, 7)), "write" -> (_.write(1, 7)),
    "write of another" -> (_.write(1, 8)), "flushed" -> (_.flushed(2, 7)), "confirmed" -> (_.confirmed(2, 20)(NoSnapshot)),
    "reopen" -> (_.reopen()), "lost" -> (_.lost()), "close" -> (_.close()))

  /** Returns "STATE: STEP -> STATE" for all of them, with "!" where the caller has to close the database, or the error. */
  def transitions(): java.util.List[String] = (for ((name, path) <- paths; (step, take) <- steps) yield {
    val partition = new StorePartition("s", None)
    path.foreach(_(partition))
    val before = partition.now
    val after = try {
      val close = take(partition)
      s"${partition.now}${if (close == true) "!" else ""}"
    } catch {
      case refused: IllegalPartitionState =>
        if (partition.now != before) throw new AssertionError(s"$refused left ${partition.now}")
        refused.getMessage
    }
    s"$name: $step -> $after"
  }).asJava

  /** A native database that only reports the harm that it does to a process which uses it after its close. */
  private final class Database(@volatile var content: Long, told: String => Unit) {
    private var open = true
    private var snapshots = 0

    def snapshot(): Snapshot = synchronized {
      if (!open) told("a snapshot of a closed database")
      snapshots += 1
      val seen = content
      new Snapshot {
        override def families: Map[String, Short] = Map.empty
        override def get(key: Array[Byte]): Array[Byte] = Database.this.synchronized {
          if (!open) told("a read of a closed database")
          BigInt(seen).toByteArray
        }
        override def rows(): RocksIterator = null
        override def release(): Unit = Database.this.synchronized {
          if (!open) told("a release in a closed database")
          snapshots -= 1
        }
      }
    }

    def close(): Unit = synchronized {
      if (!open) told("closed twice")
      if (snapshots > 0) told(s"closed with $snapshots snapshots in use")
      open = false
    }
  }

  /**
   * Runs epochs, aborts, a close as Spark's maintenance does it, and readers, in threads of their own.
   * @return the errors, then the number of reads, and of closes that the end of a transaction carried out
   */
  def interleave(seed: Long, rounds: Int): java.util.List[String] = {
    val wrong = new ConcurrentLinkedQueue[String]()
    val (reads, late) = (new AtomicInteger, new AtomicInteger)
    for (round <- 0 until rounds if wrong.isEmpty) new Round(seed * 1000 + round, text => wrong.add(s"round $round: $text"), reads, late).run()
    (wrong.asScala.toSeq ++ Seq(s"reads=${reads.get}", s"late=${late.get}")).asJava
  }

  private final class Round(seed: Long, told: String => Unit, reads: AtomicInteger, late: AtomicInteger) {
    private val place = StorePlace(s"interleaved-$seed", "s", 0)
    private val partition = new StorePartition("s", Some(place))
    private val stamp = new ReentrantLock() // Spark's: a task has it until the store commits
    @volatile private var database = new Database(0, told)
    @volatile private var closing, ended = false
    private val kafka = new AtomicLong
    private val readHere = new AtomicInteger

    private def start(name: String, salt: Int)(work: Random => Unit): Thread = {
      val thread = new Thread(() =>
        try work(new Random(seed * 10 + salt)) catch { case error: Throwable => told(s"$name: $error") }, name)
      thread.start()
      thread
    }

    private def pause(random: Random): Unit = for (_ <- 0 until random.nextInt(50)) Thread.`yield`()

    def run(): Unit = {
      val task = start("task", 1) { random => try while (epoch(random)) () finally ended = true }
      val closer = start("closer", 2) { random =>
        for (_ <- 0 until 10) pause(random)
        while (readHere.get < 2 && !ended) Thread.`yield`() // a busy machine may not have let readers begin yet
        stamp.lock()
        try closing = true finally stamp.unlock()
        if (partition.close()) database.close() else late.incrementAndGet()
      }
      val readers = Seq(3, 4).map(salt => start("reader", salt) { random => while (!ended) { read(random); Thread.sleep(0, 1000) } })
      (Seq(task, closer) ++ readers).foreach { thread =>
        thread.join(60000)
        if (thread.isAlive) told(s"${thread.getName} waits for ever in ${partition.now}")
      }
      if (partition.now != Closed) told(s"left in ${partition.now}")
      if (partition.read(0).isDefined) told("can be read behind its end")
    }

    private def epoch(random: Random): Boolean = {
      stamp.lock()
      val attempt = random.nextLong()
      val version = kafka.get
      var flushed = false
      try {
        if (closing) return false
        if (!partition.usable(version, attempt, unchanged = random.nextInt(10) > 0)) {
          partition.reopen()
          database.close()
          database = new Database(version, told)
          partition.restored(version, 0)
        }
        partition.opened(database.snapshot())
        partition.write(version, attempt)
        database.content = -1
        pause(random)
        if (random.nextInt(5) == 0) {
          if (partition.lost()) told("a store that a task writes was left to it")
        } else {
          database.content = version + 1
          partition.flushed(version + 1, attempt)
          flushed = true
        }
      } finally stamp.unlock()
      if (flushed) {
        pause(random)
        val committed = random.nextInt(5) > 0
        if (committed) kafka.incrementAndGet()
        pause(random)
        val close =
          if (committed && random.nextInt(5) > 0) partition.confirmed(version + 1, 0)(database.snapshot())
          else partition.lost()
        if (close) database.close()
      }
      true
    }

    private def read(random: Random): Unit = CommittedView.open(place, 0).foreach { held =>
      try {
        for (_ <- 0 until 1 + random.nextInt(3)) {
          val seen = BigInt(held.get(Array.emptyByteArray))
          if (seen != held.version || seen > kafka.get) told(s"read $seen as version ${held.version}, committed ${kafka.get}")
          reads.incrementAndGet()
          readHere.incrementAndGet()
          pause(random)
        }
      } catch { case _: IllegalStateException => } // it leaves
      finally held.close()
    }
  }
}
