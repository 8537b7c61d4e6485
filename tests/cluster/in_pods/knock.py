# SPDX-License-Identifier: Apache-2.0
"""Sends requests to a driver without its token, and with another one: `HOST TOKEN`. Prints the answer of each
address."""

from __future__ import annotations

import socket
import sys
import urllib.error
import urllib.request

LIVE, SPARKS_PAGES = 8080, 4040
ADDRESSES = (
    ("GET", "/healthz"),
    ("GET", "/readyz"),
    ("GET", "/metrics"),
    ("GET", "/status"),
    ("GET", "/stores"),
    ("GET", "/stores/word-counts"),
    ("GET", "/stores/word-counts?key=be"),
    ("GET", "/nothing"),
    ("PUT", "/replicas"),
    ("PUT", "/status"),
)

host, token = sys.argv[1:]
at = f"[{host}]" if ":" in host else host
for method, path in ADDRESSES:
    for headers in ({}, {"Authorization": f"Bearer {token}"}):
        body = b'{"replicas": 7}' if method == "PUT" else None
        request = urllib.request.Request(f"http://{at}:{LIVE}{path}", body, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                code = answer.status
        except urllib.error.HTTPError as error:
            code = error.code
        print(method, path, code)
try:
    socket.create_connection((host, SPARKS_PAGES), timeout=10).close()
    print("Spark's own pages: open")
except ConnectionRefusedError:
    print("Spark's own pages: closed")
