# SPDX-License-Identifier: Apache-2.0
"""One process installs Debian's programs before the tests, and tries once more if that fails."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cluster import packages
from cluster.errors import Unavailable

APT = """#!/bin/sh
echo "$*" >>{folder}/asked
[ "$1" = update ] && exit 0
[ "$(grep -c install {folder}/asked)" -le {failures} ] && {{ echo "a folder has vanished" >&2; exit 100; }}
printf '#!/bin/sh\\n' >{folder}/promtool; chmod +x {folder}/promtool
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the only programs there are, beside the system's shell."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(packages, "SYSTEM_PATH", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return tmp_path


def apt(folder: Path, failures: int) -> None:
    file = folder / "apt-get"
    file.write_text(APT.format(folder=folder, failures=failures))
    file.chmod(0o755)


def test_what_fails_once_is_tried_again(folder: Path) -> None:
    apt(folder, failures=1)
    packages.install_packages(folder / "log", {"promtool": "prometheus"})
    asked = (folder / "asked").read_text().splitlines()
    assert asked == ["update -qq", "install -y -qq --no-install-recommends prometheus"] * 2
    assert packages.program("promtool") == str(folder / "promtool")
    packages.install_packages(folder / "log", {"promtool": "prometheus"})
    assert (folder / "asked").read_text().splitlines() == asked, "it is there"


def test_what_fails_twice_is_said_with_its_log(folder: Path) -> None:
    apt(folder, failures=2)
    with pytest.raises(Unavailable, match=r"could not install prometheus \(its log: .*log\)"):
        packages.install_packages(folder / "log", {"promtool": "prometheus"})
    assert "a folder has vanished" in (folder / "log").read_text()


def test_no_test_installs_anything(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    apt(folder, failures=0)
    monkeypatch.setenv("PATH", str(folder))
    with pytest.raises(Unavailable, match=r"no promtool on the PATH .*make prepare"):
        packages.program("promtool")
    assert not (folder / "asked").exists()
