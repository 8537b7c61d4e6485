# SPDX-License-Identifier: Apache-2.0
"""A test that cannot run on a machine is never left out in silence: its line is the last and loudest, and CI fails."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from cluster import host
from cluster.errors import Unavailable

LINE = "NOT RUN: the tests on a Kubernetes cluster: there is no Docker here"
TESTS = """
import pytest
from cluster.errors import Unavailable
from lib.left_out import or_left_out

def make():
    raise Unavailable("there is no Docker here")

@pytest.fixture
def cluster():
    return or_left_out(make)

def test_on_a_cluster(cluster): pass
def test_too(cluster): pass
def test_of_its_own(): assert or_left_out(lambda: 1) == 1
"""


def run(root: Path, folder: Path, ci: str | None) -> subprocess.CompletedProcess[str]:
    """Runs pytest, with the fixtures and the summary of our own tests."""
    (folder / "test_it.py").write_text(TESTS)
    environment = {key: value for key, value in os.environ.items() if key != "CI"}
    environment |= {"PYTHONPATH": str(root / "tests"), "STREAMAPP_LEFT_OUT": str(folder / "left-out")}
    environment |= {} if ci is None else {"CI": ci}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "conftest", "-p", "no:cacheprovider", "--color=no"]
    return subprocess.run([*command, str(folder)], cwd=root, env=environment, capture_output=True, text=True)


def test_it_is_said_once_in_a_line_of_its_own(root: Path, tmp_path: Path) -> None:
    done = run(root, tmp_path, ci=None)
    assert done.returncode == 0, done.stdout
    assert done.stdout.splitlines().count(LINE) == 1
    assert "1 passed, 2 skipped" in done.stdout
    assert (tmp_path / "left-out").read_text() == f"{LINE}\n", "for the last line of `make test`"


def test_in_ci_it_fails(root: Path, tmp_path: Path) -> None:
    done = run(root, tmp_path, ci="true")
    assert done.returncode == 1, done.stdout
    assert LINE in done.stdout
    assert "1 passed, 2 errors" in done.stdout


def engine(folder: Path, answer: str) -> str:
    """A PATH on which `docker` says this."""
    program = folder / "docker"
    program.write_text(f"#!/bin/sh\n[ \"$*\" = 'network inspect kind' ] && echo '{answer}'\n")
    program.chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


def outward() -> str:
    """An address of this machine by which others might reach it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        try:
            asked.connect(("192.0.2.1", 443))
        except OSError:
            pytest.skip("this machine is on no network")
        return str(asked.getsockname()[0])


@pytest.fixture
def patch(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.delenv(host.VARIABLE, raising=False)
    return monkeypatch


def test_a_broker_listens_where_the_api_server_is_reached_from(patch: pytest.MonkeyPatch) -> None:
    assert host.towards("https://192.0.2.1:6443") == outward()
    with pytest.raises(Unavailable, match=r"127\.0\.0\.1, where pods find themselves; say in STREAMAPP_HOST_ADDRESS"):
        host.towards("https://127.0.0.1:6443")
    patch.setenv(host.VARIABLE, outward())
    assert host.towards("https://127.0.0.1:6443") == outward()
    patch.setenv(host.VARIABLE, "192.0.2.1")
    with pytest.raises(Unavailable, match=r"192\.0\.2\.1, and nothing here can listen on that"):
        host.towards("https://127.0.0.1:6443")


def test_containers_of_kind_reach_this_machine_by_their_gateway(patch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    parts = f'{{"Subnet": "fc00::/64", "Gateway": "fc00::1"}}, {{"Subnet": "172.18.0.0/16", "Gateway": "{outward()}"}}'
    patch.setenv("PATH", engine(tmp_path, f'[{{"Name": "kind", "IPAM": {{"Config": [{parts}]}}}}]'))
    assert host.gateway_of("kind") == outward()
    patch.setenv("PATH", engine(tmp_path, "[]"))
    with pytest.raises(Unavailable, match="the gateway of Docker's network 'kind', shows no address"):
        host.gateway_of("kind")
