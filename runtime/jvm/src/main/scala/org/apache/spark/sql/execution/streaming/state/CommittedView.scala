// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.execution.streaming.state

import java.util.concurrent.ConcurrentHashMap

import org.rocksdb.{ReadOptions, RocksDB => NativeRocksDB, RocksIterator}

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.types.StructType

/** A database as it was at one moment. It must be released before the database is closed, or else the process dies. */
trait Snapshot {
  /** The ids that the keys of column families begin with, by name; empty in a database without families. */
  def families: Map[String, Short]
  def get(key: Array[Byte]): Array[Byte]
  def rows(): RocksIterator
  def release(): Unit
}

final class NativeSnapshot(native: NativeRocksDB, override val families: Map[String, Short]) extends Snapshot {
  private val snapshot = native.getSnapshot
  private val options = new ReadOptions().setSnapshot(snapshot)
  override def get(key: Array[Byte]): Array[Byte] = native.get(options, key)
  override def rows(): RocksIterator = native.newIterator(options)
  override def release(): Unit = {
    options.close()
    native.releaseSnapshot(snapshot)
    snapshot.close()
  }
}

/**
 * The rows of one store partition at its last committed epoch, for readers beside the tasks that go on changing it.
 *
 * A reader holds a native snapshot: it never sees later writes, which may be aborted. Closing a database under a reader takes
 * the process down, so [[withdraw]] comes first: it waits for readers, whose next row fails.
 *
 * @param owner the partition whose lock guards this; its state decides when to publish and to withdraw
 */
final class CommittedView(place: StorePlace, owner: StorePartition) {
  private var current: Held = _
  private var readers = 0
  @volatile private var withdrawals = 0

  /** Shows that snapshot to readers from now on. */
  def publish(snapshot: => Snapshot, version: Long): Unit = owner.synchronized {
    if (current == null || current.version != version) {
      retire()
      current = new Held(snapshot, version)
      CommittedView.owners.put(place, owner)
    }
  }

  /** Takes the view from readers. To be called before the database is closed, when nothing is published any more. */
  def withdraw(): Unit = owner.synchronized {
    CommittedView.owners.remove(place, owner)
    withdrawals += 1
    retire()
    var interrupted = false
    while (readers > 0) {
      try owner.wait() catch { case _: InterruptedException => interrupted = true }
    }
    if (interrupted) Thread.currentThread().interrupt()
  }

  /** Returns the version here, which the caller closes; None when it is older than that. */
  def open(leastVersion: Long): Option[Held] = owner.synchronized {
    Option(current).filter(_.version >= leastVersion).map { held =>
      held.users += 1
      readers += 1
      held
    }
  }

  private def retire(): Unit = {
    if (current != null && current.users == 0) current.release()
    current = null
  }

  /** One version, in the hands of readers. */
  final class Held private[CommittedView] (snapshot: Snapshot, val version: Long) extends AutoCloseable {
    private[CommittedView] var users = 0
    private val born = withdrawals

    def families: Map[String, Short] = snapshot.families

    def get(key: Array[Byte]): Array[Byte] = { requireHere(); snapshot.get(key) }

    def rows(): RocksIterator = { requireHere(); snapshot.rows() }

    /** @throws IllegalStateException when the database is about to be closed */
    def requireHere(): Unit = if (born != withdrawals) {
      throw new IllegalStateException(s"store '${place.store}', partition ${place.partition}, is leaving this process")
    }

    override def close(): Unit = owner.synchronized {
      users -= 1
      readers -= 1
      if (users == 0 && (this ne current)) release()
      owner.notifyAll()
    }

    private[CommittedView] def release(): Unit = snapshot.release()
  }
}

/** The place of a store's partition in a process. */
final case class StorePlace(applicationId: String, store: String, partition: Int)

object CommittedView {
  private val owners = new ConcurrentHashMap[StorePlace, StorePartition]()

  /** Returns the version in this process, if it is as new as that. */
  def open(place: StorePlace, leastVersion: Long): Option[CommittedView#Held] =
    Option(owners.get(place)).flatMap(_.read(leastVersion))
}

/**
 * The view for Spark's own readers of state: with one value per key, and column families that have this layout. To be
 * released when it has been read.
 */
final class CommittedStore(held: CommittedView#Held, override val id: StateStoreId, layout: KeyStateEncoderSpec,
    values: StructType) extends ReadStateStore {

  // Encoders reuse their rows, so the store's own encoders belong to its task.
  private val data = new UnsafeRowDataEncoder(layout, values)
  private val keyEncoder = RocksDBStateEncoder.getKeyEncoder(data, layout, useColumnFamilies = held.families.nonEmpty)
  private val valueEncoder = RocksDBStateEncoder.getValueEncoder(data, values, useMultipleValuesPerKey = false)

  private var scans: List[RocksIterator] = Nil

  override def version: Long = held.version

  /** The same for families of another layout; it is released with this one. */
  def as(layout: KeyStateEncoderSpec, values: StructType): CommittedStore = new CommittedStore(held, id, layout, values)

  override def get(key: UnsafeRow, family: String): UnsafeRow =
    prefixOf(family).map(prefix => valueEncoder.decodeValue(held.get(prefix ++ keyEncoder.encodeKey(key)))).orNull

  override def iterator(family: String): StateStoreIterator[UnsafeRowPair] = scan(family, Array.emptyByteArray)

  override def prefixScan(prefix: UnsafeRow, family: String): StateStoreIterator[UnsafeRowPair] =
    scan(family, keyEncoder.encodePrefixKey(prefix))

  /** The rows of a family whose keys begin with `start`. */
  private def scan(family: String, start: Array[Byte]): StateStoreIterator[UnsafeRowPair] =
    new StateStoreIterator(prefixOf(family).fold(Iterator.empty[UnsafeRowPair])(prefix => scan(prefix.length, prefix ++ start)))

  private def scan(prefixBytes: Int, start: Array[Byte]): Iterator[UnsafeRowPair] = {
    val rows = held.rows()
    scans ::= rows
    rows.seek(start)
    val pair = new UnsafeRowPair()
    new Iterator[UnsafeRowPair] {
      override def hasNext: Boolean = {
        held.requireHere()
        rows.isValid && begins(rows.key)
      }
      override def next(): UnsafeRowPair = {
        if (!hasNext) throw new NoSuchElementException
        pair.withRows(keyEncoder.decodeKey(rows.key.drop(prefixBytes)), valueEncoder.decodeValue(rows.value))
        rows.next()
        pair
      }
      private def begins(key: Array[Byte]): Boolean =
        key.length >= start.length && java.util.Arrays.equals(key, 0, start.length, start, 0, start.length)
    }
  }

  // None if there is no such family yet.
  private def prefixOf(family: String): Option[Array[Byte]] =
    if (held.families.isEmpty) Some(Array.emptyByteArray)
    else held.families.get(family).map(RocksDBStateStoreProvider.encodeStateRowWithPrefix(Array.emptyByteArray, _))

  override def release(): Unit = {
    scans.foreach(_.close())
    held.close()
  }

  override def abort(): Unit = release()
  override def allColumnFamilyNames: Set[String] = held.families.keySet
  override def valuesIterator(key: UnsafeRow, family: String): Iterator[UnsafeRow] = no("several values per key")
  override def prefixScanWithMultiValues(prefix: UnsafeRow, family: String): StateStoreIterator[UnsafeRowPair] =
    no("several values per key")
  override def iteratorWithMultiValues(family: String): StateStoreIterator[UnsafeRowPair] = no("several values per key")

  private def no(what: String): Nothing = throw new UnsupportedOperationException(s"a committed view has no $what")
}
