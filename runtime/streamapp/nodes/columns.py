# SPDX-License-Identifier: Apache-2.0
"""The columns of a node's output, as far as they are known without Spark: names, and what each is for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

RECORD_COLUMNS = ("key", "timestamp", "topic", "partition", "offset", "headers")
"""The columns of a record beside its value; expressions can use these until a value column of the same name shadows
them."""

HIDDEN_KEY = "__key"
"""The name of a record's own key where a value column named `key` shadows it: no expression can reach
it."""


@dataclass(frozen=True)
class Columns:
    """Three disjoint groups of names. Names are compared without regard to case, as Spark does.

    >>> Columns(("key",), ("value",), ("timestamp", "topic")).names
    ('key', 'value', 'timestamp', 'topic')
    """

    key: tuple[str, ...] = ()
    """The columns that make up the key, in order."""
    value: tuple[str, ...] = ()
    """The other columns of the value: a sink writes these by default."""
    meta: tuple[str, ...] = ()
    """The record's own columns that are still there: addressable, but a sink does not write them."""
    known: bool = True
    """False when something upstream could not be understood: other columns may exist."""

    @property
    def names(self) -> tuple[str, ...]:
        """Everything that an expression may use."""
        return (*self.key, *self.value, *self.meta)

    @property
    def fields(self) -> tuple[str, ...]:
        """The columns that came from values: without the record's own key, and without the rest of it."""
        return (*(name for name in self.key if name not in ("key", HIDDEN_KEY)), *self.value)

    @property
    def key_in_words(self) -> str:
        """The key's columns, for people."""
        if len(self.key) > 1:
            return "(" + ", ".join(self.key) + ")"
        return "key" if self.key == (HIDDEN_KEY,) else "".join(self.key)

    def find(self, name: str) -> str | None:
        """The column of that name as it is spelt here, or None."""
        return self._by_lowered.get(name.lower())

    @cached_property
    def _by_lowered(self) -> Mapping[str, str]:
        """The columns by their names in lower case. Each expression of a node asks for some: looking through all of
        them each time would be quadratic."""
        return {column.lower(): column for column in reversed(self.names)}

    def with_values(self, value: tuple[str, ...]) -> Columns:
        """The same key and record, another value."""
        shadowed = {name.lower() for name in value}
        keys = {name.lower() for name in self.key}
        plain_key = self.key == ("key",) and "key" in shadowed
        return Columns(
            key=(HIDDEN_KEY,) if plain_key else self.key,
            value=tuple(name for name in value if plain_key or name.lower() not in keys),
            meta=tuple(name for name in self.meta if name.lower() not in shadowed),
            known=self.known,
        )

    def with_added(self, added: tuple[str, ...]) -> Columns:
        """The same and more values; those of the same name are replaced, in their place."""
        new = {name.lower(): name for name in added}
        kept = [new.pop(name.lower(), name) for name in self.value]
        return self.with_values((*kept, *new.values()))

    def keyed_by(self, names: tuple[str, ...]) -> Columns:
        """The same columns under another key; the record's old key is no longer there."""
        keys = {name.lower() for name in names}
        # A former key column that came from the value is an ordinary column again.
        return Columns(
            key=names,
            value=tuple(name for name in self.fields if name.lower() not in keys),
            meta=tuple(name for name in self.meta if name.lower() not in keys),
            known=self.known,
        )


def with_event_time(key: tuple[str, ...], value: tuple[str, ...]) -> Columns:
    """The columns of a result: only the event time is left of a record's own; a column of that name hides it.

    >>> with_event_time(("user",), ("count",)).names
    ('user', 'count', 'timestamp')
    """
    hidden = "timestamp" in {name.lower() for name in (*key, *value)}
    return Columns(key, value, () if hidden else ("timestamp",))


def of_source(fields: tuple[str, ...]) -> Columns:
    """The columns of a topic whose value has these fields.

    >>> of_source(("user", "timestamp")).meta
    ('topic', 'partition', 'offset', 'headers')
    """
    return Columns(key=("key",), meta=RECORD_COLUMNS[1:]).with_values(fields)
