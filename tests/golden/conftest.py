# SPDX-License-Identifier: Apache-2.0
"""Golden files: text that a change must be seen to change.

`pytest tests/golden --rewrite-golden` writes them anew; the diff is then reviewed as a claim.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite-golden", action="store_true", help="write the golden files anew")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[Path, str], None]:
    """`golden(file, text)`: the text is what the file holds."""

    def compare(file: Path, text: str) -> None:
        if request.config.getoption("--rewrite-golden", default=False):
            file.write_text(text, encoding="utf-8")
        assert file.exists(), f"{file} is missing; run pytest tests/golden --rewrite-golden and review it"
        assert text == file.read_text(encoding="utf-8")

    return compare
