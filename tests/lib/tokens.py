# SPDX-License-Identifier: Apache-2.0
"""A server that gives tokens to clients it knows, by OAuth 2 (client credentials), and shows the key with which a
broker verifies them."""

from __future__ import annotations

import base64
import json
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from lib.certificates import openssl
from lib.secured import make_authority, make_certificate

CLIENT = "stream-app"


@dataclass
class Tokens:
    """A server of tokens. `asked` has one word for each request: `yes`, or the reason for a refusal."""

    url: str
    """Its address over TLS, with a certificate of the same authority as the broker's."""
    open_url: str
    asked: list[str] = field(default_factory=list)

    @property
    def endpoint(self) -> str:
        return f"{self.url}/token"

    @property
    def keys(self) -> str:
        """The address of the keys, which a broker reads."""
        return f"{self.open_url}/keys"


@contextmanager
def token_endpoint(folder: Path, secret: str, subject: str) -> Iterator[Tokens]:
    """Runs a server that gives tokens of `subject` to CLIENT, which must know the secret."""
    openssl(folder, "genrsa", "-out", "signs-tokens.key", "2048")
    modulus = openssl(folder, "rsa", "-in", "signs-tokens.key", "-noout", "-modulus").strip().partition("=")[2]
    key = {"kty": "RSA", "kid": "one", "alg": "RS256", "use": "sig", "n": _encoded(bytes.fromhex(modulus)), "e": "AQAB"}
    wanted = "Basic " + base64.b64encode(f"{CLIENT}:{secret}".encode()).decode()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(200, {"keys": [key]})

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            known = self.headers["Authorization"] == wanted
            tokens.asked.append("yes" if known else "unknown client")
            if known:
                token = {"access_token": _token(folder, subject), "token_type": "Bearer", "expires_in": 3600}
                self._answer(200, token)
            else:
                self._answer(401, {"error": "invalid_client"})

        def _answer(self, code: int, content: object) -> None:
            text = json.dumps(content).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    make_authority(folder, "ca")
    make_certificate(folder, "tokens", "localhost")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "tokens-both.pem")
    servers = [ThreadingHTTPServer(("127.0.0.1", 0), Handler) for _ in range(2)]
    closed, opened = servers
    closed.socket = context.wrap_socket(closed.socket, server_side=True)
    tokens = Tokens(f"https://localhost:{closed.server_port}", f"http://127.0.0.1:{opened.server_port}")
    for server in servers:
        threading.Thread(target=server.serve_forever, name="tokens", daemon=True).start()
    try:
        yield tokens
    finally:
        for server in servers:
            server.shutdown()
            server.server_close()


def _token(folder: Path, subject: str) -> str:
    now = int(time.time())
    head = {"alg": "RS256", "kid": "one", "typ": "JWT"}
    claims = {"sub": subject, "iat": now - 5, "exp": now + 3600, "scope": "kafka"}
    text = ".".join(_encoded(json.dumps(part).encode()) for part in (head, claims))
    signed = subprocess.run(
        ["openssl", "dgst", "-sha256", "-sign", "signs-tokens.key"],
        cwd=folder,
        input=text.encode(),
        check=True,
        capture_output=True,
        timeout=60,
    )
    return f"{text}.{_encoded(signed.stdout)}"


def _encoded(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")
