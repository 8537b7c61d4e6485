# SPDX-License-Identifier: Apache-2.0
"""How the bytes of a record's key or value are read and written."""

from __future__ import annotations

from dataclasses import dataclass

SINGLE_VALUE = (
    "text",
    "bytes",
    "integer",
    "long",
    "double",
    "bigendian-integer",
    "bigendian-long",
    "bigendian-double",
)
AVAILABLE = (*SINGLE_VALUE, "json")
NOT_YET = ("avro", "protobuf", "debezium")


@dataclass(frozen=True)
class Format:
    """A format by name, with its schema where it has one.

    `text`, `bytes`, and the numbers (`integer`, `long`, `double` as decimal text; `bigendian-…` as Kafka's
    own binary serdes) hold one value. `json` holds the fields of its schema.
    """

    name: str
    schema: str | None = None
    """Fields as Spark DDL, e.g. `user STRING, amount DOUBLE`; of json only (a sink's json needs none)."""

    @property
    def single_value(self) -> bool:
        """True when a record holds exactly one value, which becomes one column."""
        return self.name in SINGLE_VALUE

    @property
    def can_be_malformed(self) -> bool:
        """True when there are bytes that are not of this format: any bytes are text, or bytes."""
        return self.name not in ("text", "bytes")


TEXT = Format("text")
JSON = Format("json")
