# SPDX-License-Identifier: Apache-2.0
"""Tests that this machine cannot run: said aloud, and in CI a failure."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NoReturn, TypeVar

import pytest

from cluster.errors import Unavailable, not_run

T = TypeVar("T")


def leave_out(why: Unavailable) -> NoReturn:
    """Skip the test, so that the line stands at the end of the run (see conftest); in CI, where CI is set, fail."""
    if os.environ.get("CI"):
        pytest.fail(not_run(why), pytrace=False)
    pytest.skip(not_run(why))


def or_left_out(make: Callable[[], T]) -> T:
    """What it makes; the test is left out where this machine cannot have it."""
    try:
        return make()
    except Unavailable as error:
        leave_out(error)
