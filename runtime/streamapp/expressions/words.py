# SPDX-License-Identifier: Apache-2.0
"""Words that our parser takes for grammar where Spark takes them for the name of a column: they are refused there."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot.tokens import Token, TokenType

from streamapp.expressions.fault import Fault

_QUOTED = (TokenType.STRING, TokenType.RAW_STRING, TokenType.HEX_STRING, TokenType.IDENTIFIER)
_FOLLOWED: dict[str, str] = {
    **dict.fromkeys(("any", "some", "all", "isnull", "notnull"), "("),
    **dict.fromkeys(("array", "map", "struct"), "(<"),
}
"""The characters that may follow the word: one of them must."""


def word_faults(tokens: list[Token]) -> Iterator[Fault]:
    """Faults of words that stand where Spark has no such grammar.

    Args:
        tokens: of the whole expression.
    """
    for before, token, after in zip([None, *tokens], tokens, [*tokens[1:], None], strict=False):
        if token.token_type in _QUOTED or (before is not None and before.token_type == TokenType.DOT):
            continue
        if not _fits(token.text.lower(), _text(before), after):
            yield Fault(
                f"`{token.text}` is not understood where it stands",
                "check what is before and after it, and put the name of a column in backticks",
            )


def _fits(word: str, before: str, after: Token | None) -> bool:
    following = _text(after)
    if word in _FOLLOWED:
        return following[:1] in tuple(_FOLLOWED[word])
    if word in ("as", "in"):
        return following not in ("", ")", ",")
    if word == "distinct":
        return before in ("(", "is", "not")
    if word == "not":
        return not before or before in ("->", "=>", "(", "[", ",") or before[0].isalnum() or before[0] in "_)]'"
    if word == "interval":
        return following in ("+", "-", "'") or following[:1].isdigit() or following[:1] == "."
    return True


def _text(token: Token | None) -> str:
    """The token as it is written, in lower case; a quote for one in quotes."""
    if token is None:
        return ""
    return "'" if token.token_type in _QUOTED else token.text.lower()
