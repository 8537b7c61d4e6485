# SPDX-License-Identifier: Apache-2.0
"""YAML text to plain data as `kubectl` reads it, remembering where each value stood and how it was written."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import yaml

from streamapp.errors import Problem
from streamapp.manifest.scalars import plain_value

Path = tuple[str | int, ...]

MOST_BYTES = 1_048_576
"""The most bytes of a manifest as text: no object of a cluster is larger."""
_LARGEST = 100_000
"""The most values in one manifest; aliases of aliases can make a short text very large."""
_DEEPEST = 100
_PLAIN = "plain"
"""Tag of a word without quotes and without a tag of its own."""
_PLAIN_TAGS = {
    _PLAIN,
    "tag:yaml.org,2002:str",
    "tag:yaml.org,2002:null",
    "tag:yaml.org,2002:bool",
    "tag:yaml.org,2002:int",
    "tag:yaml.org,2002:float",
    "tag:yaml.org,2002:map",
    "tag:yaml.org,2002:seq",
}


@dataclass
class Document:
    """The data, and for each path into it the line and the text of scalars."""

    data: Any = None
    lines: dict[Path, int] = field(default_factory=dict)
    written: dict[Path, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    """Problems of the text as a whole; the faults below are about one place in it."""
    faults: list[tuple[Path, str, str | None, int]] = field(default_factory=list)
    """Path, message, fix and line."""
    cut: set[Path] = field(default_factory=set)
    """Paths to values of which YAML has taken a part for something else: they do not say what was meant."""

    def line(self, path: Path) -> int | None:
        """The line of a path, or of the nearest thing around it."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path)


class _TooLarge(Exception):
    pass


class _Loader(yaml.SafeLoader):
    """A loader that leaves the meaning of words without quotes to us."""


_Loader.yaml_implicit_resolvers = {None: [(_PLAIN, re.compile(""))]}


def read_text(text: str) -> Document:
    """Reads one YAML document. Mistakes in the YAML itself are in the result's `problems`; never
    raises."""
    document = Document()
    if (size := len(text.encode(errors="surrogatepass"))) > MOST_BYTES:
        message = f"the text has {size:,} bytes, and {MOST_BYTES:,} are the most"
        document.problems.append(Problem(None, None, None, message, "make several apps of it"))
        return document
    try:
        roots = list(yaml.compose_all(text, Loader=_Loader))
    except yaml.YAMLError as error:
        document.problems.append(_open_quote(text, error) or _yaml_problem(error))
        return document
    except RecursionError:
        document.problems.append(Problem(None, None, None, "the text is nested too deep", None))
        return document
    if not roots:
        document.problems.append(Problem(None, None, None, "the manifest is empty", "start from one of the examples"))
        return document
    if len(roots) > 1:
        line = roots[1].start_mark.line + 1
        document.problems.append(
            Problem(
                None,
                None,
                None,
                "there are several documents in one file",
                "keep one StreamApp in a file",
                line,
            )
        )
    try:
        document.data = _Builder(document, text).build(roots[0], (), 0)
    except _TooLarge as error:
        document.problems.append(Problem(None, None, None, str(error), None))
        document.data = None
    return document


