# SPDX-License-Identifier: Apache-2.0
"""Spark's own daemon for the processes that call users' functions, with modules loaded ahead of time.

It loads the modules that each process needs before it forks them: they start at once, and share the memory. Without
that, each process would load them again, at the cost of a second and 70 MB.
"""

from __future__ import annotations

import gc

import pandas  # noqa: F401
import pyarrow.compute  # noqa: F401
import pyspark.sql.pandas.serializers
import pyspark.sql.pandas.types
import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

import streamapp.spark.usercode  # noqa: F401

if __name__ == "__main__":
    # A worker collects garbage after each task: without this it would walk through, and so copy, all of the above.
    gc.freeze()
    manager()
