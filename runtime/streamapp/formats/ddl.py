# SPDX-License-Identifier: Apache-2.0
"""Schemas as Spark writes them: `user STRING, amount DOUBLE, tags ARRAY<STRING>`.

Only what a schema in a manifest may say is read, so that a mistake is named here and not by the engine, at
run time.
"""

from __future__ import annotations

import re

from streamapp.errors import Invalid, near_miss

_SIMPLE = (
    "string",
    "boolean",
    "byte",
    "tinyint",
    "short",
    "smallint",
    "int",
    "integer",
    "long",
    "bigint",
    "float",
    "real",
    "double",
    "decimal",
    "dec",
    "numeric",
    "date",
    "timestamp",
    "timestamp_ltz",
    "timestamp_ntz",
    "binary",
    "variant",
)
_SAME = {
    "byte": "tinyint",
    "short": "smallint",
    "integer": "int",
    "long": "bigint",
    "real": "float",
    "dec": "decimal",
    "numeric": "decimal",
    "timestamp_ltz": "timestamp",
}
_TOKEN = re.compile(
    r"\s*(?:(?P<quoted>`(?:[^`]|``)+`)|(?P<text>'(?:[^'\\]|\\.)*')|(?P<word>[^\W\d]\w*)|(?P<number>\d+)|(?P<mark>[<>(),:]))"
)
_DEEPEST = 50
LONGEST = 32_768
EXAMPLE = "user STRING, amount DOUBLE"


def fields_of(ddl: str) -> tuple[tuple[str, str], ...]:
    """The top-level fields: (name, type), in order; types in lower case, one spelling for each.

    Raises:
        Invalid: when the text is no schema; the message says where.

    >>> fields_of("user STRING, `the amount` DECIMAL(10, 2) NOT NULL, tags ARRAY<LONG>")
    (('user', 'string'), ('the amount', 'decimal(10,2)'), ('tags', 'array<bigint>'))
    >>> fields_of("user STRNG")
    Traceback (most recent call last):
    streamapp.errors.Invalid: unknown type `STRNG` of field `user`; did you mean `STRING`?
    """
    if len(ddl) > LONGEST:
        raise Invalid(f"has {len(ddl):,} characters, and {LONGEST:,} are the most", "select fewer fields before")
    reader = _Reader(_tokens(ddl))
    fields = reader.fields(end="", depth=0)
    seen: dict[str, str] = {}
    for name, _ in fields:
        if name.lower() in seen:
            raise Invalid(f"field `{name}` is there twice", "the engine does not tell upper from lower case")
        seen[name.lower()] = name
    return fields


def with_readable_types(ddl: str) -> str | None:
    """The schema with STRING for each unknown type, so that its names can be used; None when more is wrong.

    >>> with_readable_types("user STRNG, amount DOUBLE")
    '`user` string, `amount` double'
    """
    try:
        fields = _Reader(_tokens(ddl), any_type=True).fields(end="", depth=0)
    except ValueError:
        return None
    return ", ".join(f"`{name.replace('`', '``')}` {kind}" for name, kind in fields)


def _tokens(ddl: str) -> list[str]:
    tokens = []
    position, text = 0, ddl.rstrip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise Invalid(f"cannot be read from `{text[position:].strip()[:40]}` on", f"write e.g. {EXAMPLE}")
        tokens.append(match[0].strip())
        position = match.end()
    return tokens


class _Reader:
    """Recursive descent over the tokens."""

    def __init__(self, tokens: list[str], any_type: bool = False) -> None:
        self._tokens = tokens
        self._any_type = any_type
        self._at = 0

    def fields(self, end: str, depth: int) -> tuple[tuple[str, str], ...]:
        found = [self._field(depth)]
        while self._peek() == ",":
            self._at += 1
            found.append(self._field(depth))
        self._expect(end)
        return tuple(found)

    def _field(self, depth: int) -> tuple[str, str]:
        token = self._next("a field's name")
        if token.startswith("`"):
            name = token[1:-1].replace("``", "`")
        elif token[0].isalpha() or token[0] == "_":
            name = token
        else:
            raise Invalid(f"expected a field's name and not `{token}`", f"write e.g. {EXAMPLE}")
        if name.startswith("__"):
            raise Invalid(f"field `{name}`: names that start with two underscores are the engine's own")
        if self._peek() == ":":
            self._at += 1
        kind = self._type(name, depth)
        if self._peek().lower() == "not":
            self._at += 1
            self._expect("null")
        if self._peek().lower() == "comment":
            self._at += 2
        return name, kind

    def _type(self, field: str, depth: int) -> str:
        if depth > _DEEPEST:
            raise Invalid(f"field `{field}`: types are nested more than {_DEEPEST} deep")
        word = self._next(f"the type of field `{field}`")
        kind = word.lower()
        if kind == "array":
            self._expect("<")
            element = self._type(field, depth + 1)
            self._expect(">")
            return f"array<{element}>"
        if kind == "map":
            self._expect("<")
            key = self._type(field, depth + 1)
            self._expect(",")
            value = self._type(field, depth + 1)
            self._expect(">")
            return f"map<{key},{value}>"
        if kind == "struct":
            self._expect("<")
            return "struct<" + ",".join(f"{n}:{t}" for n, t in self.fields(">", depth + 1)) + ">"
        if kind not in _SIMPLE and self._any_type and kind.isidentifier():
            return "string"
        if kind not in _SIMPLE:
            known = [name.upper() for name in (*_SIMPLE, "array", "map", "struct")]
            hint = near_miss(word, known) or "e.g. STRING, DOUBLE"
            raise Invalid(f"unknown type `{word}` of field `{field}`", f"{hint}")
        kind = _SAME.get(kind, kind)
        return kind + self._size() if kind == "decimal" else kind

    def _size(self) -> str:
        if self._peek() != "(":
            return "(10,0)"
        self._at += 1
        precision, scale = self._next("a precision"), "0"
        if self._peek() == ",":
            self._at += 1
            scale = self._next("a scale")
        self._expect(")")
        if not (precision.isdigit() and scale.isdigit() and int(scale) <= int(precision) <= 38 and int(precision) > 0):
            raise Invalid(f"decimal({precision},{scale}) is no type: at most 38 digits, e.g. decimal(10,2)")
        return f"({int(precision)},{int(scale)})"

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _next(self, expected: str) -> str:
        token = self._peek()
        if not token:
            raise Invalid(f"ends where {expected} is expected", f"write e.g. {EXAMPLE}")
        self._at += 1
        return token

    def _expect(self, wanted: str) -> None:
        token = self._peek()
        if token.lower() != wanted:
            seen = f"`{token}`" if token else "the end"
            raise Invalid(f"expected {f'`{wanted}`' if wanted else 'a comma'} and not {seen}", f"write e.g. {EXAMPLE}")
        self._at += 1
