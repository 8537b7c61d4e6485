# SPDX-License-Identifier: Apache-2.0
"""Benchmarks against Kafka Streams and stock Spark: `python -m benchmarks --help`."""
