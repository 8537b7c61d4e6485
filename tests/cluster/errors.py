# SPDX-License-Identifier: Apache-2.0
"""Reasons why there is no cluster."""

from __future__ import annotations


class Unavailable(Exception):
    """No cluster can be had on this machine; the message says what is missing and what would help."""


class Broken(Exception):
    """There should be a cluster here, but a part of it does not work; the message has that part's last words."""


def not_run(why: Unavailable) -> str:
    """The line that must not be overlooked."""
    return f"NOT RUN: the tests on a Kubernetes cluster: {why}"
