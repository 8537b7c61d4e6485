# SPDX-License-Identifier: Apache-2.0
"""`python -m streamapp_operator.crd`: the CustomResourceDefinition as YAML, on stdout."""

from __future__ import annotations

from streamapp_operator.crd.text import crd_text

print(crd_text(), end="")
