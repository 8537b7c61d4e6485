# SPDX-License-Identifier: Apache-2.0
"""Tells changes that a policy of the cluster makes to our objects from changes that somebody has made. Pure.

A mutating policy may rewrite a field that we name, each time that we apply it. Such an object differs from the wanted
one for as long as the policy stands, and to apply it again changes nothing. So the answer to server-side apply is
remembered, and an object that is still the same as in the answer is settled.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

from streamapp_operator.decide.drift import differences
from streamapp_operator.render.meta import Object

_OURS = ("annotations", "finalizers", "labels", "ownerReferences")
"""The fields of metadata that are compared. The rest is the API server's, and changes with each write."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """An object that was applied, and the object that the API server made of it, by their fingerprints."""

    wanted: str
    made: str


def accepted(wanted: Object, made: Object) -> Accepted | None:
    """The note to remember of an answer to server-side apply; None when the object is as it was wanted.

    >>> wanted = {"metadata": {"name": "x"}, "data": {"a": "1"}}
    >>> accepted(wanted, wanted) is None
    True
    >>> note = accepted(wanted, {"metadata": {"name": "x"}, "data": {"a": "2"}})
    >>> is_settled(note, wanted, {"metadata": {"name": "x", "resourceVersion": "7"}, "data": {"a": "2"}})
    True
    >>> is_settled(note, wanted, {"metadata": {"name": "x"}, "data": {"a": "3"}})
    False
    """
    if next(differences(wanted, made), None) is None:
        return None
    return Accepted(_fingerprint(wanted), _fingerprint(made))


def is_settled(note: Accepted | None, wanted: Object, found: Object) -> bool:
    """Whether an apply of the wanted object would leave the observed one as it is."""
    return note is not None and note == Accepted(_fingerprint(wanted), _fingerprint(found))


def _fingerprint(item: Object) -> str:
    metadata: Mapping[str, object] = item["metadata"]
    content = {key: value for key, value in item.items() if key not in ("apiVersion", "kind", "metadata", "status")}
    content["metadata"] = {key: metadata[key] for key in _OURS if key in metadata}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
