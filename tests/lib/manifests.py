# SPDX-License-Identifier: Apache-2.0
"""Manifests with mistakes as people make them: a good manifest, with a few changes that a seed chooses."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from typing import Any

Object = dict[str, Any]
Place = tuple[Any, Any]
"""A map or list, and a key or index of it."""

JUNK: tuple[Any, ...] = (
    None,
    "",
    " ",
    "?",
    "name",
    "split(value",
    "count(",
    "rand()",
    "5 minutes",
    "5 fortnights",
    "-1s",
    "$(POD_IP)",
    "{{ x }}",
    "../..",
    "a" * 300,
    "ä€😀",
    "yes",
    "1Gi",
    "-1",
    0,
    -1,
    1,
    2**31,
    2**63,
    0.5,
    1e300,
    True,
    False,
    [],
    {},
    [None],
    [[]],
    {"": ""},
    {"name": "x"},
    ["a", "a"],
    {"a": {"b": {"c": {"d": {}}}}},
)
"""Values that may stand anywhere."""
WORDS = (
    "spec",
    "name",
    "from",
    "stream",
    "table",
    "topic",
    "groupBy",
    "aggregate",
    "join",
    "merge",
    "to",
    "window",
    "grace",
    "emit",
    "store",
    "filter",
    "flatMap",
    "select",
    "key",
    "replicas",
    "autoscaling",
    "kafka",
    "executor",
    "driver",
    "suspend",
    "maxParallelism",
    "epochInterval",
    "transactionTimeout",
    "podTemplate",
    "resources",
    "run",
    "onBadRecord",
    "image",
    "odd",
)
"""Names of fields, and one that is not a field's."""


def broken(good: Object, chooser: random.Random) -> Object:
    """A copy in which some fields of the spec are missing, or replaced, or junk, or in another place. It may still be
    valid."""
    body = copy.deepcopy(good)
    for _ in range(chooser.choice((1, 1, 2, 4))):
        chooser.choice(_DEEDS)(body["spec"], chooser)
        if not isinstance(body["spec"], dict):
            break
    return body


def places(value: Any) -> Iterator[Place]:
    """All containers below a value, each with a key or index."""
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield value, key
        yield from places(value[key])


def _take_away(spec: Object, chooser: random.Random) -> None:
    holder, key = _any(spec, chooser)
    del holder[key]


def _junk(spec: Object, chooser: random.Random) -> None:
    holder, key = _any(spec, chooser)
    holder[key] = copy.deepcopy(chooser.choice(JUNK))


def _add(spec: Object, chooser: random.Random) -> None:
    holders = [spec, *(holder[key] for holder, key in places(spec) if isinstance(holder[key], dict))]
    chooser.choice(holders)[chooser.choice(WORDS)] = copy.deepcopy(chooser.choice(JUNK))


def _twice(spec: Object, chooser: random.Random) -> None:
    lists = [holder[key] for holder, key in places(spec) if isinstance(holder[key], list) and holder[key]]
    if lists:
        chosen = chooser.choice(lists)
        chosen.insert(chooser.randrange(len(chosen) + 1), copy.deepcopy(chooser.choice(chosen)))


def _shuffle(spec: Object, chooser: random.Random) -> None:
    for holder, key in list(places(spec)):
        if isinstance(holder[key], list):
            chooser.shuffle(holder[key])


def _swap(spec: Object, chooser: random.Random) -> None:
    """Puts a part of it where another one should be."""
    holder, key = _any(spec, chooser)
    other, where = _any(spec, chooser)
    holder[key] = copy.deepcopy(other[where])


def _misspell(spec: Object, chooser: random.Random) -> None:
    texts = [place for place in places(spec) if isinstance(place[0][place[1]], str) and place[0][place[1]]]
    if texts:
        holder, key = chooser.choice(texts)
        at = chooser.randrange(len(holder[key]))
        holder[key] = holder[key][:at] + chooser.choice("xq'( ") + holder[key][at + 1 :]


def _any(spec: Object, chooser: random.Random) -> Place:
    return chooser.choice(list(places(spec)) or [({"x": 0}, "x")])


_DEEDS: tuple[Callable[[Object, random.Random], None], ...] = (
    _take_away,
    _junk,
    _junk,
    _add,
    _twice,
    _shuffle,
    _swap,
    _misspell,
)
