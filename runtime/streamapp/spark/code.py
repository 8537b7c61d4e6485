# SPDX-License-Identifier: Apache-2.0
"""The user's own modules on their way to the processes that call them."""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Iterable
from pathlib import Path

from pyspark.sql import SparkSession

_ARCHIVE = "user-code.zip"


def ship_code(spark: SparkSession, modules: Iterable[tuple[str, str]], folder: Path) -> None:
    """Makes modules importable wherever functions of this session run, for as long as it lasts.

    Executors fetch them from the driver, as this app was started with them: one that comes later finds the same.

    Args:
        spark: the app's session, before anything is planned in it.
        modules: file name and text.
        folder: for the archive they travel in.
    """
    archive = folder / _ARCHIVE
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for file, text in modules:
            packed.writestr(file, text)
    spark.sparkContext.addPyFile(str(archive.resolve()))
    # Spark has put it before this process's own modules as well, where it has no business.
    sys.path[:] = [place for place in sys.path if Path(place).name != _ARCHIVE]
