# SPDX-License-Identifier: Apache-2.0
"""The command line, with a low limit on the size of an answer about a store."""

from __future__ import annotations

import sys

from streamapp.cli.main import main
from streamapp.spark import stores

stores.MOST_BYTES = 1000

if __name__ == "__main__":
    sys.exit(main())
