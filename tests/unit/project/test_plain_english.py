# SPDX-License-Identifier: Apache-2.0
"""Docstrings, comments and the manual keep the rules of the language."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

FOLDERS = ("benchmarks", "examples", "operator", "runtime", "tests")
BEGINNING = re.compile(r"^(Of|What|Who)\b")
ANYWHERE = re.compile(r"\b(is|are|was|were) (told|said)\b")
SCALA_COMMENT = re.compile(r"/\*\*?\s*(?P<block>.*?)\*/|//\s?(?P<line>[^\n]*)", re.DOTALL)
SCALA_TEXT = re.compile(r'"""(?:.|\n)*?"""|"(?:[^"\\\n]|\\.)*"')
HELP = {"benchmarks/__main__.py", "tests/cluster/__main__.py"}
"""The files whose module docstring is the help of a command."""


def of_python(source: str) -> Iterator[tuple[int, str]]:
    """The docstrings and comments of a Python file, with their lines."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value.strip()
    lines = ["", *(line.lstrip() for line in source.splitlines())]
    comments = (t for t in tokenize.generate_tokens(io.StringIO(source).readline) if t.type == tokenize.COMMENT)
    for token in comments:
        row = token.start[0]
        # Later lines of one comment may begin with any word.
        if not (lines[row].startswith("#") and lines[row - 1].startswith("#")):
            yield row, token.string.lstrip("# ")


def of_scala(source: str) -> Iterator[tuple[int, str]]:
    """The comments of a Scala file, with their lines."""
    bare = SCALA_TEXT.sub(lambda text: re.sub(r"[^\n]", "x", text[0]), source)
    for comment in SCALA_COMMENT.finditer(bare):
        text = comment["block"] or comment["line"] or ""
        yield bare.count("\n", 0, comment.start()) + 1, re.sub(r"(^|\n)\s*\* ?", r"\1", text).strip()


def offenders(root: Path, kind: str) -> Iterator[str]:
    """The places that break a rule."""
    files = (path for folder in FOLDERS for path in sorted((root / folder).rglob(f"*.{kind}")))
    for path in files:
        name = path.relative_to(root).as_posix()
        parts = (of_python if kind == "py" else of_scala)(path.read_text())
        for line, text in parts:
            if ANYWHERE.search(text) or (BEGINNING.search(text) and not (name in HELP and line == 2)):
                yield f"{name}:{line}: {text[:80]!r}"


@pytest.mark.parametrize("kind", ["py", "scala"])
def test_comments_are_plain(root: Path, kind: str) -> None:
    """Comments and docstrings begin with their subject, and name the one that tells or says something."""
    assert not list(offenders(root, kind))


def test_the_manual_is_plain(root: Path) -> None:
    """Quoted texts, and what lies between marks for generated tables, have their own tests."""
    found = []
    for path in sorted((root / "docs").rglob("*.md")):
        prose = re.sub(r"(?s)```.*?```|<!-- (\w[\w-]*) -->.*?<!-- /\1 -->|`[^`\n]*`|\"[^\"\n]*\"", "", path.read_text())
        found += [f"{path.name}: {hit[0]}" for hit in ANYWHERE.finditer(prose)]
    assert not found


def test_an_offender_is_found() -> None:
    """Each kind of text is looked at."""
    python = '"""Of a row."""\n# Who reads it.\nname = "Of a string"  # What it is.\n'
    assert [line for line, text in of_python(python) if BEGINNING.search(text)] == [1, 2, 3]
    scala = '/**\n * Of a row.\n */\nval name = "// Of a text" // Who reads it.\n'
    assert [line for line, text in of_scala(scala) if BEGINNING.search(text)] == [1, 4]
