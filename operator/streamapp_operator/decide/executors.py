# SPDX-License-Identifier: Apache-2.0
"""Executors of an earlier pod template are replaced one after the other, under the running query. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from streamapp_operator.driver.answer import Answer
from streamapp_operator.driver.pods import runs
from streamapp_operator.render.meta import TEMPLATE_ANNOTATION, Object


def running(executors: Iterable[Object]) -> int:
    """The number of executors that run."""
    return sum(runs(pod) for pod in executors)


def outdated(executors: Iterable[Object], template: str) -> list[Object]:
    """The executors that were made from another template, the oldest first."""
    found = [pod for pod in executors if pod["metadata"].get("annotations", {}).get(TEMPLATE_ANNOTATION) != template]
    return sorted(found, key=lambda pod: (pod["metadata"].get("creationTimestamp", ""), pod["metadata"]["name"]))


def to_replace(executors: Iterable[Object], template: str, wanted: int, live: Answer | None) -> Iterable[Object]:
    """Executors that are to end now, each of which leaves in order and takes no further task.

    Args:
        executors: all that there are.
        template: fingerprint of the one they are to be made from.
        wanted: how many there are to be.
        live: the driver's answer about itself: it must know the template, or it would make more of the old ones.
    """
    executors = [pod for pod in executors if "deletionTimestamp" not in pod["metadata"]]
    if live is None or live.template != template:
        return ()
    old = outdated(executors, template)
    idle = [pod for pod in old if not runs(pod)]
    if idle:  # an executor that does not work is no loss
        return idle
    return old[:1] if sum(runs(pod) for pod in executors) >= wanted else ()
