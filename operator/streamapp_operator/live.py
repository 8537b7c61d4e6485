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
    try:
        found = _answer(pod, token, "GET", "/status")
    except (OSError, ValueError) as error:
        return None, f"the driver does not answer: {error}"
    return (found, "") if isinstance(found, dict) else (None, "the driver's answer cannot be read")


def scale(pod: Object, token: str, replicas: int) -> str:
    """Tells the driver how many executors are wanted; returns why it did not take it, empty when it did."""
    try:
        _answer(pod, token, "PUT", "/replicas", json.dumps({"replicas": replicas}).encode())
    except (OSError, ValueError) as error:
        return f"the driver does not take the number of replicas: {error}"
    return ""


def _answer(pod: Object, token: str, method: str, path: str, body: bytes | None = None) -> Any:
    address = pod.get("status", {}).get("podIP")
    if not address:
        raise OSError("its pod has no address yet")
    host = f"[{address}]" if ":" in address else address
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"http://{host}:{LIVE_PORT}{path}", body, headers, method=method)
    # Straight to the pod, whatever proxy the environment names.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=SECONDS) as answer:
        return json.loads(answer.read(_LARGEST))
