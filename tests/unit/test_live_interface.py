# SPDX-License-Identifier: Apache-2.0
"""Where the operator runs an app, the live interface tells only those who bear the token."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from streamapp.http.server import OPEN_PAGES, StatusServer


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text("swordfish\n")
    return file


@pytest.fixture
def url(token_file: Path) -> Iterator[str]:
    server = StatusServer(lambda: {"phase": "Running"}, CollectorRegistry(), token_file=token_file)
    server.start()
    yield server.url
    server.stop()


def answer(url: str, authorization: str | None = None) -> int:
    request = urllib.request.Request(url, headers={"Authorization": authorization} if authorization else {})
    try:
        with urllib.request.urlopen(request, timeout=5) as found:
            return int(found.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_status_needs_the_token(url: str) -> None:
    assert answer(url + "/status") == 401
    assert answer(url + "/status", "Bearer sword") == 401
    assert answer(url + "/status", "Bearer ") == 401
    assert answer(url + "/status", "Bearer swordfish") == 200


def test_pages_that_are_not_there_are_not_told_apart_without_it(url: str) -> None:
    assert answer(url + "/nothing") == 401
    assert answer(url + "/nothing", "Bearer swordfish") == 404


@pytest.mark.parametrize("page", OPEN_PAGES)
def test_probes_and_scrapers_need_none(url: str, page: str) -> None:
    assert answer(url + page) == 200


def test_a_changed_token_counts_at_once(url: str, token_file: Path) -> None:
    token_file.write_text("halibut")
    assert answer(url + "/status", "Bearer swordfish") == 401
    assert answer(url + "/status", "Bearer halibut") == 200


def test_without_a_token_nobody_is_let_in(url: str, token_file: Path) -> None:
    token_file.write_text("")
    assert answer(url + "/status", "Bearer ") == 401
    token_file.unlink()
    assert answer(url + "/status", "Bearer swordfish") == 401
