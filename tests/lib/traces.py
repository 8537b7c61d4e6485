# SPDX-License-Identifier: Apache-2.0
"""Spark's messages about failures, word for word."""

from __future__ import annotations

LOST_RECORDS = """\
Some data may have been lost because they are not available in Kafka any more;
either the data was aged out by Kafka or the topic may have been deleted before all the data in the
topic was processed.
If you don't want your streaming query to fail on such cases, set the source option failOnDataLoss to false.
Reason: Could not read records in offset [3, 6) for topic partition text-lines-1
with consumer group word-count-counts-c6281b17-981a-4123-8ad5-7ceee25468d3--438018386-executor.
=== Streaming Query ===
Identifier: counts [id = 6eb75a76-80fc-44f5-b3c7-95daf305db7e, runId = 31d5e712-e887-43d4-bce0-e9f1f66f5eca]
Current Committed Offsets: {KafkaV2[Subscribe[text-lines]]: {"text-lines":{"0":7,"1":3}}}
Current Available Offsets: {KafkaV2[Subscribe[text-lines]]: {"text-lines":{"0":7,"1":6}}}
"""
"""The message of an epoch that was to read offsets 3 to 5 of a partition which begins at 5."""
