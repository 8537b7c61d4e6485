// SPDX-License-Identifier: Apache-2.0
package dev.streamapp.broker

import java.io.{FileInputStream, IOException, InputStream, PrintStream, RandomAccessFile}
import java.nio.file.{Files, Path, Paths}
import java.util.Properties
import java.util.concurrent.atomic.AtomicBoolean

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import kafka.server.{KafkaConfig, KafkaRaftServer}
import org.apache.kafka.common.utils.Time
import org.apache.kafka.metadata.properties.{MetaPropertiesEnsemble, MetaPropertiesVersion}
import org.apache.kafka.metadata.storage.Formatter

/**
 * One real Kafka broker and controller in one process, for a laptop and for tests.
 *
 * Started as `EmbeddedBroker SERVER.PROPERTIES CLUSTER_ID PARENT_PID`. It speaks to its parent by one line on stdout:
 *
 *   ready                    clients can connect
 *   in-use PID               another broker is running on this data folder
 *   failed MESSAGE           it could not start
 *
 * and by its stdin, on which nothing is ever sent: its end means that the parent is gone, however it went, and the broker
 * leaves too. SIGTERM does the same. Both are a controlled shutdown, cut off after [[ShutdownLimitMs]].
 */
object EmbeddedBroker {

  private val ShutdownLimitMs = 15000L
  private val ExitInUse = 4
  private val ExitFailed = 1

  /** The lock's file, held for as long as we live: if it were collected, it would be closed and the lock given away. */
  private var held: Option[RandomAccessFile] = None

  def main(args: Array[String]): Unit = {
    val toParent = System.out
    System.setOut(System.err) // nothing but our own line may reach the parent
    val Array(propertiesFile, clusterId, parentPid) = args

    val properties = new Properties()
    val in = new FileInputStream(propertiesFile)
    try properties.load(in)
    finally in.close()
    val dataFolder = Paths.get(properties.getProperty("log.dirs"))
    Files.createDirectories(dataFolder)

    lockOrOwner(dataFolder.resolveSibling(s"${dataFolder.getFileName}.lock"), parentPid).foreach { owner =>
      leave(toParent, s"in-use $owner", ExitInUse)
    }
    try run(properties, clusterId, toParent)
    catch {
      case NonFatal(error) => leave(toParent, s"failed ${oneLine(error)}", ExitFailed)
    }
  }

  private def run(properties: Properties, clusterId: String, toParent: PrintStream): Unit = {
    val config = KafkaConfig.fromProps(properties)
    formatWhenNew(config, clusterId)
    val server = new KafkaRaftServer(config, Time.SYSTEM)

    val stopping = new AtomicBoolean(false)
    def stop(): Unit = if (stopping.compareAndSet(false, true)) {
      haltAfter(ShutdownLimitMs)
      server.shutdown()
    }
    Runtime.getRuntime.addShutdownHook(new Thread(() => stop(), "broker-stop"))
    // Watched from the very start: a parent that dies while we are starting must not leave us behind.
    daemon("parent-watch") {
      awaitEnd(System.in)
      haltAfter(ShutdownLimitMs)
      System.exit(0) // runs the hook above
    }

    server.startup()
    toParent.println("ready")
    toParent.flush()
    server.awaitShutdown()
  }

  /** Writes the identity of node and cluster into an empty data folder; leaves a folder that has one alone. */
  private def formatWhenNew(config: KafkaConfig, clusterId: String): Unit = {
    val folders = config.logDirs.asScala.toSeq
    val found = new MetaPropertiesEnsemble.Loader()
      .addLogDirs(folders.asJava)
      .addMetadataLogDir(config.metadataLogDir)
      .load()
    val complete = found.logDirProps.asScala.get(config.metadataLogDir).exists(_.version == MetaPropertiesVersion.V1)
    if (!complete) {
      new Formatter()
        .setClusterId(clusterId)
        .setNodeId(config.nodeId)
        .setUnstableFeatureVersionsEnabled(false)
        .setControllerListenerName(config.controllerListenerNames.get(0))
        .setMetadataLogDirectory(config.metadataLogDir)
        .setDirectories(folders.asJava)
        .setIgnoreFormatted(true)
        .setPrintStream(new PrintStream(java.io.OutputStream.nullOutputStream()))
        .run()
    }
  }

  /**
   * Takes the data folder for as long as this process lives. None: the folder is ours. Some(pid): it is another's.
   *
   * The file's text, our pid and our parent's, tells a newcomer whether we are in use or only on our way out.
   */
  private def lockOrOwner(file: Path, parentPid: String): Option[String] = {
    val handle = new RandomAccessFile(file.toFile, "rw")
    held = Some(handle)
    if (handle.getChannel.tryLock() == null) Some(Files.readString(file).takeWhile(_ != ' '))
    else {
      handle.setLength(0)
      handle.writeBytes(s"${ProcessHandle.current().pid} $parentPid\n")
      None
    }
  }

  private def awaitEnd(in: InputStream): Unit =
    try while (in.read() != -1) {}
    catch { case _: IOException => () }

  private def haltAfter(limitMs: Long): Unit = daemon("broker-halt") {
    Thread.sleep(limitMs)
    Runtime.getRuntime.halt(ExitFailed)
  }

  private def daemon(name: String)(body: => Unit): Unit = {
    val thread = new Thread(() => body, name)
    thread.setDaemon(true)
    thread.start()
  }

  private def leave(toParent: PrintStream, line: String, status: Int): Nothing = {
    toParent.println(line)
    toParent.flush()
    Runtime.getRuntime.halt(status)
    throw new IllegalStateException("unreachable")
  }

  private def oneLine(error: Throwable): String = {
    val chain = Iterator.iterate(error)(_.getCause).takeWhile(_ != null).toSeq
    chain.map(_.toString.replaceAll("\\s+", " ")).distinct.mkString("; caused by ")
  }
}
