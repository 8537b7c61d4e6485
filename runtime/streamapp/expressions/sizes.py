# SPDX-License-Identifier: Apache-2.0
"""Values whose size is written in the expression: a few characters may ask for gigabytes, of each record."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sqlglot.tokens import Token, TokenType

from streamapp.expressions.fault import Fault

MOST = 1_000_000
"""Characters or elements that a constant may ask for."""
_SIZE_AT = {"repeat": 1, "space": 0, "lpad": 1, "rpad": 1, "array_repeat": 1, "randstr": 0}
"""By function: which argument is the size of its result, or a factor of it."""
_SERIES = "sequence"
_FORMATS = ("format_string", "printf")
_WIDTH = re.compile(r"%[^%a-zA-Z]*?(\d{7,})")
_NUMBER = re.compile(r"([+-]?\d{1,30}(?:\.\d{0,30})?(?:[eE]\+?\d{1,3})?)(?:::[a-zA-Z]+)?")
_ENDLESS = 1e18
_FIX = f"{MOST:,} are the most"


def size_faults(tokens: list[Token]) -> Iterator[Fault]:
    """Constants that ask for more than MOST."""
    for at, token in enumerate(tokens[:-1]):
        name = token.text.lower()
        if tokens[at + 1].token_type != TokenType.L_PAREN or name not in (*_SIZE_AT, _SERIES, *_FORMATS):
            continue
        arguments = _arguments(tokens, at + 2)
        if (size := _asked(name, arguments)) > MOST:
            yield Fault(f"`{name}` asks for {size:,} elements or characters of each record", _FIX)


def _asked(name: str, arguments: list[list[Token]]) -> int:
    """0 where it depends on the record."""
    if name in _FORMATS:
        text = arguments[0][0].text if arguments and len(arguments[0]) == 1 else ""
        return max((int(width) for width in _WIDTH.findall(text)), default=0)
    numbers = [_number(argument) for argument in arguments]
    if name == _SERIES:
        known = [number for number in numbers if number is not None]
        if len(known) != len(numbers) or len(known) not in (2, 3):
            return 0
        first, last, step = (*known, 1)[:3]
        return abs(last - first) // max(1, abs(step)) + 1
    at = _SIZE_AT[name]
    return (numbers[at] or 0) if at < len(numbers) else 0


def _arguments(tokens: list[Token], start: int) -> list[list[Token]]:
    """The tokens of each argument of a call, from behind its parenthesis on."""
    found: list[list[Token]] = [[]]
    depth = 0
    for token in tokens[start:]:
        if token.token_type in (TokenType.L_PAREN, TokenType.L_BRACKET):
            depth += 1
        elif token.token_type in (TokenType.R_PAREN, TokenType.R_BRACKET):
            depth -= 1
            if depth < 0:
                break
        if depth == 0 and token.token_type == TokenType.COMMA:
            found.append([])
        else:
            found[-1].append(token)
    return found


def _number(argument: list[Token]) -> int | None:
    """A whole number that is written out, with a sign or a suffix or none: `1000`, `-5`, `10L`, `1e9`. The tokenizer
    writes a suffix as `::TYPE`."""
    found = _NUMBER.fullmatch("".join(token.text for token in argument))
    return int(min(max(float(found[1]), -_ENDLESS), _ENDLESS)) if found else None
