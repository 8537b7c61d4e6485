// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp

import java.nio.ByteBuffer

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.expressions.objects.StaticInvoke
import org.apache.spark.sql.classic.ClassicConversions.castToImpl
import org.apache.spark.sql.types.{BinaryType, DataType, DoubleType, IntegerType, LongType}

/**
 * Kafka's IntegerSerializer, LongSerializer and DoubleSerializer as SQL functions; null for bytes of a wrong length, and for
 * null. They are registered as calls of methods: Scala's own way has to find out their types by reflection, which nothing
 * else of a start needs, and takes half a second.
 */
object BigEndian {
  def fromInteger(bytes: Array[Byte]): java.lang.Integer = if (bytes.length == 4) ByteBuffer.wrap(bytes).getInt else null
  def fromLong(bytes: Array[Byte]): java.lang.Long = if (bytes.length == 8) ByteBuffer.wrap(bytes).getLong else null
  def fromDouble(bytes: Array[Byte]): java.lang.Double = if (bytes.length == 8) ByteBuffer.wrap(bytes).getDouble else null

  def toInteger(value: Int): Array[Byte] = ByteBuffer.allocate(4).putInt(value).array
  def toLong(value: Long): Array[Byte] = ByteBuffer.allocate(8).putLong(value).array
  def toDouble(value: Double): Array[Byte] = ByteBuffer.allocate(8).putDouble(value).array

  def register(spark: SparkSession): Unit = {
    val functions = castToImpl(spark).sessionState.functionRegistry
    def add(name: String, method: String, input: DataType, result: DataType): Unit =
      functions.createOrReplaceTempFunction(name, StaticInvoke(getClass, result, method, _, Seq(input)), "scala_udf")
    for ((name, number) <- Seq("integer" -> IntegerType, "long" -> LongType, "double" -> DoubleType)) {
      add(s"streamapp_from_bigendian_$name", s"from${name.capitalize}", BinaryType, number)
      add(s"streamapp_to_bigendian_$name", s"to${name.capitalize}", number, BinaryType)
    }
  }
}
