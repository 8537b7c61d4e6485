// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp.keyed

import java.math.BigInteger
import java.nio.ByteBuffer

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.{ImperativeAggregate, TypedImperativeAggregate}
import org.apache.spark.sql.types.{DataType, DoubleType}

/**
 * The sum of floating-point numbers without any rounding on the way, so that a number can be taken out again as if it had
 * never been there. The result is the double nearest to the sum.
 *
 * @param value a DOUBLE; null adds nothing
 * @param sign  1 to add it, -1 to take it out
 */
final case class ExactSum(value: Expression, sign: Expression, mutableAggBufferOffset: Int = 0, inputAggBufferOffset: Int = 0)
  extends TypedImperativeAggregate[ExactTotal] {

  override def children: Seq[Expression] = Seq(value, sign)
  override def dataType: DataType = DoubleType
  override def nullable: Boolean = false
  override def defaultResult: Option[Literal] = Some(Literal(0.0))

  override def createAggregationBuffer(): ExactTotal = new ExactTotal
  override def eval(total: ExactTotal): Any = total.toDouble
  override def serialize(total: ExactTotal): Array[Byte] = total.toBytes
  override def deserialize(bytes: Array[Byte]): ExactTotal = ExactTotal.of(bytes)

  override def update(total: ExactTotal, row: InternalRow): ExactTotal = {
    val number = value.eval(row)
    if (number != null) total.add(number.asInstanceOf[Double], sign.eval(row).asInstanceOf[Int])
    total
  }

  override def merge(total: ExactTotal, other: ExactTotal): ExactTotal = {
    total.add(other)
    total
  }

  override def withNewMutableAggBufferOffset(offset: Int): ImperativeAggregate = copy(mutableAggBufferOffset = offset)
  override def withNewInputAggBufferOffset(offset: Int): ImperativeAggregate = copy(inputAggBufferOffset = offset)
  override protected def withNewChildrenInternal(children: IndexedSeq[Expression]): ExactSum = copy(children(0), children(1))
}

/**
 * A sum of doubles, as a whole number of units of 2 to the `exponent`: each finite double is such a number. NaN and the
 * infinities are counted, so that they can be taken out too.
 */
final class ExactTotal {
  private var units = BigInteger.ZERO
  private var exponent = 0
  private var notNumbers = 0L
  private var aboveAll = 0L
  private var belowAll = 0L

  def add(number: Double, times: Int): Unit =
    if (number.isNaN) notNumbers += times
    else if (number == Double.PositiveInfinity) aboveAll += times
    else if (number == Double.NegativeInfinity) belowAll += times
    else if (number != 0.0) {
      // IEEE 754: 52 bits of fraction, 11 of a biased exponent, and a leading 1 unless that is 0.
      val bits = java.lang.Double.doubleToRawLongBits(number)
      val biased = ((bits >>> 52) & 0x7ff).toInt
      val fraction = bits & ((1L << 52) - 1)
      val magnitude = if (biased == 0) fraction else fraction | (1L << 52)
      add(BigInteger.valueOf(if (bits < 0) -magnitude * times else magnitude * times), math.max(biased, 1) - 1075)
    }

  def add(other: ExactTotal): Unit = {
    notNumbers += other.notNumbers
    aboveAll += other.aboveAll
    belowAll += other.belowAll
    add(other.units, other.exponent)
  }

  private def add(more: BigInteger, at: Int): Unit =
    if (units.signum == 0) {
      units = more
      exponent = at
    } else if (more.signum != 0) {
      val least = math.min(exponent, at)
      units = units.shiftLeft(exponent - least).add(more.shiftLeft(at - least))
      exponent = least
    }

  /** The nearest double; of two that are equally near, the even one. */
  def toDouble: Double =
    if (notNumbers > 0 || (aboveAll > 0 && belowAll > 0)) Double.NaN
    else if (aboveAll > 0) Double.PositiveInfinity
    else if (belowAll > 0) Double.NegativeInfinity
    else {
      val size = units.abs
      // The number of bits that do not fit into a double.
      val surplus = math.max(size.bitLength + exponent - 53, -1074) - exponent
      val rounded =
        if (surplus <= 0) Math.scalb(size.doubleValue, exponent)
        else {
          val kept = size.shiftRight(surplus)
          val half = size.testBit(surplus - 1)
          val isMore = half && size.getLowestSetBit < surplus - 1
          val up = if (half && (isMore || kept.testBit(0))) BigInteger.ONE else BigInteger.ZERO
          Math.scalb(kept.add(up).doubleValue, exponent + surplus)
        }
      if (units.signum < 0) -rounded else rounded
    }

  def toBytes: Array[Byte] = {
    val zeros = math.max(units.getLowestSetBit, 0)
    val digits = units.shiftRight(zeros).toByteArray
    ByteBuffer.allocate(3 * java.lang.Long.BYTES + Integer.BYTES + digits.length)
      .putLong(notNumbers).putLong(aboveAll).putLong(belowAll).putInt(exponent + zeros).put(digits).array
  }
}

object ExactTotal {
  def of(stored: Array[Byte]): ExactTotal = {
    val bytes = ByteBuffer.wrap(stored)
    val total = new ExactTotal
    total.notNumbers = bytes.getLong
    total.aboveAll = bytes.getLong
    total.belowAll = bytes.getLong
    total.exponent = bytes.getInt
    val digits = new Array[Byte](bytes.remaining)
    bytes.get(digits)
    total.units = new BigInteger(digits)
    total
  }
}
