# SPDX-License-Identifier: Apache-2.0
"""The topics that an app has for itself: what each is for, and how it is called.

The JVM's side makes the same names of metadata, position and changelogs (RuntimeConf.scala).
"""

from __future__ import annotations

METADATA = "metadata"
"""The record of the app: its owner, topics, commits and shapes."""
POSITION = "position"
"""The positions of sub-topologies without state."""
CHANGELOG = "changelog"
"""The changes of a store, and the position of its sub-topology."""
REPARTITION = "repartition"
"""A hop: records between two sub-topologies."""
_ENDS = tuple(f"-{role}" for role in (METADATA, POSITION, CHANGELOG, REPARTITION))


def metadata_topic(application_id: str) -> str:
    """The topic with the record of the app.

    >>> metadata_topic("shop")
    'shop-metadata'
    """
    return f"{application_id}-{METADATA}"


def position_topic(application_id: str) -> str:
    """The topic with the positions of sub-topologies without state."""
    return f"{application_id}-{POSITION}"


def changelog_topic(application_id: str, store: str) -> str:
    """The topic with a store's changes.

    >>> changelog_topic("shop", "totals")
    'shop-totals-changelog'
    """
    return f"{application_id}-{store}-{CHANGELOG}"


def repartition_topic(application_id: str, hop: str) -> str:
    """The topic of a hop.

    >>> repartition_topic("shop", "totals")
    'shop-totals-repartition'
    """
    return f"{application_id}-{hop}-{REPARTITION}"


def longest_topic(application_id: str, name: str) -> int:
    """The length of the longest topic name that is made of the name of a node or a store, as far as it is known before
    the cut."""
    return len(repartition_topic(application_id, f"{name}-right"))


def is_repartition_topic(application_id: str, topic: str) -> bool:
    """Whether a topic of this name may be a hop of that app."""
    return topic.startswith(f"{application_id}-") and topic.endswith(f"-{REPARTITION}")


def looks_internal(topic: str) -> bool:
    """Whether a topic of this name may be an internal topic of any app."""
    return topic.endswith(_ENDS)


def possible_owners(topic: str) -> list[str]:
    """The applicationIds that an internal topic's name may begin with.

    >>> possible_owners("word-count-totals-changelog")
    ['word', 'word-count', 'word-count-totals']
    """
    return [topic[:at] for at, letter in enumerate(topic) if letter == "-"]
