# SPDX-License-Identifier: Apache-2.0
"""The Kafka edge: where Kafka is, its topics, the console, the embedded broker. Knows nothing of Spark."""
