# SPDX-License-Identifier: Apache-2.0
"""The owner of an applicationId on its Kafka, in the words of its metadata topic."""

from __future__ import annotations

import re

_LABEL = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
_NAME = rf"{_LABEL}(?:\.{_LABEL})*"
_UID = r"[-0-9A-Za-z]{1,64}"
_OWNER = re.compile(rf"local/{_NAME}|{_LABEL}/{_NAME}/{_UID}")
_LONGEST = 400
"""Characters; a namespace has at most 63, a name 253, a uid 64."""


def local_owner(name: str) -> str:
    """The owner of an app that is run by hand."""
    return f"local/{name}"


def resource_owner(namespace: str, name: str, uid: str) -> str:
    """The owner of an app on a cluster: this very resource, not one that takes its name later."""
    return f"{namespace}/{name}/{uid}"


def checked_owner(text: str) -> str:
    """The same text.

    >>> checked_owner("shop/word-count/0f8fad5b-d9cb-469f-a165-70867728950e")
    'shop/word-count/0f8fad5b-d9cb-469f-a165-70867728950e'

    Raises:
        ValueError: when no owner is named like this.
    """
    if len(text) > _LONGEST or not _OWNER.fullmatch(text):
        raise ValueError(
            f"{text[:_LONGEST]!r} is no owner of an applicationId: write NAMESPACE/NAME/UID or local/NAME, as the "
            "error `applicationId ... belongs to ...` names it"
        )
    return text
