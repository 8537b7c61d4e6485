# SPDX-License-Identifier: Apache-2.0
"""`ask.py URL TIMES`: prints the answers, one a line. A connection each, so that each may lead elsewhere."""

import sys
import urllib.request

for _ in range(int(sys.argv[2])):
    print(urllib.request.urlopen(sys.argv[1], timeout=10).read().decode())
