# SPDX-License-Identifier: Apache-2.0
"""`ask.py URL TIMES`: prints the answers, one a line. Each has a connection of its own, so that each may go to another
server."""

import sys
import urllib.request

for _ in range(int(sys.argv[2])):
    print(urllib.request.urlopen(sys.argv[1], timeout=10).read().decode())
