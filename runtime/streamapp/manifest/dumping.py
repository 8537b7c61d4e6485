# SPDX-License-Identifier: Apache-2.0
"""Plain data as YAML that `kubectl` reads as it was meant."""

from __future__ import annotations

from typing import Any

import yaml

from streamapp.manifest.scalars import plain_value


class Dumper(yaml.SafeDumper):
    """Quotes every text that would be something else without quotes, such as `y`, which PyYAML takes for a text."""

    def resolve(self, kind: Any, value: Any, implicit: Any) -> Any:
        """The tag that a word would have without quotes; the emitter quotes it where that is not its own."""
        found: str = super().resolve(kind, value, implicit)  # type: ignore[no-untyped-call]
        if found == "tag:yaml.org,2002:str" and implicit[0] and not isinstance(plain_value(value), str):
            return "tag:yaml.org,2002:bool"
        return found


def to_yaml(data: object, **options: Any) -> str:
    """One document.

    >>> print(to_yaml({"n": "off", "list": [1, "1e3", None, "user"]}), end="")
    'n': 'off'
    list:
    - 1
    - '1e3'
    - null
    - user
    """
    text: str = yaml.dump(data, Dumper=Dumper, sort_keys=False, **options)
    return text


def to_yaml_documents(data: Any, **options: Any) -> str:
    """Several documents."""
    text: str = yaml.dump_all(data, Dumper=Dumper, sort_keys=False, **options)
    return text
