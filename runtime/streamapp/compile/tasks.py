# SPDX-License-Identifier: Apache-2.0
"""Which stateful nodes share a task, and how tasks read each other by internal topics.

A task has the rows of its keys in one place: nodes that go by the same key need no topic between them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass
class Tasks:
    """Tasks by the names of nodes in them; each name stands for the whole task. Two can become one, as long as neither
    reads the other by an internal topic: a task that reads its own output has no epoch to begin with."""

    _whole: dict[str, str] = field(default_factory=dict)
    _feeds: dict[str, set[str]] = field(default_factory=dict)
    """The readers by a topic of each task, or of another node with a shuffle, by its name."""

    def whole(self, name: str) -> str:
        """The one name that all names of a task lead to."""
        while (next_name := self._whole.get(name, name)) != name:
            name = next_name
        return name

    def unite(self, names: Iterable[str], name: str) -> str:
        """Makes these tasks one, with the node `name` in it."""
        for other in names:
            if (root := self.whole(other)) != self.whole(name):
                self._whole[self.whole(name)] = root
        return self.whole(name)

    def feed(self, source: str, reader: str) -> None:
        """Notes that `reader` reads the output of `source` by a topic."""
        self._feeds.setdefault(source, set()).add(reader)

    def leads(self, source: str, goal: str) -> bool:
        """Whether records get from one to the other by topics, or both are one."""
        goal = self.whole(goal)
        seen: set[str] = set()
        waiting = [self.whole(source)]
        while waiting:
            name = waiting.pop()
            if name == goal:
                return True
            if name not in seen:
                seen.add(name)
                waiting += [self.whole(r) for s, rs in self._feeds.items() if self.whole(s) == name for r in rs]
        return False

    def may_unite(self, names: Iterable[str], fed_by: Iterable[str]) -> bool:
        """Whether these can be one task, which reads the output of `fed_by` by topics."""
        roots = list(dict.fromkeys(map(self.whole, names)))
        apart = all(one == two or not self.leads(one, two) for one in roots for two in roots)
        return apart and not any(self.leads(root, source) for root in roots for source in fed_by)
