# SPDX-License-Identifier: Apache-2.0
"""The command line, where no question about a store has the time to be answered."""

from __future__ import annotations

import sys

from streamapp.cli.main import main
from streamapp.spark import stores

stores.LONGEST_SECONDS = 0.0

if __name__ == "__main__":
    sys.exit(main())
