# SPDX-License-Identifier: Apache-2.0
"""The choice of the cluster that the tests run on. Docker and kind are programs here that write down their
arguments."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cluster import choice, machine
from cluster.errors import Broken, Unavailable

KUBECTL = "case \"$*\" in *'config view'*) printf https://192.0.2.1:6443 ;; esac"


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that alone is the PATH, with kubectl and helm in it; there is no other way to find a cluster."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    for name in ("kubectl", "helm"):
        program(folder, name, KUBECTL)
    return folder


def program(folder: Path, name: str, does: str = "") -> None:
    file = folder / name
    file.write_text(f'#!/bin/sh\necho {name} "$@" >> {folder}/asked\n{does}\n')
    file.chmod(0o755)


def asked(folder: Path) -> list[str]:
    """The commands in their order, without the questions whether there is an engine."""
    return [line for line in (folder / "asked").read_text().splitlines() if line != "docker info"]


def test_the_one_that_kubeconfig_names(programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("docker", "kind"):
        program(programs, name)
    file = tmp_path / "config"
    file.write_text("")
    monkeypatch.setenv("KUBECONFIG", str(file))
    assert not choice.is_own()
    with choice.a_cluster() as cluster:
        assert (cluster.kubeconfig, cluster.what) == (file, f"KUBECONFIG={file}")
        assert cluster.environment["KUBECONFIG"] == str(file)
    assert not (programs / "asked").exists()


@pytest.mark.parametrize(("name", "said"), [("none", "there is no such file"), ("one:two", "name one file")])
def test_a_kubeconfig_that_is_none(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, said: str
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / name))
    with pytest.raises(Unavailable, match=said), choice.a_cluster():
        pass


def test_kind_where_docker_is(programs: Path) -> None:
    for name in ("docker", "kind"):
        program(programs, name)
    assert not choice.is_own()
    with choice.a_cluster() as cluster:
        assert cluster.what == "kind (streamapp-tests-0)"
        this = f"cluster --name streamapp-tests-0 --kubeconfig {cluster.kubeconfig}"
        left, made = asked(programs)
        assert left == f"kind delete {this}", "what a killed run has left"
        assert made.startswith(f"kind create {this} ")
    assert asked(programs)[2:] == [f"kind delete {this}"]


def test_runs_at_once_have_each_a_kind_of_their_own(programs: Path) -> None:
    for name in ("docker", "kind"):
        program(programs, name)
    with choice.a_cluster() as first:
        with choice.a_cluster() as second:
            assert [first.what, second.what] == ["kind (streamapp-tests-0)", "kind (streamapp-tests-1)"]
            assert first.kubeconfig != second.kubeconfig
        with choice.a_cluster() as third:
            assert third.what == second.what, "its name is free again"


def test_a_kind_that_fails_is_told(programs: Path) -> None:
    program(programs, "docker")
    program(programs, "kind", "case $1 in create) echo 'no room' >&2; exit 1 ;; esac")
    with pytest.raises(Broken, match="no room"), choice.a_cluster():
        pass


@pytest.mark.parametrize(
    "there", [[], ["docker"], ["kind"], ["kind", "silent-docker"]], ids=["nothing", "no-kind", "no-docker", "no-engine"]
)
def test_else_our_own(programs: Path, there: list[str]) -> None:
    for name in there:
        program(programs, name.removeprefix("silent-"), "exit 1" if name.startswith("silent-") else "")
    assert choice.is_own()


def test_our_own_needs_root(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(Unavailable, match=r"needs root.*install `kind` .*KUBECONFIG"), choice.a_cluster():
        pass
    with pytest.raises(Unavailable, match="needs root"):
        choice.prepare(programs / "log")


def test_our_own_names_what_is_missing(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(machine, "missing_packages", lambda: ["buildah"])
    with pytest.raises(Unavailable, match="apt-get install buildah"), choice.a_cluster():
        pass
