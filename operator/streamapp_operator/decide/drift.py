# SPDX-License-Identifier: Apache-2.0
"""Finds the fields of a wanted object that are different in the observed one.

Fields that the wanted object does not name are the API server's defaults, or somebody else's, and are left alone. A
field that is no longer wanted shows in the fingerprint, which is an annotation of every object we make.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from streamapp_operator.quantities import same_quantity

_WHOLE = ("selector", "podSelector", "matchLabels", "subjects", "rules", "ingress", "egress")
"""Fields that are ours as a whole, however deep: an addition changes the meaning of a selector, or the rights of an
account. The API server adds nothing to them by itself, and an apply takes the place of all that was there."""
_FALSE_IS_SOMETHING = ("automountServiceAccountToken", "allowPrivilegeEscalation", "enableServiceLinks")
"""Fields that the API server keeps when they are false, as they would be true otherwise. It leaves out other false
fields."""


def differences(wanted: Any, observed: Any, path: str = "") -> Iterator[str]:
    """Paths at which the observed object is not as wanted.

    >>> list(differences({"a": 1, "b": {"c": "1000m"}}, {"a": 2, "b": {"c": "1", "d": 3}}))
    ['a']
    >>> list(differences({"env": [{"name": "x", "value": "1"}]}, {"env": [{"name": "y"}, {"name": "x", "value": "2"}]}))
    ['env[x].value']
    >>> list(differences({"subjects": [{"name": "x"}]}, {"subjects": [{"name": "x"}, {"name": "y"}]}))
    ['subjects']
    >>> list(differences({"rules": [{"verbs": ["get"]}]}, {"rules": [{"verbs": ["get"], "resourceNames": ["x"]}]}))
    ['rules']
    """
    if path.rpartition(".")[2] in _WHOLE and _has_more(wanted, observed):
        yield path
    elif isinstance(wanted, dict) and isinstance(observed, dict):
        for key, value in wanted.items():
            yield from differences(value, observed.get(key), f"{path}.{key}" if path else key)
    elif isinstance(wanted, list) and isinstance(observed, list):
        yield from _of_lists(wanted, observed, path)
    elif wanted != observed and not _is_nothing(wanted, observed, path) and not same_quantity(wanted, observed):
        yield path


def _of_lists(wanted: list[Any], observed: list[Any], path: str) -> Iterator[str]:
    names = [item.get("name") if isinstance(item, dict) else None for item in wanted]
    if wanted and None not in names and len(set(names)) == len(names):
        found = {item.get("name"): item for item in observed if isinstance(item, dict)}
        for name, item in zip(names, wanted, strict=True):
            yield from differences(item, found.get(name), f"{path}[{name}]")
    elif len(wanted) != len(observed):
        yield path
    else:
        for i, (one, other) in enumerate(zip(wanted, observed, strict=True)):
            yield from differences(one, other, f"{path}[{i}]")


def _has_more(wanted: Any, observed: Any) -> bool:
    """Whether there is something in the observed one, at whatever depth, that the wanted one does not name."""
    if isinstance(wanted, dict) and isinstance(observed, dict):
        return any(key not in wanted or _has_more(wanted[key], value) for key, value in observed.items())
    if isinstance(wanted, list) and isinstance(observed, list):
        return len(observed) > len(wanted) or any(map(_has_more, wanted, observed))
    return False


def _is_nothing(wanted: Any, observed: Any, path: str) -> bool:
    """Whether the value is empty: the API server leaves it out then."""
    if wanted is False and path.rpartition(".")[2] in _FALSE_IS_SOMETHING:
        return False
    return observed is None and wanted in ("", [], {}, False)
