# SPDX-License-Identifier: Apache-2.0
"""The command line, with so short a limit that no question about a store gets an answer in time."""

from __future__ import annotations

import sys

from streamapp.cli.main import main
from streamapp.spark import stores

stores.LONGEST_SECONDS = 0.0

if __name__ == "__main__":
    sys.exit(main())
