# SPDX-License-Identifier: Apache-2.0
"""The command line, with a mistake in the JVM side (see mutants.py)."""

from __future__ import annotations

import sys

from lib.mutants import class_path
from streamapp.cli.main import main
from streamapp.spark import session

product = session.runtime_class_path()
session.runtime_class_path = lambda: class_path(product)

if __name__ == "__main__":
    sys.exit(main())
