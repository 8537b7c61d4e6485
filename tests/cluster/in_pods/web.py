# SPDX-License-Identifier: Apache-2.0
"""Answers every request with the pod's name."""

import http.server
import os


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(os.environ["POD_NAME"].encode())


http.server.ThreadingHTTPServer(("", 8080), Handler).serve_forever()
