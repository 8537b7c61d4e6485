# SPDX-License-Identifier: Apache-2.0
"""`live.py PAGE [BODY]`: prints a page of the driver's live interface, read with the token on stdin; with a body it
sends a PUT."""

import sys
import urllib.request

page, *body = sys.argv[1:]
question = urllib.request.Request(f"http://localhost:8080/{page}", method="PUT" if body else "GET")
question.add_header("Authorization", f"Bearer {sys.stdin.read()}")
question.data = body[0].encode() if body else None
print(urllib.request.urlopen(question, timeout=10).read().decode())
