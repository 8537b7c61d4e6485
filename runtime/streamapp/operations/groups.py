# SPDX-License-Identifier: Apache-2.0
"""The builder's step between `group_by` and the node that is made of the groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, Self, TypeVar

from streamapp.operations.steps import ColumnMap, Steps, given

S = TypeVar("S", bound=Steps)


@dataclass(frozen=True)
class Groups(Generic[S]):
    """Records in groups, waiting for `aggregate`, `reduce`, `top` or `cogroup`."""

    flow: S
    name: str
    by: tuple[str | dict[str, str], ...]
    windows: Mapping[str, str] | None = None
    grace: str | None = None
    retention: str | None = None
    late: str | None = None

    def window(
        self,
        *,
        tumbling: str | None = None,
        hopping: str | None = None,
        every: str | None = None,
        session: str | None = None,
        sliding: str | None = None,
        grace: str | None = None,
        retention: str | None = None,
        late: str | None = None,
    ) -> Self:
        """Groups in windows of event time; `late` is the topic of late records.

        >>> from streamapp.builder import StreamBuilder
        >>> clicks = StreamBuilder("app").stream("clicks", topic="clicks").group_by("sessions", "key")
        >>> counts = clicks.window(session="30 minutes", grace="1 minute").aggregate(clicks="count(*)")
        >>> counts.builder.build().spec.topology[1].window.session
        '30 minutes'
        """
        windows = given(tumbling=tumbling, hopping=hopping, every=every, session=session, sliding=sliding)
        return replace(self, windows=windows, grace=grace, retention=retention, late=late)

    def reduce(
        self,
        columns: ColumnMap | None = None,
        /,
        *,
        store: str | None = None,
        emit: str | None = None,
        ttl: str | None = None,
        **more: str,
    ) -> S:
        """A table with the records of each group folded one into the next: `acc.column` is the value so far, and a
        group begins with its first record. A column called `store`, `emit` or `ttl` goes into the map.

        >>> from streamapp.builder import StreamBuilder
        >>> bids = StreamBuilder("app").stream("bids", topic="bids").group_by("best", "key")
        >>> bids.reduce(value="greatest(acc.value, value)").builder.build().spec.topology[1].reduce
        {'value': 'greatest(acc.value, value)'}
        """
        found: S = self.flow._then(
            self.name, **self._fields(), reduce={**(columns or {}), **more}, emit=emit, ttl=ttl, store=store
        )
        return found

    def top(
        self, rows: int, *, by: str, store: str | None = None, emit: str | None = None, ttl: str | None = None
    ) -> S:
        """A table with so many rows of each group, those in which `by` is highest, as an array of structs `top`.

        >>> from streamapp.builder import StreamBuilder
        >>> scores = StreamBuilder("app").stream("scores", topic="scores", value="long").group_by("best", "key")
        >>> scores.top(3, by="value").builder.build().spec.topology[1].top.rows
        3
        """
        found: S = self.flow._then(
            self.name, **self._fields(), top={"rows": rows, "by": by}, emit=emit, ttl=ttl, store=store
        )
        return found

    def cogroup(
        self,
        columns: ColumnMap,
        *others: tuple[Steps, ColumnMap],
        store: str | None = None,
        emit: str | None = None,
        ttl: str | None = None,
    ) -> S:
        """One table of several streams: these aggregates of this one, and those of each of the others.

        >>> from streamapp.builder import StreamBuilder
        >>> b = StreamBuilder("app")
        >>> orders = b.stream("orders", topic="orders")
        >>> clicks = b.stream("clicks", topic="clicks").group_by("activity", "key")
        >>> both = clicks.cogroup({"clicks": "count(*)"}, (orders, {"orders": "count(*)"}))
        >>> [part.from_ for part in b.build().spec.topology[2].cogroup]
        ['clicks', 'orders']
        """
        parts: tuple[tuple[Steps, ColumnMap], ...] = ((self.flow, columns), *others)
        found: S = self.flow._beside(
            self.name,
            **self._fields(),
            cogroup=[{"from": flow.name, "aggregate": dict(aggregates)} for flow, aggregates in parts],
            emit=emit,
            ttl=ttl,
            store=store,
        )
        return found

    def aggregate(
        self,
        columns: ColumnMap | None = None,
        /,
        *,
        store: str | None = None,
        emit: str | None = None,
        ttl: str | None = None,
        **more: str,
    ) -> S:
        """A table with these aggregates. A column called `store`, `emit` or `ttl` goes into the map."""
        found: S = self.flow._then(
            self.name,
            **self._fields(),
            aggregate={**(columns or {}), **more},
            emit=emit,
            ttl=ttl,
            store=store,
        )
        return found

    def _fields(self) -> dict[str, Any]:
        """The groups and their windows, as fields of the manifest."""
        return {
            "groupBy": list(self.by),
            "window": dict(self.windows) if self.windows is not None else None,
            "grace": self.grace,
            "retention": self.retention,
            "late": {"topic": self.late} if self.late is not None else None,
        }
