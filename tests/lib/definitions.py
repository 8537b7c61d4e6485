# SPDX-License-Identifier: Apache-2.0
"""Custom resource definitions on an API server."""

from __future__ import annotations

import json
from collections.abc import Callable

from lib.wait import until


def await_served(kubectl: Callable[..., str], definition: str) -> None:
    """Waits until its objects can be made. (`kubectl wait` fails if a definition has no condition yet.)"""

    def established() -> bool:
        status = json.loads(kubectl("get", f"crd/{definition}", "-o", "json")).get("status", {})
        told = status.get("conditions") or ()
        return any((each["type"], each["status"]) == ("Established", "True") for each in told)

    until(established, 60, f"{definition} is served", every=0.2)
