# SPDX-License-Identifier: Apache-2.0
"""The Kafka edge: where Kafka is, its topics, the console, and the embedded broker. Knows nothing of Spark."""
