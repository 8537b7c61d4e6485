# SPDX-License-Identifier: Apache-2.0
"""`ask_api.py KIND...`: prints the status with which the API server answers a request for a list of each kind with this
pod's token."""

import ssl
import sys
import urllib.error
import urllib.request
from pathlib import Path

folder = Path("/var/run/secrets/kubernetes.io/serviceaccount")
token, namespace = (folder / "token").read_text(), (folder / "namespace").read_text()
trust = ssl.create_default_context(cafile=str(folder / "ca.crt"))
for kind in sys.argv[1:]:
    question = urllib.request.Request(f"https://kubernetes.default.svc/api/v1/namespaces/{namespace}/{kind}")
    question.add_header("Authorization", f"Bearer {token}")
    try:
        status = urllib.request.urlopen(question, context=trust, timeout=10).status
    except urllib.error.HTTPError as error:
        status = error.code
    print(kind, status)
