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

    Executors fetch the modules from the driver, as they were at the app's start: a later executor gets the same ones.

    Args:
        spark: the app's session, before anything is planned in it.
        modules: the file name and the text of each.
        folder: the folder for the archive that they travel in.
    """
    archive = folder / _ARCHIVE
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for file, text in modules:
            packed.writestr(file, text)
    spark.sparkContext.addPyFile(str(archive.resolve()))
    # Spark has also put the archive before this process's own modules, where it does not belong.
    sys.path[:] = [place for place in sys.path if Path(place).name != _ARCHIVE]
