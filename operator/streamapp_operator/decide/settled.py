# SPDX-License-Identifier: Apache-2.0
"""Tells what a policy of the cluster makes of our objects from what somebody has changed. Pure.

A mutating policy may rewrite a field that we name, each time that we apply it. Such an object differs from what is
wanted for as long as the policy stands, and to apply it again changes nothing. So what server-side apply answered is
remembered, and an object that is still as it was answered is settled.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

from streamapp_operator.decide.drift import differences
from streamapp_operator.render.meta import Object

_OURS = ("annotations", "finalizers", "labels", "ownerReferences")
"""Of metadata. The rest is the API server's, and changes with each write."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """An object that was applied, and what the API server made of it, by their fingerprints."""

    wanted: str
    made: str


def accepted(wanted: Object, made: Object) -> Accepted | None:
    """What is to be remembered of an answer to server-side apply; None when the object is as it was wanted.

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
    """Whether to apply what is wanted would leave the object as it is."""
    return note is not None and note == Accepted(_fingerprint(wanted), _fingerprint(found))


def _fingerprint(item: Object) -> str:
    metadata: Mapping[str, object] = item["metadata"]
    said = {key: value for key, value in item.items() if key not in ("apiVersion", "kind", "metadata", "status")}
    said["metadata"] = {key: metadata[key] for key in _OURS if key in metadata}
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()
