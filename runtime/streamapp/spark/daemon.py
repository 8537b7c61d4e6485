# SPDX-License-Identifier: Apache-2.0
"""Makes the processes that call users' functions, as Spark's own daemon does, which it is.

What each of them needs is loaded here, before they are forked: they start at once, and share its memory. Spark's own
would have each load it again, a second and 70 MB apiece.
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
