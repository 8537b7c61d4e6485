# SPDX-License-Identifier: Apache-2.0
"""Values whose size is written in the expression: a few characters may ask for gigabytes, for each record."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot.tokens import Token, TokenType

from streamapp.expressions.fault import Fault

MOST = 1_000_000
"""Characters or elements that constants may ask for."""
_SIZE_AT = {"repeat": 1, "space": 0, "lpad": 1, "rpad": 1, "array_repeat": 1, "randstr": 0}
"""By function: which argument is the size of its result, or a factor of it."""
_SERIES = "sequence"
_FORMATS = ("format_string", "printf")
_WIDTH = re.compile(r"%[^%a-zA-Z]*?(\d{7,})")
_NUMBER = re.compile(r"([+-]?\d{1,30}(?:\.\d{0,30})?(?:[eE]\+?\d{1,3})?)(?:::[a-zA-Z]+)?")
_LONG_UNITS = "day|week|month|quarter|year"
_UNIT = re.compile(rf"({_LONG_UNITS}|hour|minute|second|millisecond|microsecond)s?", re.IGNORECASE)
_LONG_STEP = re.compile(rf"interval.*({_LONG_UNITS})", re.IGNORECASE)
_ENDLESS = 1e18
_OPEN = (TokenType.L_PAREN, TokenType.L_BRACKET)
_CLOSED = (TokenType.R_PAREN, TokenType.R_BRACKET)


@dataclass(frozen=True)
class _Sized:
    """A call whose result is as large as it says."""

    name: str
    start: int
    end: int
    """The place of its closing parenthesis among the tokens; `start` is that of its name."""
    size: int | None
    """The size that it asks for; 1 where it depends on the record; None where it is constant, but cannot be read."""


def size_faults(tokens: list[Token]) -> Iterator[Fault]:
    """Faults of calls that ask for more than MOST, alone or inside each other, or compute their size of constants."""
    found = list(_sized(tokens))
    for call in found:
        if call.size is None:
            yield Fault(
                f"`{call.name}` has a size that is computed of constants",
                "write it as a number" if call.name != _SERIES else "write numbers, or a step of a day or more",
            )
            continue
        around = (other.size or 1 for other in found if other.start < call.start and call.end <= other.end)
        if (size := call.size * math.prod(around)) > MOST:
            yield Fault(
                f"`{call.name}` asks for {size:,} elements or characters of each record", f"{MOST:,} are the most"
            )


def _sized(tokens: list[Token]) -> Iterator[_Sized]:
    for at, token in enumerate(tokens[:-1]):
        name = token.text.lower()
        if tokens[at + 1].token_type == TokenType.L_PAREN and name in (*_SIZE_AT, _SERIES, *_FORMATS):
            arguments, end = _arguments(tokens, at + 2)
            yield _Sized(name, at, end, _asked(name, arguments))


def _asked(name: str, arguments: list[list[Token]]) -> int | None:
    if name in _FORMATS:
        text = arguments[0][0].text if arguments and len(arguments[0]) == 1 else ""
        return max((int(width) for width in _WIDTH.findall(text)), default=1)
    if name != _SERIES:
        at = _SIZE_AT[name]
        return _size(arguments[at]) if at < len(arguments) else 1
    if any(map(_is_of_the_record, arguments)) or len(arguments) not in (2, 3):
        return 1
    numbers = [number for number in map(_number, arguments) if number is not None]
    if len(numbers) == len(arguments):
        first, last, step = (*numbers, 1)[:3]
        return abs(last - first) // max(1, abs(step)) + 1
    step_text = " ".join(token.text for token in arguments[-1])
    return 1 if len(arguments) == 2 or _LONG_STEP.search(step_text) else None


def _size(argument: list[Token]) -> int | None:
    if _is_of_the_record(argument):
        return 1
    number = _number(argument)
    return None if number is None else max(1, number)


def _is_of_the_record(argument: list[Token]) -> bool:
    """Whether it names a column, or a variable of a lambda's: a name that is not called, and no unit of an interval."""
    if argument and argument[0].token_type == TokenType.INTERVAL:
        argument = [token for token in argument if _UNIT.fullmatch(token.text) is None]
    names = (TokenType.VAR, TokenType.IDENTIFIER)
    followers = [*(token.token_type for token in argument[1:]), None]
    return any(
        token.token_type in names and then != TokenType.L_PAREN for token, then in zip(argument, followers, strict=True)
    )


def _arguments(tokens: list[Token], start: int) -> tuple[list[list[Token]], int]:
    """The tokens of each argument of a call, from behind its parenthesis on, and where that is closed."""
    found: list[list[Token]] = [[]]
    depth = 0
    for at, token in enumerate(tokens[start:], start):
        depth += (token.token_type in _OPEN) - (token.token_type in _CLOSED)
        if depth < 0:
            return found, at
        if depth == 0 and token.token_type == TokenType.COMMA:
            found.append([])
        else:
            found[-1].append(token)
    return found, len(tokens)


def _number(argument: list[Token]) -> int | None:
    """A whole number that is written out, with a sign or a suffix or none: `1000`, `-5`, `10L`, `1e9`. The tokenizer
    writes a suffix as `::TYPE`."""
    found = _NUMBER.fullmatch("".join(token.text for token in argument).strip("()"))
    return int(min(max(float(found[1]), -_ENDLESS), _ENDLESS)) if found else None
