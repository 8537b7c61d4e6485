# SPDX-License-Identifier: Apache-2.0
"""The faults of an expression that the parser does not take."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sqlglot import exp
from sqlglot.errors import ParseError
from sqlglot.tokens import Token, TokenType

from streamapp.expressions import functions as fn
from streamapp.expressions.calls import calls_of
from streamapp.expressions.fault import Fault


def parse_faults(text: str, tokens: list[Token], error: ParseError) -> tuple[Fault, ...]:
    """The faults that the parser stumbled over, in the author's words."""
    return tuple(_foreign_operators(tokens)) or (_parse_fault(text, tokens, error),)


def _parse_fault(text: str, tokens: list[Token], error: ParseError) -> Fault:
    first = error.errors[0] if error.errors else {}
    column = int(first.get("col") or 0)
    near = str(first.get("highlight") or "").strip()
    description = str(first.get("description") or "")
    wrong_count = _argument_fault(tokens, column, description)
    if wrong_count is not None:
        return wrong_count
    if "Required keyword" in description or column >= len(text.rstrip()):
        where = (
            f"something is missing after `{text.strip()[-20:]}`"
            if column >= len(text.rstrip())
            else f"something is missing near `{near}`"
        )
    else:
        where = f"not understood near `{near}` (character {column})" if near else description.split(". Line")[0]
    return Fault(f"cannot be parsed as Spark SQL: {where}", "check brackets, quotes and operators")


_FOREIGN_OPERATORS = {
    "=<": "`<=`",
    "=>": "`>=`",
    "><": "`<>`",
    "===": "`=`",
    "!==": "`<>`",
    "&&": "`and`",
    ">>>": "shiftrightunsigned(value, bits)",
}
"""Operators of other languages, and of Spark's own newest grammar, that are not read here: what to write instead."""


def _foreign_operators(tokens: list[Token]) -> Iterator[Fault]:
    """Faults of runs of operator characters that only mean something elsewhere."""
    run, end = "", -1
    for token in [*tokens, None]:
        quoted = token is None or token.token_type in (TokenType.STRING, TokenType.RAW_STRING, TokenType.IDENTIFIER)
        mark = token is not None and not quoted and all(c in "=<>&!" for c in token.text)
        if token is not None and mark and token.start == end + 1:
            run += token.text
        else:
            if run in _FOREIGN_OPERATORS:
                yield Fault(f"`{run}` is no operator here", f"write {_FOREIGN_OPERATORS[run]}")
            run = token.text if token is not None and mark else ""
        end = token.end if token is not None else -1


def _argument_fault(tokens: list[Token], column: int, description: str) -> Fault | None:
    """The fault of a function with the wrong number of arguments. The parser checks these at the closing parenthesis,
    and calls a missing argument by the names of its own classes."""
    call = next((call for call in calls_of(tokens) if call.end == column - 1 and call.name in fn.KNOWN), None)
    if call is None:
        return None
    given = f"{call.arguments} given"
    most = re.search(r"maximum number of supported arguments \((\d+)\)", description)
    if most is not None:
        kind = exp.FUNCTION_BY_NAME.get(call.name.upper())
        least = _required(kind) if kind is not None else 0
        some = _arguments(int(most[1])) if least == int(most[1]) else f"at most {_arguments(int(most[1]))}"
        return Fault(f"`{call.name}` takes {some}, {given}", "remove what is too much")
    missing = re.search(r"missing for <class '[\w.]*?(\w+)'>", description)
    kind = getattr(exp, missing[1], None) if missing is not None else None
    if not (isinstance(kind, type) and issubclass(kind, exp.Func)):
        return None
    least = max(1, _required(kind))
    if call.arguments >= least:
        return None
    return Fault(f"`{call.name}` takes at least {_arguments(least)}, {given}", "add what is missing")


def _required(kind: type[exp.Func]) -> int:
    return sum(bool(needed) for needed in kind.arg_types.values())


def _arguments(count: int) -> str:
    return "1 argument" if count == 1 else f"{count} arguments"
