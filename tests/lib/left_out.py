# SPDX-License-Identifier: Apache-2.0
"""Tests that this machine cannot run: they are reported clearly, and in CI they fail."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NoReturn, TypeVar

import pytest

from cluster.errors import Unavailable, not_run

T = TypeVar("T")


def leave_out(why: Unavailable) -> NoReturn:
    """Skips the test, so that the line stands at the end of the run (see conftest); in CI, where CI is set, it
    fails."""
    if os.environ.get("CI"):
        pytest.fail(not_run(why), pytrace=False)
    pytest.skip(not_run(why))


def or_left_out(make: Callable[[], T]) -> T:
    """Returns the result of `make`; the test is left out if this machine cannot have it."""
    try:
        return make()
    except Unavailable as error:
        leave_out(error)
