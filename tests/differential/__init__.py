# SPDX-License-Identifier: Apache-2.0
"""The same topologies here and in Kafka Streams, on the same records: what comes out is the same, but for what
docs/semantics.md says."""
