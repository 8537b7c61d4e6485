# SPDX-License-Identifier: Apache-2.0
"""The common part of the checks of operations: expressions, columns, keys and kinds of a node's inputs."""

from __future__ import annotations

from streamapp.scope.columns import (
    QUOTE_IT,
    READ_AS_BOOLEAN,
    TRUE_AND_FALSE,
    check_column,
    check_key_kept,
    check_names,
    fixed_keys,
    key_changed,
    listed,
    require_stream,
)
from streamapp.scope.expressions import check_expression, check_joined_expression, require_deterministic

__all__ = [
    "QUOTE_IT",
    "READ_AS_BOOLEAN",
    "TRUE_AND_FALSE",
    "check_column",
    "check_expression",
    "check_joined_expression",
    "check_key_kept",
    "check_names",
    "fixed_keys",
    "key_changed",
    "listed",
    "require_deterministic",
    "require_stream",
]
