# SPDX-License-Identifier: Apache-2.0
"""Tests that this machine cannot run: said aloud, and in CI a failure."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest

from cluster.errors import Unavailable, not_run


def leave_out(why: Unavailable) -> NoReturn:
    """Skip the test, so that the line stands at the end of the run (see conftest); in CI, where CI is set, fail."""
    if os.environ.get("CI"):
        pytest.fail(not_run(why), pytrace=False)
    pytest.skip(not_run(why))
