# SPDX-License-Identifier: Apache-2.0
"""Texts of others, made fit for terminals, statuses and events; and their JSON, read without harm."""

from __future__ import annotations

import json
import re
from typing import Any

_UNSAFE = re.compile(
    "["
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters, but tab and the end of a line
    "\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"  # invisible, or they turn text around
    "\ud800-\udfff"  # halves of characters
    "]"
)


def plain(text: str) -> str:
    """The text, with characters that move the cursor, hide text or turn it around written out.

    >>> print(plain("a\\x1b[2Jb\\u202ec"))
    a\\x1b[2Jb\\u202ec
    >>> plain("Größe: 5 µs\\n\\t✓")
    'Größe: 5 µs\\n\\t✓'
    """
    return _UNSAFE.sub(lambda found: _written_out(ord(found[0])), text)


def _written_out(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def read_json(text: str | bytes, **options: Any) -> Any:
    """The value of a JSON text.

    >>> read_json("[" * 100_000)
    Traceback (most recent call last):
    ValueError: nested too deep

    Raises:
        ValueError: when it is none, also when it is nested too deep to be read.
    """
    try:
        return json.loads(text, **options)
    except RecursionError:
        raise ValueError("nested too deep") from None
