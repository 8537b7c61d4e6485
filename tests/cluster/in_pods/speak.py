# SPDX-License-Identifier: Apache-2.0
"""Prints so many lines at once, and then one after the other for ever: NAME 1, NAME 2, ..."""

import itertools
import sys
import time

name, at_once = sys.argv[1], int(sys.argv[2])
for number in itertools.count(1):
    print(name, number, flush=True)
    if number >= at_once:
        time.sleep(0.2)
