# SPDX-License-Identifier: Apache-2.0
"""The CustomResourceDefinition as a file's text."""

from __future__ import annotations

import yaml

from streamapp_operator.crd import crd

_HEAD = "# SPDX-License-Identifier: Apache-2.0\n# Made by `make crd` from the manifest's model. Do not edit.\n"


def crd_text() -> str:
    """YAML that is the same for the same model."""
    return _HEAD + yaml.dump(crd(), Dumper=_Dumper, sort_keys=False, width=120, allow_unicode=True)


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: object) -> bool:
        return True  # equal parts are written out each time: some tools do not read anchors