class _Builder:
    def __init__(self, document: Document, text: str) -> None:
        self._document = document
        self._text = text
        self._constructor = yaml.SafeLoader("")
        self._count = 0

    def build(self, node: yaml.Node, path: Path, depth: int) -> Any:
        self._count += 1
        if self._count > _LARGEST:
            raise _TooLarge(f"the manifest has more than {_LARGEST:,} values")
        if depth > _DEEPEST:
            raise _TooLarge(f"the manifest is nested more than {_DEEPEST} deep, or holds itself by an alias")
        line = node.start_mark.line + 1
        self._document.lines.setdefault(path, line)
        if node.tag not in _PLAIN_TAGS:
            self._problem(path, f"tag `{_short(node.tag)}` cannot be used", "write the plain value", line)
            return None
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path, depth)
        if isinstance(node, yaml.SequenceNode):
            return [self.build(item, (*path, i), depth + 1) for i, item in enumerate(node.value)]
        assert isinstance(node, yaml.ScalarNode)
        self._document.written[path] = node.value
        if "\0" in node.value:
            self._problem(path, "the text holds a zero character", "remove it", line)
            return ""
        if node.tag == _PLAIN:
            return plain_value(node.value)
        try:
            return self._constructor.construct_object(node)
        except (yaml.YAMLError, ValueError, OverflowError):
            return node.value

    def _mapping(self, node: yaml.MappingNode, path: Path, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key_node, value_node, end in _whole(self._pairs(node, path, depth)):
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                self._problem(path, "a key is a map or a list", "use a name", line)
                continue
            key = key_node.value
            value = self.build(key_node, (*path, key), depth + 1)
            if not isinstance(value, str):
                self._problem(
                    (*path, key),
                    f"the key `{key}` is read by YAML as {rendered(value)}",
                    f"write it in quotes: '{key}'",
                    line,
                )
            if key in found:
                self._problem((*path, key), f"the key `{key}` is there twice", "keep one", line)
                continue
            self._document.lines[(*path, key)] = line
            found[key] = self.build(value_node, (*path, key), depth + 1)
            if end is not None:
                meant = self._text[value_node.start_mark.index : end]
                self._document.cut.add((*path, key))
                self._problem(
                    (*path, key),
                    "is cut off at a comma: inside { } a comma ends a value that is not in quotes",
                    f"write {key}: {quoted(meant)}",
                    line,
                )
        return found

    def _pairs(self, node: yaml.MappingNode, path: Path, depth: int) -> Iterator[tuple[yaml.Node, yaml.Node]]:
        for key_node, value_node in node.value:
            if key_node.tag == _PLAIN and key_node.value == "<<":
                self._problem(
                    path,
                    "merge keys (`<<`) cannot be used: clusters do not read them",
                    "write the fields out",
                    key_node.start_mark.line + 1,
                )
            else:
                yield key_node, value_node

    def _problem(self, path: Path, message: str, fix: str | None, line: int) -> None:
        self._document.faults.append((path, message, fix, line))


def _whole(pairs: Iterable[tuple[yaml.Node, yaml.Node]]) -> Iterator[tuple[yaml.Node, yaml.Node, int | None]]:
    """Keys and values; and, of a value that a comma has cut in pieces, where in the text the last of them ends.

    YAML takes the further pieces for keys without a colon, and they are left out.
    """
    waiting: tuple[yaml.Node, yaml.Node, int | None] | None = None
    for key, value in pairs:
        has_colon = not value.start_mark.index == value.end_mark.index == key.end_mark.index
        if waiting is not None and not has_colon and _is_plain(waiting[1]):
            waiting = (waiting[0], waiting[1], key.end_mark.index)
            continue
        if waiting is not None:
            yield waiting
        waiting = (key, value, None)
    if waiting is not None:
        yield waiting


def _is_plain(node: yaml.Node) -> bool:
    """True for a text without quotes."""
    return isinstance(node, yaml.ScalarNode) and node.style is None and node.value != ""


def dotted(path: Path) -> str:
    """A path as people write it.

    >>> dotted(("spec", "topology", 2, "name"))
    'spec.topology[2].name'
    """
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else ("." if text else "") + part
    return text


def rendered(value: object) -> str:
    """A value of the wrong kind, as a message has it."""
    if value is None:
        return "nothing"
    if isinstance(value, str):
        return f"'{value}'"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return f"the number {value}"
    if isinstance(value, dict):
        return "a map"
    if isinstance(value, list | tuple):
        return "a list"
    return f"the date {value}"


def quoted(text: str) -> str:
    """The text as a YAML string, in the quotes that it does not hold itself.

    >>> print(quoted("a, b"), quoted("split(a, ' ')"))
    'a, b' "split(a, ' ')"
    """
    if "'" in text and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return "'" + text.replace("'", "''") + "'"


def _short(tag: str) -> str:
    return tag.replace("tag:yaml.org,2002:", "!!")


def _open_quote(text: str, error: yaml.YAMLError) -> Problem | None:
    """The quote that is missing its end, where it opened; None when it is another mistake.

    A quote that is not closed ends at the next one, some lines later, and what follows there is the parser's complaint.
    """
    where = getattr(error, "problem_mark", None)
    opened: yaml.Mark | None = None
    if isinstance(error, yaml.MarkedYAMLError) and error.context == "while scanning a quoted scalar":
        opened = where = error.context_mark
    if where is None:
        return None
    with suppress(yaml.YAMLError, RecursionError):
        for token in yaml.scan(text, Loader=_Loader):
            if token.start_mark.index >= where.index:
                break
            is_quoted = isinstance(token, yaml.ScalarToken) and token.style in ("'", '"')
            if is_quoted and token.start_mark.line < token.end_mark.line == where.line:
                opened = token.start_mark
    if opened is None:
        return None
    message = "is not YAML: a quote opens here and is not closed"
    return Problem(None, None, None, message, "close it, or write a text of several lines with `|`", opened.line + 1)


def _yaml_problem(error: yaml.YAMLError) -> Problem:
    if isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        text = ", ".join(part for part in (error.problem, error.context) if part)
        fix = "check the indentation, and quote expressions with `:` or `#`"
        if "'\\t'" in text:
            fix = "write spaces instead of tabs"
        elif "flow" in text:
            fix = "inside { } and [ ] put expressions in quotes: they must not hold `,` `:` `#` or brackets otherwise"
        return Problem(None, None, None, f"is not YAML: {text}", fix, mark.line + 1 if mark else None)
    return Problem(None, None, None, f"is not YAML: {' '.join(str(error).split())}", None)
