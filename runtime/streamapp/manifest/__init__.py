# SPDX-License-Identifier: Apache-2.0
"""The manifest: the text that users write, as a validated model and as a topology.

`parse_manifest` finds every error at once: of the YAML, of the fields, and of what the fields mean together.
"""

from __future__ import annotations

from streamapp.manifest.model import API_VERSION, KIND, Manifest, start_from_ms
from streamapp.manifest.reading import parse_manifest, parse_object

__all__ = [
    "API_VERSION",
    "KIND",
    "Manifest",
    "parse_manifest",
    "parse_object",
    "start_from_ms",
]
