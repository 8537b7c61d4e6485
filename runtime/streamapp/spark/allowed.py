# SPDX-License-Identifier: Apache-2.0
"""The list of Spark settings that the user may give. An app does not start if any other setting reaches Spark, by a
file or by the environment: such a setting could silently break the guarantees."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from streamapp.errors import InputError

_ROCKSDB = "spark.sql.streaming.stateStore.rocksdb."
ALLOWED = (
    # Ours.
    "spark.streamapp.localBaseRecords",
    # How memory is shared out.
    "spark.memory.fraction",
    "spark.memory.storageFraction",
    "spark.memory.offHeap.enabled",
    "spark.memory.offHeap.size",
    "spark.driver.maxResultSize",
    "spark.sql.execution.arrow.maxRecordsPerBatch",
    _ROCKSDB + "blockSizeKB",
    _ROCKSDB + "highPriorityPoolRatio",
    _ROCKSDB + "maxOpenFiles",
    _ROCKSDB + "maxWriteBufferNumber",
    _ROCKSDB + "writeBufferCacheRatio",
    _ROCKSDB + "writeBufferSizeMB",
    # Data between executors.
    "spark.broadcast.compress",
    "spark.io.compression.codec",
    "spark.reducer.maxSizeInFlight",
    "spark.shuffle.compress",
    "spark.shuffle.file.buffer",
    "spark.shuffle.spill.compress",
    # Timeouts and the log level.
    "spark.executor.heartbeatInterval",
    "spark.log.level",
    "spark.network.timeout",
    "spark.rpc.askTimeout",
)
_OF_SPARK = ("spark.app.name", "spark.app.submitTime", "spark.submit.deployMode", "spark.submit.pyFiles")
"""Settings that Spark itself sets at its start."""
_DEFAULTS = "spark-defaults.conf"
_NOT_SHOWN = "(redacted)"


def require_allowed(text: str, ours: Mapping[str, str], environment: Mapping[str, str], home: Path) -> None:
    """Checks the settings that Spark has been started with.

    Args:
        text: these settings, one per line.
        ours: the settings that we have given it.
        environment: the environment of its process.
        home: Spark's home folder.

    Raises:
        InputError: names each setting that the user may not give, and where it was given. It does not show values.
    """
    given = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    wrong = [
        f"`{name}` in {_place(name, environment, home)}"
        for name, value in sorted(given.items())
        if name not in (*ALLOWED, *_OF_SPARK) and not _is_ours(name, value, ours)
    ]
    if wrong:
        raise InputError(
            f"settings of Spark that an app does not take: {', '.join(wrong)}; take them out: the manual "
            "(Operating an app) has the list of those that are yours to give"
        )


def _is_ours(name: str, value: str, ours: Mapping[str, str]) -> bool:
    return name in ours and (value == ours[name] or value.endswith(_NOT_SHOWN))


def _place(name: str, environment: Mapping[str, str], home: Path) -> str:
    """Where a setting comes from, as far as that can be seen."""
    folder = environment.get("SPARK_CONF_DIR")
    file = (Path(folder) if folder else home / "conf") / _DEFAULTS
    mentioned = re.compile(rf"(?:-D|(?<![\w.])){re.escape(name)}(?![\w.])")
    variables = [variable for variable, value in environment.items() if mentioned.search(value)]
    if variables:
        return f"the environment variable {' and '.join(sorted(variables))}"
    return str(file) if any(map(mentioned.match, _lines(file))) else "the environment"


def _lines(file: Path) -> Iterable[str]:
    try:
        return [line.strip() for line in file.read_text(errors="replace").splitlines()]
    except OSError:
        return []
