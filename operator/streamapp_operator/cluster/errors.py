# SPDX-License-Identifier: Apache-2.0
"""The refusal of a request by the API server, as an error."""

from __future__ import annotations

import json


class KubeError(Exception):
    """The API server has refused a request, or has not answered. `code` is HTTP's; 0 when there was no answer."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def error_of(method: str, path: str, code: int, content: object) -> KubeError:
    """The error of an answer, with the message in its content."""
    text = content.decode(errors="replace") if isinstance(content, bytes) else str(content or "")
    try:
        text = json.loads(text)["message"]
    except (ValueError, KeyError, TypeError):
        text = " ".join(text.split())[:300]
    return KubeError(code, f"{method} {path}: {code} {text}")
