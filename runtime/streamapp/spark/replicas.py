# SPDX-License-Identifier: Apache-2.0
"""The number of executors of a running app, which may change at any moment."""

from __future__ import annotations

import threading
import time
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml
from pyspark.sql import SparkSession

from streamapp.spark.jvm import java_class

TEMPLATE_ANNOTATION = "streamapp.dev/template"
ENOUGH = 0.8
"""The share of the executors that an app waits for. With fewer, some would restore what others get a moment later."""
ENOUGH_SECONDS = 30.0
"""The longest wait for them; then the app begins with those that run."""
_LOOK_SECONDS = 0.1


class Replicas:
    """The wanted executors, and those that run. Safe for any thread.

    Args:
        spark: a session whose tasks run in executors, not in threads of this process.
        wanted: the number of executors that it was started for.
        template: the file that Spark makes their pods from; it may change under us. None: they are not pods.
    """

    def __init__(self, spark: SparkSession, wanted: int, template: Path | None = None) -> None:
        self._executors = java_class("Executors")(spark._jsparkSession)
        self._wanted = wanted
        self._template = template
        self._status: dict[str, Any] = {
            "wanted": wanted,
            "running": 0,
            "statePartitions": {},
            "lost": 0,
            "lastLoss": None,
        }

    def want(self, count: int) -> None:
        """Sets the number of executors from now on. It returns at once; executors come and go within seconds."""
        self._wanted = count
        self.keep()

    def await_enough(self, stop: threading.Event) -> None:
        """Waits for most of the executors, for ENOUGH_SECONDS at most, and not after `stop` is set."""
        deadline = time.monotonic() + ENOUGH_SECONDS
        self.keep()
        while self._status["running"] < ENOUGH * self._wanted and time.monotonic() < deadline:
            if stop.wait(_LOOK_SECONDS):
                return
            self.keep()

    def keep(self) -> None:
        """Asks for missing executors, lets surplus ones go, and shares the state out. Call it about every second."""
        running = self._executors.keep(self._wanted)
        self._status = {
            "wanted": self._wanted,
            "running": running,
            "statePartitions": dict(self._executors.statePartitions()),
            "lost": self._executors.lost(),
            "lastLoss": loss_in_words(self._executors.lastLoss()),
        }
        if self._template is not None:
            self._status["template"] = fingerprint_of(self._template)

    def status(self) -> dict[str, Any]:
        """The status as plain data: `wanted`, `running`, `statePartitions` by executor, `lost` (the number of executors
        that have ended unasked), `lastLoss` (how the last of these ended; None for none), and for pods the fingerprint
        of the `template` that the next one would be made from."""
        return self._status


def loss_in_words(reason: str) -> str | None:
    """Spark's reason for an executor's end, in one line for people.

    >>> loss_in_words("The executor with id 1 exited with exit code 137 (OOMKilled).\\n\\nThe API gave ...")
    'an executor had too little memory and was ended; raise spec.executor.resources'
    >>> loss_in_words("Remote RPC client disassociated.\\nLikely due to ...")
    'an executor was lost: Remote RPC client disassociated.'
    >>> loss_in_words("")
    """
    if not reason:
        return None
    if "OOMKilled" in reason:
        return "an executor had too little memory and was ended; raise spec.executor.resources"
    return f"an executor was lost: {reason.strip().splitlines()[0][:300]}"


def fingerprint_of(template: Path) -> str | None:
    """The fingerprint in a pod template's annotation; None when it cannot be read, or is not there.

    Spark reads the file for each pod. A cluster changes the file under us, about a minute after the change was made.
    """
    try:
        return _fingerprint_in(template.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


@lru_cache(maxsize=1)
def _fingerprint_in(text: str) -> str | None:
    try:
        return str(yaml.safe_load(text)["metadata"]["annotations"][TEMPLATE_ANNOTATION])
    except (KeyError, TypeError, yaml.YAMLError):
        return None
