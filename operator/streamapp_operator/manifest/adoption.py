# SPDX-License-Identifier: Apache-2.0
"""The state of an earlier app, which another resource is to go on with. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from streamapp.errors import Problem
from streamapp.owner import checked_owner

ADOPT_ANNOTATION = "streamapp.dev/adopt"
"""Annotation on the resource: an earlier owner, whose state the app goes on with if the applicationId is still that
one's."""
_FIELD = f"metadata.annotations.{ADOPT_ANNOTATION}"


def adopted_owner(metadata: Mapping[str, Any]) -> str:
    """The owner that a resource's annotation names; empty for none.

    Raises:
        ValueError: when no owner can have such a name.
    """
    named = (metadata.get("annotations") or {}).get(ADOPT_ANNOTATION, "")
    return checked_owner(named) if named else ""


def misnamed_owner(metadata: Mapping[str, Any]) -> Iterator[Problem]:
    try:
        adopted_owner(metadata)
    except ValueError as error:
        yield Problem(None, _FIELD, None, str(error), None)


def predecessor_of(metadata: Mapping[str, Any]) -> tuple[str, str] | None:
    """Namespace and name of the resource that the annotation names; None when it names none, or one of a laptop."""
    try:
        parts = adopted_owner(metadata).split("/")
    except ValueError:
        return None
    return (parts[0], parts[1]) if len(parts) == 3 else None


def still_there(owner: str, adopted: str, predecessor: Mapping[str, Any] | None) -> Iterator[Problem]:
    """The problem of an adoption whose earlier owner still exists: two drivers would take the state from each other for
    ever.

    Args:
        owner: the one that is to have the state.
        adopted: the earlier owner.
        predecessor: the resource that has the namespace and name of `adopted` now.
    """
    if predecessor is not None and adopted != owner and predecessor["metadata"]["uid"] == adopted.split("/")[-1]:
        namespace, name, _ = adopted.split("/")
        yield Problem(
            None,
            _FIELD,
            adopted,
            f"the StreamApp '{name}' in namespace '{namespace}' is still there, and its state is its own",
            "delete it first, with deletionPolicy: Retain, which keeps its topics: "
            f"kubectl delete sapp -n {namespace} {name}",
        )
