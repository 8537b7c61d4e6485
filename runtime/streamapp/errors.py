# SPDX-License-Identifier: Apache-2.0
"""Errors, in the user's words: which node, which field, which value, and what to write instead."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

_LONGEST_VALUE = 120


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong with a manifest.

    >>> print(Problem("joined", "within", None, "`within` is missing", "add e.g. within: 5 minutes"))
    node 'joined': `within` is missing; add e.g. within: 5 minutes
    >>> print(Problem("words", "filter", "lenght(word)", "no function `lenght`", "use `length`", 7))
    node 'words': `filter`: no function `lenght` (in "lenght(word)"); use `length` (line 7)
    """

    node: str | None
    """Name of the node; None when it is about the manifest as a whole."""
    field: str | None
    """The field, in the manifest's spelling (dotted below a node); None when it is about the whole node."""
    value: str | None
    """The value seen, as text; None when there is none."""
    message: str
    """The mistake."""
    fix: str | None
    """The fix: an instruction for the user."""
    line: int | None = None
    """Line of the manifest's text, counted from 1; None when the manifest was not a text."""

    def __str__(self) -> str:
        text = f"node '{self.node}': " if self.node is not None else ""
        if self.field is not None and f"`{self.field}`" not in self.message:
            text += f"`{self.field}`: "
        text += self.message
        if self.value is not None and self.value not in self.message:
            text += f' (in "{shorten(self.value)}")'
        if self.fix is not None:
            text += f"; {self.fix}"
        if self.line is not None:
            text += f" (line {self.line})"
        return " ".join(text.split())


class Invalid(ValueError):
    """A text that is not what it should be.

    >>> str(Invalid("'x; y' is no name", "write e.g. z"))
    "'x; y' is no name; write e.g. z"
    """

    def __init__(self, message: str, fix: str | None = None) -> None:
        super().__init__(message if fix is None else f"{message}; {fix}")
        self.message = message
        self.fix = fix


class StreamAppError(Exception):
    """Any error of ours that a user should read as one line. `exit_code` is the command line's."""

    exit_code: int = 1
    cause: str = "InputError"
    """The cause, as one stable word: InputError, DataError, CodeError, StateLost or Infrastructure."""


class InputError(StreamAppError):
    """A wrong input of the user's: a file, an option, an address."""


class DataError(InputError):
    """A record that cannot be taken."""

    cause = "DataError"


class CodeError(InputError):
    """An expression or a function of the user's that fails at a record."""

    cause = "CodeError"


class ManifestError(StreamAppError):
    """A manifest that cannot be run; `problems` has everything that is wrong with it.

    `unchecked` names the nodes that could not be checked in full before these problems are solved.
    """

    def __init__(self, problems: Iterable[Problem], unchecked: Iterable[str] = ()) -> None:
        self.problems: tuple[Problem, ...] = tuple(problems)
        self.unchecked: tuple[str, ...] = tuple(unchecked)
        super().__init__("\n".join(str(problem) for problem in self.problems))

    def left_open(self, besides: str = "") -> str | None:
        """A sentence on the parts that could not be checked before these problems are solved; None when there are none.

        >>> ManifestError([], ["counts", "out"]).left_open()
        '2 nodes could not be checked in full before this is right: counts, out'
        >>> ManifestError([]).left_open(besides="types")
        'types could not be checked before this is right'
        """
        when = "before this is right"
        if not self.unchecked:
            return f"{besides} could not be checked {when}" if besides else None
        count, names = len(self.unchecked), ", ".join(self.unchecked)
        nodes = "1 node" if count == 1 else f"{count} nodes"
        if besides:
            return f"{besides} could not be checked {when}, nor {nodes} in full: {names}"
        return f"{nodes} could not be checked in full {when}: {names}"


class RunError(StreamAppError):
    """The run failed: the broker, the engine, or another owner of the same application."""

    exit_code = 3
    cause = "Infrastructure"


class LossError(RunError):
    """Records are gone before they were read."""

    cause = "DataError"


class StateLost(RunError):
    """State or positions are lost: Kafka's topics of the app are not as they are on record."""

    cause = "StateLost"


def shorten(value: str) -> str:
    """The value on one line, cut where it is too long to be read."""
    line = " ".join(value.split())
    return line if len(line) <= _LONGEST_VALUE else line[: _LONGEST_VALUE - 1] + "…"


def near_miss(word: str, known: Iterable[str]) -> str | None:
    """A question that names the known word that was probably meant, or None.

    >>> near_miss("fliter", ["filter", "select"])
    'did you mean `filter`?'
    >>> near_miss("zzz", ["filter", "select"]) is None
    True
    """
    candidates = list(known)
    lowered = {candidate.lower(): candidate for candidate in reversed(candidates)}
    close = difflib.get_close_matches(word.lower(), lowered, n=1, cutoff=0.6)
    return f"did you mean `{lowered[close[0]]}`?" if close else None
