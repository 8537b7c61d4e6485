# SPDX-License-Identifier: Apache-2.0
"""Reads one expression. Function names are taken from its tokens, as the author wrote them; columns from its
tree."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.tokens import Token, TokenType

from streamapp.expressions import functions as fn
from streamapp.expressions.calls import call_faults, calls_of
from streamapp.expressions.characters import agree, character_faults
from streamapp.expressions.fault import Fault
from streamapp.expressions.sizes import size_faults
from streamapp.expressions.unparsable import parse_faults
from streamapp.expressions.words import word_faults

# The parser warns of what it would not translate to other dialects; we only read.
logging.getLogger("sqlglot").setLevel(logging.ERROR)

LONGEST = 20_000
DEEPEST = 200
"""Spark's own parser and optimiser recurse; these keep far from the ends of their stacks."""

_NO_EXPRESSION = (
    exp.Query,
    exp.DDL,
    exp.DML,
    exp.Command,
    exp.Alias,
    exp.Aliases,
    exp.Describe,
    exp.Show,
    exp.Use,
    exp.Set,
    exp.Alter,
    exp.Drop,
    exp.Create,
    exp.Cache,
    exp.Uncache,
    exp.Refresh,
    exp.Pragma,
    exp.Kill,
    exp.Comment,
)

_NESTED_TYPES = ("array", "map", "struct")
_QUERY = (exp.Query, exp.Table, exp.Values, exp.UDTF, exp.Describe, exp.Command, exp.DDL, exp.DML)


@dataclass(frozen=True)
class Expression:
    """The facts about an expression. When `faults` is not empty, the rest may be incomplete."""

    text: str
    columns: tuple[tuple[str, ...], ...] = ()
    """Columns as they are written, by their dotted parts: `a.b` may be a field of column `a`, or column `b`
    of node `a`."""
    bare_columns: tuple[tuple[str, ...], ...] = ()
    """The columns outside of every aggregate function."""
    compared: tuple[str, ...] = ()
    """The columns that something is compared with, by their plain name."""
    functions: tuple[str, ...] = ()
    """Names of the functions called, in lower case."""
    ordered: tuple[str, ...] = ()
    """The called functions whose result depends on the order of the records."""
    counts_distinct: bool = False
    """Whether it counts different values: `count(distinct …)`."""
    is_column: bool = False
    """True when it is one column and nothing else."""
    faults: tuple[Fault, ...] = ()

    @property
    def aggregate(self) -> bool:
        """True when it makes one value of many records."""
        return any(name in fn.AGGREGATE for name in self.functions)

    @property
    def aggregates(self) -> frozenset[str]:
        """Names of the aggregate functions called, in lower case."""
        return fn.AGGREGATE.intersection(self.functions)

    @property
    def deterministic(self) -> bool:
        """True when the same record always gives the same value."""
        return not any(name in fn.NON_DETERMINISTIC for name in self.functions)

    @property
    def clock(self) -> str | None:
        """A function that it calls which says the time of the epoch."""
        return next((name for name in self.functions if name in fn.CLOCK), None)


_INSTEAD = {
    "now": "current_timestamp()",
    "today": "current_date()",
    "tomorrow": "current_date() + 1",
    "yesterday": "current_date() - 1",
}
"""For each word for a time an expression that means the same, and has the same value when an epoch is run again."""


