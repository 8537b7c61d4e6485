# SPDX-License-Identifier: Apache-2.0
"""One rule in CEL at a place of the schema, and the parts that many rules share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Schema = dict[str, Any]
ITEMS = "[]"
"""The step of a place from a list to its items."""

LEGAL_NAME = "^[a-zA-Z0-9._-]+$"
LEGAL_WORDS = "letters, digits, `.`, `_` and `-`"
LEGAL = f"(self.matches('{LEGAL_NAME}') && self != '.' && self != '..')"
QUOTED = "'\\'' + self + '\\'"
"""The value at a text's place, before more of the message."""


@dataclass(frozen=True)
class Rule:
    """One rule at one place of the schema. `message` is CEL when `computed`, else plain text."""

    at: tuple[str, ...]
    rule: str
    message: str
    computed: bool = False

    def to_object(self) -> Schema:
        return {"rule": self.rule, "messageExpression" if self.computed else "message": self.message}
