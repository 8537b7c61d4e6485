# SPDX-License-Identifier: Apache-2.0
"""The columns of a record on its way to a topic, and of where one has come from."""

from __future__ import annotations

PLACE_FIELDS = ("topic", "partition", "offset")
"""Where a record is."""
HEADERS = "array<struct<key:string,value:binary>>"
RECORD_TYPES = {"topic": "string", "key": "binary", "value": "binary", "timestamp": "bigint", "headers": HEADERS}
"""What a sub-topology gives to the sink."""
RECORD_COLUMNS = tuple(RECORD_TYPES)
