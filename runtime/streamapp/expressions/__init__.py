# SPDX-License-Identifier: Apache-2.0
"""Expressions, read without running them: their columns and functions, whether they aggregate, whether they
can be repeated.

Expressions are Spark SQL. They are parsed here to name mistakes early, all at once, and to refuse what a
stream cannot do; Spark parses them again and has the last word on types.
"""

from __future__ import annotations

from streamapp.expressions.analysis import Expression, read_expression
from streamapp.expressions.fault import Fault
from streamapp.expressions.text import normalise, quote

__all__ = ["Expression", "Fault", "normalise", "quote", "read_expression"]
