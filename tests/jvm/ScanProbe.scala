// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.execution.streaming.state

import java.nio.file.{Files, Path}

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.rocksdb.{FlushOptions, Options, RocksDB => NativeRocksDB}

import org.apache.spark.util.NextIterator

/**
 * Changes a database while it is looked through. Steps:
 *
 *   put:KEY:VALUE  remove:KEY  flush (to a file)  open:NAME:PREFIX  next:NAME  close:NAME  end (of the epoch)
 *
 * A key or prefix is hex; the first byte of a stored key is left out of what is found.
 */
object ScanProbe {
  /** @return the row that each `next` found: KEY=VALUE, `none` behind the last */
  def run(folder: String, steps: java.util.List[String]): java.util.List[String] = {
    NativeRocksDB.loadLibrary()
    val options = new Options().setCreateIfMissing(true)
    val db = NativeRocksDB.open(options, Files.createDirectories(Path.of(folder)).toString)
    val scans = new PrefixScans(skipped = 1)
    val open = mutable.Map[String, NextIterator[ByteArrayPair]]()
    try steps.asScala.map(_.split(':')).flatMap {
      case Array("put", key, value) => db.put(bytes(key), value.getBytes); None
      case Array("remove", key) => db.delete(bytes(key)); None
      case Array("flush") => db.flush(new FlushOptions().setWaitForFlush(true)); None
      case Array("open", name, prefix) =>
        open(name) = scans.scan(db, bytes(prefix), RocksDB.prefixUpperBound(bytes(prefix)).get)
        None
      case Array("next", name) =>
        val rows = open(name)
        Some(if (rows.hasNext) { val row = rows.next(); s"${hex(row.key)}=${new String(row.value)}" } else "none")
      case Array("close", name) => open(name).closeIfNeeded(); None
      case Array("end") => scans.close(); None
    }.toSeq.asJava
    finally {
      scans.close()
      db.close()
      options.close()
    }
  }

  private def bytes(text: String): Array[Byte] = text.grouped(2).map(Integer.parseInt(_, 16).toByte).toArray
  private def hex(some: Array[Byte]): String = some.map(byte => f"$byte%02x").mkString
}
