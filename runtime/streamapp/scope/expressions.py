# SPDX-License-Identifier: Apache-2.0
"""Expressions in their place: do they parse, do their columns exist, do they aggregate where they should."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from streamapp.errors import Problem, near_miss
from streamapp.expressions import Expression, read_expression
from streamapp.expressions.functions import WITHOUT_PARENTHESES
from streamapp.nodes import Columns

_MOST_SHOWN = 200
"""Columns that are compared with an unknown one, and listed."""


def check_expression(
    node: str,
    field: str,
    text: str,
    columns: Columns,
    *,
    aggregate: bool = False,
    groups: tuple[str, ...] = (),
) -> Iterator[Problem]:
    """Problems of an expression over one input.

    Args:
        aggregate: it must make one value of many records; otherwise it must not.
        groups: with `aggregate`, the columns that may stand outside of aggregate functions.
    """
    expression = read_expression(text)
    yield from faults(node, field, expression)
    if columns.known:
        yield from _check_columns(node, field, expression, columns, groups)
    if expression.faults:
        return
    yield from _check_aggregation(node, field, expression, aggregate)
    if aggregate and expression.aggregate:
        lowered = {name.lower() for name in groups}
        for parts in expression.bare_columns:
            if parts[0].lower() not in lowered and (not columns.known or columns.find(parts[0])):
                yield Problem(
                    node,
                    field,
                    text,
                    f"column `{parts[0]}` is neither in `groupBy` nor inside an aggregate function",
                    f"write e.g. max({parts[0]}), or add it to groupBy",
                )


def check_joined_expression(
    node: str, field: str, text: str, sides: Mapping[str, Columns], *, whole: bool = True
) -> Iterator[Problem]:
    """Problems of an expression over two inputs, whose columns are written NODE.column.

    Args:
        whole: False when one of the sides is not there: a column that the other does not have may be in that one.
    """
    expression = read_expression(text)
    yield from faults(node, field, expression)
    if expression.faults:
        return
    yield from _check_aggregation(node, field, expression, aggregate=False)
    for parts in expression.columns:
        side = _find(parts[0], tuple(sides))
        if side is None or len(parts) < 2:
            owners = [name for name, columns in sides.items() if columns.find(parts[0])]
            if not whole and not owners:
                continue
            if side is None and len(parts) > 1 and not owners:
                yield Problem(
                    node,
                    field,
                    text,
                    f"`{parts[0]}` is neither side of the join",
                    near_miss(parts[0], sides) or f"there are: {', '.join(sides)}",
                )
                continue
            fix = f"write {owners[0]}.{parts[0]}" if owners else near_miss(parts[0], sides)
            yield Problem(
                node,
                field,
                text,
                f"column `{parts[0]}` does not say which side it is of",
                fix or "write " + " or ".join(f"{name}.column" for name in sides),
            )
        elif sides[side].known and sides[side].find(parts[1]) is None:
            yield _unknown_column(
                node, field, text, parts[1], sides[side].names, f"node '{side}' has no column `{parts[1]}`"
            )


def faults(node: str, field: str, expression: Expression) -> Iterator[Problem]:
    """An expression's own faults, as problems of a node."""
    for fault in expression.faults:
        yield Problem(node, field, expression.text, fault.message, fault.fix)


def require_deterministic(node: str, field: str, text: str, why: str, fix: str) -> Iterator[Problem]:
    """A problem when the expression gives another answer each time."""
    expression = read_expression(text)
    if not expression.faults and not expression.deterministic:
        yield Problem(node, field, text, f"is not deterministic: {why}", fix)


def _check_aggregation(node: str, field: str, expression: Expression, aggregate: bool) -> Iterator[Problem]:
    if aggregate and not expression.aggregate:
        yield Problem(
            node,
            field,
            expression.text,
            "is no aggregate",
            "use an aggregate function, e.g. count(*), sum(amount)",
        )
    elif not aggregate and expression.aggregate:
        yield Problem(
            node,
            field,
            expression.text,
            "aggregates, and this expression sees one record",
            "use groupBy with aggregate",
        )


def _check_columns(
    node: str, field: str, expression: Expression, columns: Columns, groups: tuple[str, ...]
) -> Iterator[Problem]:
    for name in dict.fromkeys(parts[0] for parts in expression.columns):
        known = columns.find(name) or _find(name, groups)
        if known is None and not name.startswith("__") and name.lower() not in WITHOUT_PARENTHESES:
            names = tuple(dict.fromkeys((*columns.names, *groups)))
            problem = _unknown_column(node, field, expression.text, name, names, f"unknown column `{name}`")
            if name in expression.compared and near_miss(name, names) is None:
                problem = replace(problem, fix=f"{problem.fix}; a text is written in single quotes, '{name}'")
            yield problem


def _unknown_column(node: str, field: str, text: str, name: str, names: tuple[str, ...], message: str) -> Problem:
    shown = [known for known in names if not known.startswith("__")]
    if len(shown) > _MOST_SHOWN:
        return Problem(node, field, text, message, f"there are {len(shown):,} columns, and none of that name")
    return Problem(node, field, text, message, near_miss(name, shown) or f"there are: {', '.join(shown)}")


def _find(name: str, names: tuple[str, ...]) -> str | None:
    lowered = name.lower()
    return next((known for known in names if known.lower() == lowered), None)
