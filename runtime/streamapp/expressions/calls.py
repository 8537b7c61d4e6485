# SPDX-License-Identifier: Apache-2.0
"""The functions that an expression calls, from its tokens: by the names that the author wrote."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from sqlglot.tokens import Token, TokenType

from streamapp.errors import near_miss
from streamapp.expressions import functions as fn
from streamapp.expressions.fault import Fault


@dataclass(frozen=True)
class Call:
    """A function that is called."""

    name: str
    around: tuple[str, ...]
    """The functions it is inside of, outermost first."""
    qualified: bool
    end: int
    """Where its closing parenthesis is in the text; -1 when there is none."""
    arguments: int

    @property
    def is_sorted(self) -> bool:
        """Whether its result is put in an order at once."""
        return self.name in fn.SORTABLE and bool(self.around) and self.around[-1] in fn.SORTING


@dataclass
class _Open:
    """A parenthesis that is not closed yet, or a bracket."""

    name: str | None
    at: int
    """The call's place among the calls."""
    commas: int = 0


def calls_of(tokens: list[Token]) -> list[Call]:
    """The functions that are called, in the order of their names."""
    calls: list[Call] = []
    stack: list[_Open] = []
    for i, token in enumerate(tokens):
        if token.token_type in (TokenType.R_PAREN, TokenType.R_BRACKET):
            if stack:
                done = stack.pop()
                if done.name is not None:
                    empty = tokens[i - 1].token_type == TokenType.L_PAREN
                    calls[done.at] = replace(calls[done.at], end=token.end, arguments=0 if empty else done.commas + 1)
        elif token.token_type == TokenType.COMMA:
            if stack:
                stack[-1].commas += 1
        elif token.token_type == TokenType.L_BRACKET:
            stack.append(_Open(None, -1))
        elif token.token_type == TokenType.L_PAREN:
            name = _called(tokens[i - 1] if i else None)
            if name is not None:
                qualified = i > 1 and tokens[i - 2].token_type == TokenType.DOT
                around = tuple(one.name for one in stack if one.name is not None)
                calls.append(Call(name, around, qualified, -1, 0))
            stack.append(_Open(name, len(calls) - 1))
    return calls


def _called(token: Token | None) -> str | None:
    """The name of the function that a parenthesis after this token calls, or None: it only groups."""
    if token is None:
        return None
    name = token.text.lower()
    if token.token_type == TokenType.IDENTIFIER:  # in backticks it is always a name
        return name
    if token.token_type in (TokenType.STRING, TokenType.RAW_STRING, TokenType.NUMBER):
        return None
    if not (name[:1].isalpha() or name[:1] == "_"):
        return None
    if name in fn.NO_CALL and name not in fn.AGGREGATE:
        return None
    return name


def call_faults(calls: list[Call]) -> Iterator[Fault]:
    """Faults of functions that do not exist, or cannot be used where they are."""
    for call in calls:
        name = call.name
        if call.qualified:
            yield Fault(f"function `{name}` is called with a qualified name", "only built-in functions can be used")
        elif name in fn.FORBIDDEN:
            why, fix = fn.FORBIDDEN[name]
            yield Fault(f"function `{name}` cannot be used: {why}", fix)
        elif name in fn.GENERATOR:
            yield Fault(f"function `{name}` makes several rows of one", "use a flatMap node")
        elif name in fn.WINDOW:
            yield Fault(
                f"function `{name}` looks at neighbouring rows, and a stream has none",
                "use groupBy with a window",
            )
        elif name not in fn.KNOWN:
            yield Fault(
                f"unknown function `{name}`",
                near_miss(name, fn.KNOWN) or "only Spark's built-in functions can be used",
            )
        elif name == "collect_set" and not call.is_sorted:
            why = "its elements come in the order in which they lie in memory"
            yield Fault(f"function `{name}` cannot be used: {why}", "sort it, e.g. array_sort(collect_set(…))")
        elif name in fn.AGGREGATE and any(outer in fn.AGGREGATE for outer in call.around):
            yield Fault(
                f"aggregate function `{name}` is inside another",
                "aggregate in two nodes, one after the other",
            )