@lru_cache(maxsize=4096)
def read_expression(text: str) -> Expression:
    """Reads an expression; its mistakes are in its `faults`. Never raises.

    >>> found = read_expression("sum(amount) + rand()")
    >>> found.columns, found.aggregate, found.deterministic
    ((('amount',),), True, False)
    >>> read_expression("lenght(word) > 3").faults
    (Fault(message='unknown function `lenght`', fix='did you mean `length`?'),)
    """
    if not text.strip():
        return Expression(text, faults=(Fault("is empty", "write a Spark SQL expression"),))
    if len(text) > LONGEST:
        return Expression(
            text[:100],
            faults=(Fault(f"is longer than {LONGEST:,} characters", "split it over several nodes"),),
        )
    strange = character_faults(text)
    if strange:
        return Expression(text, faults=strange)
    try:
        tokens = sqlglot.tokenize(text, read="spark")
        if not agree(text, tokens):
            return Expression(text, faults=(Fault("can be read in two ways", "check its quotes"),))
        if _nesting(tokens) > DEEPEST:
            return _too_deep(text)
        if any(token.token_type == TokenType.SEMICOLON for token in tokens):
            return Expression(text, faults=(Fault("holds a `;`", "write one expression"),))
        calls = calls_of(tokens)
        tree = sqlglot.parse_one(text, read="spark")
        if _depth(tree) > DEEPEST * 5:
            return _too_deep(text)
    except RecursionError:
        return _too_deep(text)
    except ParseError as error:
        return Expression(text, faults=(*parse_faults(text, tokens, error), *call_faults(calls)))
    except SqlglotError as error:
        reason = str(error).splitlines()[0].rstrip(".")
        return Expression(
            text, faults=(Fault(f"cannot be read as an expression: {reason}", "check quotes and brackets"),)
        )
    except Exception as error:  # the parser is not ours: whatever it does, a manifest must not bring us down
        return Expression(text, faults=(Fault(f"cannot be read as an expression ({type(error).__name__})", None),))
    columns, bare = _columns(tree)
    names = {call.name for call in calls}
    faults = [*call_faults(calls), *size_faults(tokens), *word_faults(tokens), *_tree_faults(tree, names)]
    return Expression(
        text,
        columns=columns,
        bare_columns=bare,
        compared=_compared(tree),
        functions=tuple(dict.fromkeys(call.name for call in calls)),
        ordered=tuple(
            dict.fromkeys(call.name for call in calls if call.name in fn.ORDER_SENSITIVE and not call.is_sorted)
        ),
        counts_distinct=any(isinstance(count.this, exp.Distinct) for count in tree.find_all(exp.Count)),
        is_column=isinstance(tree, exp.Column) and len(tree.parts) == 1,
        faults=tuple(dict.fromkeys(faults)),
    )


def _columns(tree: exp.Expr) -> tuple[tuple[tuple[str, ...], ...], tuple[tuple[str, ...], ...]]:
    """All columns, and those outside of aggregate functions. From the top, so that it takes linear time."""
    columns: set[tuple[str, ...]] = set()
    bare: set[tuple[str, ...]] = set()
    waiting: list[tuple[exp.Expr, bool]] = [(tree, False)]
    while waiting:
        node, inside = waiting.pop()
        if isinstance(node, exp.Column):
            if not node.is_star:
                parts = tuple(part.name for part in node.parts)
                columns.add(parts)
                if not inside:
                    bare.add(parts)
            continue
        inside = inside or _aggregates(node)
        waiting.extend((child, inside) for child in node.iter_expressions())
    # The parser's order of visiting is its own affair.
    return tuple(sorted(columns)), tuple(sorted(bare))


def _compared(tree: exp.Expr) -> tuple[str, ...]:
    sides = (side for node in tree.find_all(exp.EQ, exp.NEQ, exp.In, exp.Like) for side in node.iter_expressions())
    return tuple(sorted({side.name for side in sides if isinstance(side, exp.Column) and len(side.parts) == 1}))


def _aggregates(node: exp.Expr) -> bool:
    """True when everything below the node is about many records: `sum(…)`, and the condition of its `filter
    (where …)`."""
    if isinstance(node, exp.AggFunc | exp.Any | exp.WithinGroup | exp.Where):
        return True
    if isinstance(node, exp.Anonymous):
        return node.name.lower() in fn.AGGREGATE
    return isinstance(node, exp.Func) and any(name.lower() in fn.AGGREGATE for name in node.sql_names())


