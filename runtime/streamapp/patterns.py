# SPDX-License-Identifier: Apache-2.0
"""Patterns of topic names, as authors write them.

They are matched by RE2: its time grows with the length of the text alone, whatever the pattern, and its memory has a
bound. So no author can stop an operator that looks after others too. Java, which reads the topics, knows more: what RE2
does not know is refused.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import re2

LONGEST = 1000
"""Characters of a pattern; a topic's name has 249 at most."""
_MEMORY = 1 << 20
"""Bytes for a compiled pattern."""


class PatternError(ValueError):
    """A text is no pattern, or more than one."""


@lru_cache(maxsize=100)
def _compiled(pattern: str) -> Any:
    if len(pattern) > LONGEST:
        raise PatternError(f"has {len(pattern)} characters, and {LONGEST} are the most")
    options = re2.Options()
    options.max_mem, options.log_errors = _MEMORY, False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        message = error.args[0] if error.args else error
        raise PatternError(message.decode(errors="replace") if isinstance(message, bytes) else str(message)) from None


def require_pattern(pattern: str) -> None:
    """
    Raises:
        PatternError: when it is none, with the reason.

    >>> require_pattern("(a)\\\\1")
    Traceback (most recent call last):
    streamapp.patterns.PatternError: invalid escape sequence: \\1
    """
    _compiled(pattern)


def matches(pattern: str, topic: str) -> bool:
    """Whether the whole name fits.

    >>> matches("(a+)+", "a" * 249), matches("orders-.*", "my-orders-1")
    (True, False)

    Raises:
        PatternError: when the pattern is none.
    """
    return _compiled(pattern).fullmatch(topic) is not None
