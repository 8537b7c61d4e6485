# SPDX-License-Identifier: Apache-2.0
"""Whether a driver was ended because it failed a probe. Its exit code does not say so; the node's events do. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from streamapp_operator.driver.pods import last_end
from streamapp_operator.render.driver import DRIVER
from streamapp_operator.render.meta import Object

_KILLED_CODES = (137, 143)
"""Exit codes of a container that was asked to end, or killed."""
_ENDED = re.compile(rf"Container {DRIVER} failed (startup|liveness) probe")
_FAILED = re.compile(r"(Startup|Liveness) probe failed: (.*)", re.DOTALL)


def may_have_failed_a_probe(pod: Object) -> bool:
    """Whether the driver's container has ended as after a failed probe: it is asked to end, may also end in order, and
    is started again."""
    end = last_end(pod)
    if end.get("exitCode") == 0:
        return bool(pod["status"].get("phase") == "Running")
    return end.get("exitCode") in _KILLED_CODES and end.get("reason") != "OOMKilled"


def failed_probe(pod: Object, events: Sequence[Object]) -> str:
    """The failed probe for which the driver's container was ended, in words; empty where its events name none.

    Args:
        pod: the driver's.
        events: about it, the latest last.
    """
    end = last_end(pod)
    began, ended = _time(end.get("startedAt")), _time(end.get("finishedAt"))
    probe = words = ""
    for event in events:
        at = _time(event.get("lastTimestamp")) or _time(event.get("eventTime"))
        if at is None or began is None or ended is None or not began <= at <= ended:
            continue
        message = str(event.get("message") or "")
        if event.get("reason") == "Killing" and (killed := _ENDED.search(message)):
            probe = killed[1]
        elif event.get("reason") == "Unhealthy" and (failed := _FAILED.search(message)):
            words = f"{failed[1].lower()} probe failed: {' '.join(failed[2].split())}"
    if not probe:
        return ""
    return f"its {words}" if words.startswith(probe) else f"its {probe} probe failed"


def _time(text: Any) -> datetime | None:
    try:
        return datetime.fromisoformat(str(text)).replace(microsecond=0)
    except ValueError:
        return None
