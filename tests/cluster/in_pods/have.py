# SPDX-License-Identifier: Apache-2.0
"""`have.py MODULE...`: imports each and prints whether that went well."""

import importlib
import sys

for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
        print(name, "yes")
    except ImportError:
        print(name, "no")
