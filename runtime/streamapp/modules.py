# SPDX-License-Identifier: Apache-2.0
"""Python modules of the user's, as text: their names, and what stands in them. Nothing of them is run here,
and nothing is read in this process (module_names.py)."""

from __future__ import annotations

import json
import keyword
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable
from functools import lru_cache

from streamapp import module_names
from streamapp.errors import Invalid, near_miss

LONGEST_BYTES = 256 * 1024
"""The most bytes of a module as text."""
_PACK = "put it into the image, as a package, and call it from there"
_SECONDS = 15.0
"""The time for a module to be read; its process ends itself after less, unless the machine is very busy."""
_MOST_BYTES_OF_NAMES = 32 * 1024
"""The most bytes of a module's names. They are kept, and shown where a function is missing."""

_FUNCTION = re.compile(r"(?P<module>[^\W\d]\w*(?:\.[^\W\d]\w*)*):(?P<name>[^\W\d]\w*)")
_TAKEN = sys.stdlib_module_names | {
    *("bottleneck", "cloudpickle", "dateutil", "numexpr", "numpy", "pandas", "py4j", "pyarrow", "pyspark", "pytz"),
    *("six", "streamapp", "tzdata"),
}
"""Modules whose place a user's module of that name would take, for Spark's own Python too."""


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
    """The names that a module defines or imports, in order; None when they are not known, because it imports `*` or has
    a `__getattr__`, or defines more than anybody would want to read. A text is read once, also one that cannot be read.

    Raises:
        Invalid: when the text is no Python; with the line. When it is too long, or reading it takes too much.

    >>> names_of("import json\\ndef score(row): ...\\nrate = abs", "scoring.py")
    ('json', 'score', 'rate')
    >>> names_of("def score(row):\\nreturn row", "scoring.py")
    Traceback (most recent call last):
    streamapp.errors.Invalid: scoring.py, line 2: expected an indented block after function definition on line 1
    """
    size = len(text.encode(errors="surrogatepass"))
    if size > LONGEST_BYTES:
        raise Invalid(f"{file} has {size} bytes, and {LONGEST_BYTES} are the most", _PACK)
    found = _names_of(text)
    if isinstance(found, str):
        raise Invalid(f"{file}{found}", _PACK if found in (_TOO_SLOW, _TOO_LARGE) else None)
    return found


_TOO_SLOW, _TOO_LARGE = " takes too long to read", " takes too much memory to read"
_one_at_a_time = threading.Lock()


@lru_cache(maxsize=500)
def _names_of(text: str) -> tuple[str, ...] | str | None:
    """The same; or a text that says why there are none, to be put behind the file's name."""
    command = [sys.executable, "-I", "-S", module_names.__file__]
    with _one_at_a_time:
        try:
            done = subprocess.run(command, input=text.encode(errors="replace"), capture_output=True, timeout=_SECONDS)
        except subprocess.TimeoutExpired:
            return _TOO_SLOW
    if done.returncode == -signal.SIGXCPU or done.returncode == -signal.SIGKILL:
        return _TOO_SLOW
    if done.returncode != 0 or not done.stdout:
        return _TOO_LARGE
    answer = json.loads(done.stdout)
    if (problem := answer.get("problem")) is not None:
        if problem == "memory":
            return _TOO_LARGE
        line = answer["line"]
        return f", line {line}: {problem}" if line is not None else f" cannot be read as Python: {problem}"
    names = tuple(answer["names"])
    return None if {"*", "__getattr__"} & set(names) or len(done.stdout) > _MOST_BYTES_OF_NAMES else names


def without_function(name: str, known: Iterable[str]) -> str:
    """The fix for a name that a module does not have."""
    shown = [other for other in known if not other.startswith("_")]
    return near_miss(name, shown) or (f"there are: {', '.join(shown)}" if shown else f"write def {name}(…): …")
