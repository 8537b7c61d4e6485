// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp

import java.nio.ByteBuffer

import org.apache.spark.sql.SparkSession

/** Kafka's IntegerSerializer, LongSerializer and DoubleSerializer as SQL functions; null for bytes of a wrong length. */
object BigEndian {
  private def read[T](bytes: Array[Byte], size: Int)(get: ByteBuffer => T): Option[T] =
    if (bytes == null || bytes.length != size) None else Some(get(ByteBuffer.wrap(bytes)))

  def register(spark: SparkSession): Unit = {
    spark.udf.register("streamapp_from_bigendian_integer", (bytes: Array[Byte]) => read(bytes, 4)(_.getInt))
    spark.udf.register("streamapp_from_bigendian_long", (bytes: Array[Byte]) => read(bytes, 8)(_.getLong))
    spark.udf.register("streamapp_from_bigendian_double", (bytes: Array[Byte]) => read(bytes, 8)(_.getDouble))
    spark.udf.register("streamapp_to_bigendian_integer",
      (value: java.lang.Integer) => if (value == null) null else ByteBuffer.allocate(4).putInt(value).array)
    spark.udf.register("streamapp_to_bigendian_long",
      (value: java.lang.Long) => if (value == null) null else ByteBuffer.allocate(8).putLong(value).array)
    spark.udf.register("streamapp_to_bigendian_double",
      (value: java.lang.Double) => if (value == null) null else ByteBuffer.allocate(8).putDouble(value).array)
  }
}
