# SPDX-License-Identifier: Apache-2.0
"""The live interface of a driver's pod."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

from streamapp_operator.render.meta import Object
from streamapp_operator.render.pods import LIVE_PORT

SECONDS = 2.0
"""A driver that is busy may keep us waiting, and so may one on a node that is gone."""
_LARGEST = 4 * 1024 * 1024


def ask(pod: Object, token: str) -> tuple[dict[str, Any] | None, str]:
    """What the driver says about itself, or None and why it says nothing."""
    address = pod.get("status", {}).get("podIP")
    if not address:
        return None, "the driver's pod has no address yet"
    host = f"[{address}]" if ":" in address else address
    request = urllib.request.Request(f"http://{host}:{LIVE_PORT}/status", headers={"Authorization": f"Bearer {token}"})
    try:
        # Straight to the pod, whatever proxy the environment names.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=SECONDS) as answer:
            found = json.loads(answer.read(_LARGEST))
    except (OSError, ValueError) as error:
        return None, f"the driver does not answer: {error}"
    return (found, "") if isinstance(found, dict) else (None, "the driver's answer cannot be read")
