# SPDX-License-Identifier: Apache-2.0
"""A program: what a Python module defines or imports. It reads the module's text, and writes JSON.

Python's parser takes as much time and memory as a hostile text asks for. So it runs here, in a process of its own with
bounds, and never in one that others depend on. This file imports nothing but Python's own modules, and starts in some
20 ms.
"""

from __future__ import annotations

import ast
import contextlib
import json
import resource
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

MEMORY_BYTES = 128 * 1024 * 1024
"""The bound on address space. The operator's container has room for it."""
CPU_SECONDS = 5


def names_of(text: str) -> dict[str, object]:
    """
    Returns:
        `names`, in order; or `line` and `problem`.
    """
    try:
        return {"names": list(dict.fromkeys(_bound(ast.parse(text).body)))}
    except SyntaxError as error:
        return {"line": error.lineno, "problem": error.msg}
    except (ValueError, RecursionError) as error:
        return {"line": None, "problem": str(error)}


def _bound(statements: Iterable[ast.stmt]) -> Iterator[str]:
    """Names that a module has after these statements. Names in a branch of an `if` or `try` count."""
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


def _bounded() -> None:
    with contextlib.suppress(ValueError, OSError):  # macOS has no bound on address space
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    with contextlib.suppress(OSError):  # where memory ends all the same, this process is the one to go
        Path("/proc/self/oom_score_adj").write_text("1000")


if __name__ == "__main__":
    _bounded()
    try:
        answer = names_of(sys.stdin.buffer.read().decode())
    except MemoryError:
        answer = {"line": None, "problem": "memory"}
    sys.stdout.write(json.dumps(answer))
