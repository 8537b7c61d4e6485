# SPDX-License-Identifier: Apache-2.0
"""The columns of a record on its way to a topic, and of the place that a record was read from."""

from __future__ import annotations

PLACE_FIELDS = ("topic", "partition", "offset")
"""The columns of a record's place."""
HEADERS = "array<struct<key:string,value:binary>>"
RECORD_TYPES = {"topic": "string", "key": "binary", "value": "binary", "timestamp": "bigint", "headers": HEADERS}
"""The columns that a sub-topology gives to the sink, with their types."""
RECORD_COLUMNS = tuple(RECORD_TYPES)
