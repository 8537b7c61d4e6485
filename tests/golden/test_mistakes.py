# SPDX-License-Identifier: Apache-2.0
"""The messages that users get for manifests with many mistakes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from streamapp.errors import ManifestError
from streamapp.manifest import parse_manifest

HERE = Path(__file__).parent / "mistakes"


@pytest.mark.parametrize("file", sorted(HERE.glob("*.yaml")), ids=lambda file: file.stem)
def test_mistakes(file: Path, golden: Callable[[Path, str], None]) -> None:
    with pytest.raises(ManifestError) as error:
        parse_manifest(file.read_text())
    golden(file.with_suffix(".txt"), f"{error.value}\n{error.value.left_open(besides='types')}\n")
