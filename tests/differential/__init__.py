# SPDX-License-Identifier: Apache-2.0
"""The same topologies here and in Kafka Streams, on the same records: the results are the same, but for the differences
in docs/semantics.md."""
