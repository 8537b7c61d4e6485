# SPDX-License-Identifier: Apache-2.0
"""Python modules of the user's, as text: their names, and what stands in them. Nothing of them is run here."""

from __future__ import annotations

import ast
import keyword
import re
import sys
from collections.abc import Iterable, Iterator

from streamapp.errors import Invalid, near_miss

_FUNCTION = re.compile(r"(?P<module>[^\W\d]\w*(?:\.[^\W\d]\w*)*):(?P<name>[^\W\d]\w*)")
_TAKEN = sys.stdlib_module_names | {
    *("bottleneck", "cloudpickle", "dateutil", "numexpr", "numpy", "pandas", "py4j", "pyarrow", "pyspark", "pytz"),
    *("six", "streamapp", "tzdata"),
}
"""Modules of which the user's would take the place, for Spark's own Python too."""


def split_function(text: str) -> tuple[str, str]:
    """Module and name of a function.

    Raises:
        Invalid: when the text is not of that form.

    >>> split_function("scoring:score")
    ('scoring', 'score')
    """
    found = _FUNCTION.fullmatch(text)
    if found is None:
        raise Invalid(f"'{text}' names no function", "write MODULE:FUNCTION, e.g. scoring:score")
    return found["module"], found["name"]


def require_file_name(file: str) -> None:
    """
    Raises:
        Invalid: when a file of that name is no module that could be imported, or one that would hide another.

    >>> require_file_name("json.py")
    Traceback (most recent call last):
    streamapp.errors.Invalid: 'json.py' would take the place of Python's own `json`; give it another name
    """
    name = file.removesuffix(".py")
    if name == file or not name.isidentifier() or keyword.iskeyword(name):
        raise Invalid(f"'{file}' is no name of a Python module", "write e.g. scoring.py")
    if name in _TAKEN:
        whose = "Python's own" if name in sys.stdlib_module_names else "the engine's"
        raise Invalid(f"'{file}' would take the place of {whose} `{name}`", "give it another name")


def names_of(text: str, file: str) -> tuple[str, ...] | None:
    """What a module defines or imports, in order; None when it cannot be told, because it imports `*` or has a
    `__getattr__`.

    Raises:
        Invalid: when the text is no Python; with the line.

    >>> names_of("import json\\ndef score(row): ...\\nrate = abs", "scoring.py")
    ('json', 'score', 'rate')
    >>> names_of("def score(row):\\nreturn row", "scoring.py")
    Traceback (most recent call last):
    streamapp.errors.Invalid: scoring.py, line 2: expected an indented block after function definition on line 1
    """
    try:
        found = list(_bound(ast.parse(text, file).body))
    except SyntaxError as error:
        raise Invalid(f"{file}, line {error.lineno}: {error.msg}") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise Invalid(f"{file} cannot be read as Python: {error}") from None
    return None if {"*", "__getattr__"} & set(found) else tuple(dict.fromkeys(found))


def without_function(name: str, known: Iterable[str]) -> str:
    """What to write instead of a name that a module has not."""
    shown = [other for other in known if not other.startswith("_")]
    return near_miss(name, shown) or (f"there are: {', '.join(shown)}" if shown else f"write def {name}(…): …")


def _bound(statements: Iterable[ast.stmt]) -> Iterator[str]:
    """Names that a module has after these statements. What is in a branch of an `if` or `try` counts."""
    for statement in statements:
        match statement:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield statement.name
            case ast.Import() | ast.ImportFrom():
                yield from ((alias.asname or alias.name).split(".")[0] for alias in statement.names)
            case ast.Assign():
                yield from _targets(statement.targets)
            case ast.AnnAssign() | ast.AugAssign():
                yield from _targets([statement.target])
            case ast.If() | ast.For() | ast.While():
                yield from _bound([*statement.body, *statement.orelse])
            case ast.With():
                yield from _bound(statement.body)
            case ast.Match():
                for each in statement.cases:
                    yield from _bound(each.body)
            case ast.Try() | ast.TryStar():
                yield from _bound([*statement.body, *statement.orelse, *statement.finalbody])
                for handler in statement.handlers:
                    yield from _bound(handler.body)
            case ast.Expr():
                yield from _targets([statement.value])
            case _:
                continue


def _targets(targets: Iterable[ast.expr]) -> Iterator[str]:
    for target in targets:
        for part in ast.walk(target):
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                yield part.id
