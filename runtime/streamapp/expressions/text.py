# SPDX-License-Identifier: Apache-2.0
"""Expressions as text."""

from __future__ import annotations

import re

_PART = re.compile(
    r"""(?P<comment>--[^\n]*|/\*.*?\*/)
      | (?P<text>[Rr]'[^']*'|[Rr]"[^"]*"|[A-Za-z]?'(?:[^'\\]|\\.|'')*'|[A-Za-z]?"(?:[^"\\]|\\.|"")*")
      | `(?P<name>(?:[^`]|``)*)`
      | (?P<space>\s+)
      | (?P<word>\w+)
      | (?P<mark>.)""",
    re.VERBOSE | re.DOTALL,
)
_PLAIN = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def quote(name: str) -> str:
    """The name as an identifier, in backticks where it needs them.

    >>> quote("user"), quote("my-node")
    ('user', '`my-node`')
    """
    return name if _PLAIN.fullmatch(name) else "`" + name.replace("`", "``") + "`"


def normalise(expression: str) -> str:
    """The expression in one form: the same for expressions that only differ in space, comments, quotes of plain
    names, and case outside of quotes.

    It is our own and not the parser's, because fingerprints rest on it: they must not change with a library's
    version.

    >>> normalise("SUM( amount ) /* of all */ +1") == normalise("sum(`amount`)+ 1")
    True
    >>> normalise("concat('A  b', x)")
    "concat('A  b',x)"
    """
    parts: list[str] = []
    for match in _PART.finditer(expression):
        if match["comment"] is not None or match["space"] is not None:
            continue
        if match["text"] is not None:
            parts.append(match["text"])
        elif match["name"] is not None:
            plain = _PLAIN.fullmatch(match["name"])
            parts.append(match["name"].lower() if plain else "`" + match["name"].lower() + "`")
        else:
            parts.append(match[0].lower())
    # Two words side by side need their space back, and two texts; nothing else does.
    text = ""
    for part in parts:
        if text and _is_one_word(text[-1], part[0]):
            text += " "
        text += part
    return text


def _is_one_word(end: str, start: str) -> bool:
    """True when a text that ends so and one that starts so would be read as one without a space between them."""
    if end in "'\"":
        return end == start
    return (end.isalnum() or end == "_") and (start.isalnum() or start == "_")