def _tree_faults(tree: exp.Expr, called: set[str]) -> Iterator[Fault]:
    """The faults of the structure; `call_faults` has those of the functions called."""
    if isinstance(tree, exp.Alias | exp.Aliases):
        yield Fault(
            "gives the expression a name (`AS`)",
            "the name is the key before the colon; write the expression only",
        )
    elif isinstance(tree, _NO_EXPRESSION):
        yield Fault("is a statement and not an expression", "write the expression only")
    for node in tree.walk():
        reported: frozenset[str] = frozenset()
        if isinstance(node, exp.UDTF):
            reported = fn.GENERATOR
        elif isinstance(node, exp.Window):
            reported = fn.WINDOW
        if called & reported:
            continue
        if isinstance(node, _QUERY) and not isinstance(tree, _NO_EXPRESSION):
            yield Fault("holds a query; an expression sees one record", "use a join node")
        elif isinstance(node, exp.Alias) and isinstance(node.parent, exp.Paren):
            # `(table t)` is a query to Spark, and a named column to this parser.
            yield Fault(f"`{node.this.sql()} {node.alias}` is no expression", "check brackets and operators")
        elif isinstance(node, exp.Window):
            yield Fault(
                "uses OVER, which looks at neighbouring rows, and a stream has none",
                "use groupBy with a window",
            )
        elif (
            isinstance(node, exp.Distinct)
            and isinstance(node.parent, exp.AggFunc | exp.Anonymous)
            and not isinstance(node.parent, exp.Count)
        ):
            yield Fault("aggregates DISTINCT values, which only `count` does", "groupBy the values first")
        elif isinstance(node, exp.Star) and not (isinstance(node.parent, exp.Count) or node.parent is None):
            yield Fault("uses `*` for all columns", "name the columns")
        elif isinstance(node, exp.Star) and node.parent is None:
            yield Fault("is `*`", "name one column")
        elif isinstance(node, exp.Interval) and not _has_length(node):
            yield Fault("an interval is a number and a unit", "write e.g. interval 5 minutes")
        elif isinstance(node, exp.Cast) and (word := _moving_time(node)):
            yield Fault(
                f"`{word}` as a time is when Spark plans an epoch, another one when the epoch is run again",
                f"write {_INSTEAD[word]}",
            )
        elif isinstance(node, exp.Placeholder | exp.Parameter | exp.SessionParameter):
            yield Fault("holds a parameter marker, and there are no parameters", "write the value")
        elif isinstance(node, exp.Column) and any(part.name.startswith("__") for part in node.parts):
            name = next(part.name for part in node.parts if part.name.startswith("__"))
            yield Fault(f"column `{name}`: names that start with two underscores are the engine's own")


def _has_length(interval: exp.Interval) -> bool:
    """True for a text alone, or a number with a unit."""
    value = interval.this
    while isinstance(value, exp.Neg) and interval.args.get("unit") is not None:
        value = value.this
    return isinstance(value, exp.Literal) and (value.is_string or interval.args.get("unit") is not None)


def _moving_time(cast: exp.Expr) -> str | None:
    """The word in `timestamp 'now'` and its kin, which Spark turns into the time of its clock."""
    kind = cast.args.get("to")
    value = cast.this
    if not (isinstance(kind, exp.DataType) and kind.is_type(*exp.DataType.TEMPORAL_TYPES)):
        return None
    if not (isinstance(value, exp.Literal) and value.is_string):
        return None
    words = value.name.lower().split()
    return words[0] if words and words[0] in _INSTEAD else None


def _nesting(tokens: list[Token]) -> int:
    opening = {
        TokenType.L_PAREN,
        TokenType.L_BRACKET,
        TokenType.L_BRACE,
        TokenType.CASE,
        TokenType.NOT,
        TokenType.DASH,
    }
    closing = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END}
    level = deepest = run = types = 0
    for before, token in zip([None, *tokens], tokens, strict=False):
        # Types are read by trying, which takes long when they are deep.
        if token.token_type == TokenType.LT and before is not None and before.text.lower() in _NESTED_TYPES:
            types += 4
        if token.token_type in opening:
            if token.token_type in (TokenType.NOT, TokenType.DASH):
                run += 1
            else:
                level += 1
        else:
            run = 0
            if token.token_type in closing:
                level = max(0, level - 1)
        deepest = max(deepest, level + run, types)
    return deepest


def _depth(tree: exp.Expr) -> int:
    deepest = 0
    waiting: list[tuple[exp.Expr, int]] = [(tree, 1)]
    while waiting:
        node, depth = waiting.pop()
        deepest = max(deepest, depth)
        waiting.extend((child, depth + 1) for child in node.iter_expressions())
    return deepest


def _too_deep(text: str) -> Expression:
    return Expression(text, faults=(Fault("is nested too deep to be read", "split it over several `with` nodes"),))
