# SPDX-License-Identifier: Apache-2.0
"""A plan as pictures: text for a terminal, Mermaid for a page, JSON for a program."""

from __future__ import annotations

from streamapp.describe.json import explain_json
from streamapp.describe.mermaid import explain_mermaid
from streamapp.describe.text import explain_text

__all__ = ["explain_json", "explain_mermaid", "explain_text"]
