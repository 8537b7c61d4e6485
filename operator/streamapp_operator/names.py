# SPDX-License-Identifier: Apache-2.0
"""Names of an app's objects. Pure functions of the app's name, so that they never have to be remembered."""

from __future__ import annotations

import hashlib
import re

_LABEL = re.compile(r"[a-z]([a-z0-9-]*[a-z0-9])?")
_LONGEST = 40
"""Leaves room in 63 characters for what Kubernetes and Spark append: `-driver-0`, a revision, `-1a2b3c-exec-12345`."""


def base_name(app: str) -> str:
    """The app's own name where it can be part of every kind of name, else one made of it that no other app has.

    >>> base_name("word-count")
    'word-count'
    >>> base_name("word.count"), base_name("7up")
    ('word-count-9bd68f', 'app-7up-be39b1')
    """
    if _LABEL.fullmatch(app) and len(app) <= _LONGEST:
        return app
    digest = hashlib.sha256(app.encode()).hexdigest()[:6]
    plain = app.replace(".", "-")
    if not plain[0].isalpha():
        plain = f"app-{plain}"
    return f"{plain[: _LONGEST - 7].rstrip('-')}-{digest}"


def driver_name(base: str) -> str:
    """The name of the driver's StatefulSet, Service, ServiceAccount, Role and NetworkPolicy."""
    return f"{base}-driver"


def driver_pod_name(base: str) -> str:
    return f"{base}-driver-0"


def executors_name(base: str) -> str:
    """The name of the executors' PodDisruptionBudget and NetworkPolicy."""
    return f"{base}-executors"


def config_name(base: str) -> str:
    """The name of the ConfigMap with the plan."""
    return f"{base}-config"


def secret_name(base: str) -> str:
    """The name of the Secret by which driver, executors and operator know each other."""
    return f"{base}-credentials"


def run_name(base: str, mark: str) -> str:
    """The name of the Job of one run to the end of the input; `mark` says which run."""
    return f"{base}-run-{mark}"


def schedule_name(base: str) -> str:
    """The name of the CronJob. Kubernetes allows it 52 characters, and makes the names of its Jobs by adding to it."""
    return f"{base}-run"
