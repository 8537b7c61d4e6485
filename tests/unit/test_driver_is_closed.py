# SPDX-License-Identifier: Apache-2.0
"""What `streamapp driver` serves asks for the app's token, wired as the command wires it: only Spark and Kafka are left
out."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from streamapp.cli.driver import RPC_SECRET, TOKEN
from streamapp.cli.main import main
from streamapp.compile import compile_manifest
from streamapp.kafka import access
from streamapp.kafka.ports import free_ports
from streamapp.manifest import parse_manifest
from streamapp.spark import app, jvm, session

CLOSED = [
    ("GET", "/status"),
    ("GET", "/stores"),
    ("GET", "/stores/counts"),
    ("GET", "/stores/counts/be"),
    ("GET", "/stores/counts?key=be"),
    ("GET", "/nothing"),
    ("PUT", "/replicas"),
    ("PUT", "/status"),
]
OPEN = ["/healthz", "/readyz", "/metrics"]
MANIFEST = """
apiVersion: streamapp.dev/v1alpha1
kind: StreamApp
metadata: {name: words}
spec:
  kafka: {bootstrapServers: "kafka:9092"}
  topology:
  - {name: lines, stream: {topic: lines, value: text}}
  - {name: counts, groupBy: [value], aggregate: {count: count(*)}}
  - {name: out, to: {topic: out}}
"""


class Replicas:
    """Of no executors at all."""

    scaled: list[int] = []

    def __init__(self, *_: object) -> None:
        self.want = self.scaled.append

    def await_enough(self, stop: object) -> None: ...

    def status(self) -> dict[str, Any]:
        return {"wanted": 1, "running": 0, "statePartitions": {}, "lost": 0, "lastLoss": None}


class Stores:
    """With nothing in them."""

    def __init__(self, *_: object) -> None: ...

    def listed(self) -> list[dict[str, Any]]:
        return []

    def answer(self, question: object) -> dict[str, Any]:
        return {"rows": []}


@pytest.fixture
def while_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[str], None]], None]:
    """Starts the command, calls what it is given with the address of the live interface, and ends it."""
    monkeypatch.setattr(access, "make_ready", lambda *_: [])
    monkeypatch.setattr(session, "start_engine", lambda *_: None)
    monkeypatch.setattr(jvm, "end_jvm", lambda: None)
    monkeypatch.setattr(app, "open_session", MagicMock())
    monkeypatch.setattr(app, "_open_metadata", lambda *_: None)
    for name in ("Queries", "Housekeeping"):
        monkeypatch.setattr(app, name, MagicMock())
    monkeypatch.setattr(app, "Replicas", Replicas)
    monkeypatch.setattr(app, "Stores", Stores)
    monkeypatch.setattr(Replicas, "scaled", [])
    plan = tmp_path / "plan.json"
    plan.write_text(compile_manifest(parse_manifest(MANIFEST)).to_json())
    (tmp_path / TOKEN).write_text("swordfish")
    (tmp_path / RPC_SECRET).write_text("halibut")
    (port,) = free_ports(1)
    options = {
        "owner": "shop/words/1", "secrets": tmp_path, "state-dir": tmp_path / "state", "namespace": "shop",
        "pod": "words-driver-0", "address": "127.0.0.1", "heap": 1024, "port": port, "rpc-port": 7078,
        "block-port": 7079, "executor-template": tmp_path / "executor.yaml", "executor-image": "streamapp/runtime:1",
        "executor-prefix": "words", "executor-processors": 1, "executor-cpu": "1", "executor-heap": 1024,
        "executor-overhead": 512,
    }  # fmt: skip
    words = [f"--{name}={value}" for name, value in options.items()]

    def run(ask: Callable[[str], None]) -> None:
        asked: list[bool] = []

        def run_for_ever(self: object) -> None:
            ask(f"http://127.0.0.1:{port}")
            asked.append(True)

        monkeypatch.setattr(app._App, "_run_for_ever", run_for_ever)
        assert main(["driver", str(plan), *words]) == 0
        assert asked

    return run


def answer(url: str, method: str = "GET", token: str | None = None) -> int:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    body = b'{"replicas": 3}' if method == "PUT" else None
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body, headers, method=method), timeout=20) as found:
            return int(found.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_it_tells_and_does_nothing_without_the_token(
    while_it_runs: Callable[[Callable[[str], None]], None],
) -> None:
    def ask(url: str) -> None:
        for method, page in CLOSED:
            assert [answer(url + page, method, token) for token in (None, "", "sword", "halibut")] == [401] * 4, page
        assert Replicas.scaled == []
        codes = [answer(url + page, method, "swordfish") for method, page in CLOSED]
        assert codes == [200, 200, 200, 200, 200, 404, 200, 404]
        assert Replicas.scaled == [3]

    while_it_runs(ask)


def test_probes_and_scrapers_need_none(while_it_runs: Callable[[Callable[[str], None]], None]) -> None:
    def ask(url: str) -> None:
        assert [answer(url + page) for page in OPEN] == [200, 503, 200]

    while_it_runs(ask)
