# SPDX-License-Identifier: Apache-2.0
"""A question about the state of a running app, and its form as a path of the live interface:

/stores/NAME?limit=N                           any rows, N at most
/stores/NAME/KEY, /stores/NAME?key=A&key=B     of one key, with a value for each of its columns
…?windowFrom=TIME&windowTo=TIME                of windows that begin in that range, the end excluded
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from streamapp.errors import InputError

PREFIX = "/stores"
LIMIT = 100
MOST_ROWS = 10_000
_FIELDS = ("key", "limit", "windowFrom", "windowTo")


@dataclass(frozen=True)
class Question:
    """A question: which rows of which store."""

    store: str
    key: tuple[str, ...] = ()
    """A text for each column of the key; none: whatever the key is."""
    window_from: datetime | None = None
    window_to: datetime | None = None
    """The end of the range, itself excluded."""
    limit: int = LIMIT
    """The most rows."""

    @property
    def path(self) -> str:
        """
        >>> Question("counts", ("be",), limit=5).path
        '/stores/counts?key=be&limit=5'
        """
        fields = [("key", each) for each in self.key]
        fields += [("windowFrom", self.window_from.isoformat())] if self.window_from else []
        fields += [("windowTo", self.window_to.isoformat())] if self.window_to else []
        fields += [("limit", str(self.limit))] if self.limit != LIMIT else []
        return f"{PREFIX}/{quote(self.store, safe='')}" + (f"?{urlencode(fields)}" if fields else "")


def question_of(path: str) -> Question:
    """
    >>> question_of("/stores/counts/to%20be").key
    ('to be',)

    Raises:
        InputError: when a part of it cannot be read.
    """
    url = urlsplit(path)
    store, slash, key = url.path.removeprefix(f"{PREFIX}/").partition("/")
    fields = parse_qsl(url.query, keep_blank_values=True)
    unknown = next((name for name, _ in fields if name not in _FIELDS), None)
    if unknown is not None:
        raise InputError(f"there is no parameter '{unknown}'; there are {', '.join(_FIELDS)}")
    keys = tuple(value for name, value in fields if name == "key")
    if slash and keys:
        raise InputError("the key stands in the path and in the parameter 'key'; say it once")
    once = {}
    for name, value in fields:
        if name != "key" and name in once:
            raise InputError(f"'{name}' is there twice")
        once[name] = value
    return Question(
        store=unquote(store),
        key=(unquote(key),) if slash else keys,
        window_from=moment_of(once["windowFrom"], "windowFrom") if "windowFrom" in once else None,
        window_to=moment_of(once["windowTo"], "windowTo") if "windowTo" in once else None,
        limit=limit_of(once.get("limit", str(LIMIT))),
    )


def limit_of(text: str) -> int:
    """
    Raises:
        InputError: when it is no number of rows that may be asked for.
    """
    limit = int(text) if text.isdecimal() and len(text) < 10 else 0
    if not 1 <= limit <= MOST_ROWS:
        raise InputError(f"limit '{text}' is not a whole number from 1 to {MOST_ROWS}")
    return limit


def moment_of(text: str, field: str) -> datetime:
    """Without a zone it is UTC.

    Raises:
        InputError: when it is no timestamp.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InputError(f"{field} '{text}' is no timestamp; write e.g. 2024-01-31T00:00:00Z") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
