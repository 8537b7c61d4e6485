# SPDX-License-Identifier: Apache-2.0
"""The check of an expression's characters, before any parser reads it.

Two parsers read an expression: ours and Spark's. They must see the same words and the same texts in quotes, or what one
has checked is not what the other runs. So everything that parsers take apart in different ways is refused here:
comments, hints, templates, characters that are not seen, letters of other alphabets outside of quotes. A text in quotes
begins and ends here where it does for Spark's lexer, and `agree` compares this with our parser's view.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator

from sqlglot.tokens import Token, TokenType

from streamapp.expressions.fault import Fault

_PART = re.compile(
    r"""(?P<quoted>[Rr]'[^']*'|[Rr]"[^"]*"
          |'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"
          |`(?:[^`]|``)*`)
      | (?P<number>(?:[0-9]+(?:[.][0-9]*)?|[.][0-9]+)(?:[Ee][+-]?[0-9]+)?(?:[Bb][Dd]|[LlSsYyFfDd])?)(?![A-Za-z0-9_])
      | (?P<word>[A-Za-z0-9_]+)
      | (?P<comment>--|/\*|\*/)
      | (?P<space>[ \t\r\n]+)
      | (?P<mark>[][(),.+*/%<>=!&|^~:?;-])
      | (?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)
_INVISIBLE = ("Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp")
"""Unicode's categories of characters that are not seen or that move others."""
_QUOTED = (
    TokenType.STRING,
    TokenType.RAW_STRING,
    TokenType.HEX_STRING,
    TokenType.NATIONAL_STRING,
    TokenType.IDENTIFIER,
)


def character_faults(text: str) -> tuple[Fault, ...]:
    """The faults of characters that no expression may hold; each fault once.

    >>> character_faults("a + 1")
    ()
    >>> character_faults("a -- twice")
    (Fault(message='holds a comment, `--`', fix='write comments in the YAML, after `#`'),)
    """
    return tuple(dict.fromkeys(_faults(text)))


def _faults(text: str) -> Iterator[Fault]:
    for match in _PART.finditer(text):
        found = match[0]
        if match["comment"] is not None:
            yield Fault(f"holds a comment, `{found}`", "write comments in the YAML, after `#`")
        elif match["quoted"] is not None:
            yield from (_invisible(c) for c in found if not _is_seen(c))
        elif match["word"] is not None:
            if found[0].isdigit():
                yield Fault(f"holds `{found}`, which is no number", "put a name in backticks, and spaces around words")
        elif match["other"] is None:
            continue
        elif found in "'\"`":
            place = match.start() + 1
            yield Fault(
                f"cannot be read as an expression: the quote {found} at character {place} is not closed",
                f"close it with another {found}",
            )
            return  # what follows is inside of it
        elif not _is_seen(found):
            yield _invisible(found)
        elif found.isascii():
            yield Fault(f"holds `{found}`, which no expression has", "check quotes and operators")
        else:
            yield Fault(f"holds `{found}` outside of quotes", "put a name in backticks, and a text in quotes")


def _is_seen(character: str) -> bool:
    return character in " \t\r\n" or unicodedata.category(character) not in _INVISIBLE


def _invisible(character: str) -> Fault:
    code = ord(character)
    escape = f"\\u{code:04X}" if code < 0x10000 else f"\\U{code:08X}"
    return Fault(f"holds the character U+{code:04X}, which is not seen", f"remove it, or write {escape} in the text")


def agree(text: str, tokens: Iterable[Token]) -> bool:
    """True when the parser's tokens have their quotes where Spark has them.

    Args:
        text: without `character_faults`.
        tokens: what our parser makes of it.
    """
    theirs: list[tuple[int, int]] = []
    for token in tokens:
        if token.token_type not in _QUOTED:
            continue
        # Two quotes inside a text are one to Spark, and to our parser an end and a beginning.
        if theirs and theirs[-1][1] == token.start and text[token.start] == text[token.start - 1]:
            theirs[-1] = (theirs[-1][0], token.end + 1)
        else:
            theirs.append((token.start, token.end + 1))
    return theirs == [_span(text, match) for match in _PART.finditer(text) if match["quoted"] is not None]


def _span(text: str, match: re.Match[str]) -> tuple[int, int]:
    """A hexadecimal text's letter is a part of it to our parser, and a word of its own to Spark: it means the same."""
    start, end = match.span()
    is_hexadecimal = text[start] == "'" and text[max(0, start - 1) : start] in ("x", "X")
    alone = start < 2 or not (text[start - 2].isalnum() or text[start - 2] == "_")
    return (start - 1 if is_hexadecimal and alone else start, end)
