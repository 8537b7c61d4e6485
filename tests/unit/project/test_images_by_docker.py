# SPDX-License-Identifier: Apache-2.0
"""Images are built on a base that is named by digest, whatever its tag means tomorrow. Docker is a program here that
writes down its arguments and does nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

DIGEST = "sha256:" + "ab" * 32
ASKED = "asked"


def build(
    root: Path, folder: Path, pulled: bool = True, digests: str = f"debian@{DIGEST}", **env: str
) -> subprocess.CompletedProcess[str]:
    docker = folder / "docker"
    docker.write_text(f"""#!/bin/sh
printf '%s\\n' "$*" >> {folder / ASKED}
case "$1" in
  pull) {"exit 0" if pulled else "echo 'no such host' >&2; exit 1"} ;;
  image) echo '{digests}' ;;
esac
""")
    docker.chmod(0o755)
    path = f"{folder}:{os.environ['PATH']}"
    program = str(root / "container" / "docker_images.py")
    command = [sys.executable, program, "runtime", "streamapp/runtime:dev", "other:1"]
    return subprocess.run(command, env={"PATH": path, **env}, capture_output=True, text=True, timeout=60)


def asked(folder: Path) -> list[str]:
    return (folder / ASKED).read_text().splitlines()


def test_the_base_is_named_by_the_digest_that_it_has_now(root: Path, tmp_path: Path) -> None:
    done = build(root, tmp_path)
    assert done.stdout == f"streamapp/runtime:dev on debian@{DIGEST}\n"
    pull, _, built = asked(tmp_path)
    assert pull == "pull --quiet debian:bookworm-slim"
    assert built.startswith(f"build --target runtime --build-arg BASE_IMAGE=debian@{DIGEST} ")
    assert "--label=org.opencontainers.image.base.name=debian:bookworm-slim" in built
    assert f"--label=org.opencontainers.image.base.digest={DIGEST}" in built
    assert "--tag=streamapp/runtime:dev --tag=other:1" in built


def test_a_base_that_is_named_by_digest_is_taken_as_it_is(root: Path, tmp_path: Path) -> None:
    done = build(root, tmp_path, BASE_IMAGE=f"mirror.example/debian:12@{DIGEST}")
    assert done.returncode == 0
    (built,) = asked(tmp_path)
    assert f"BASE_IMAGE=mirror.example/debian:12@{DIGEST} " in built


@pytest.mark.parametrize(
    ("base", "repository"),
    [
        ("debian:12", "debian"),
        ("registry.example/library/debian", "debian"),
        ("mirror.example:5000/debian:12", "mirror.example:5000/debian"),
        ("copied.by/hand:1", "mirror.example:5000/debian"),
    ],
)
def test_a_base_of_several_repositories_is_named_by_its_own(
    root: Path, tmp_path: Path, base: str, repository: str
) -> None:
    digests = f"mirror.example:5000/debian@{DIGEST} debian@{DIGEST}"
    done = build(root, tmp_path, digests=digests, BASE_IMAGE=base)
    assert done.stdout == f"streamapp/runtime:dev on {repository}@{DIGEST}\n"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"digests": ""}, "the base image debian:bookworm-slim has no digest"),
        ({"pulled": False, "digests": ""}, "no such host"),
    ],
    ids=["of-no-registry", "out-of-reach"],
)
def test_without_a_digest_nothing_is_built(root: Path, tmp_path: Path, given: dict[str, object], said: str) -> None:
    done = build(root, tmp_path, **given)  # type: ignore[arg-type]
    assert done.returncode == 1
    assert said in done.stderr
    assert not [line for line in asked(tmp_path) if line.startswith("build")]


def test_without_the_registry_the_base_that_is_there_is_taken_by_its_digest(root: Path, tmp_path: Path) -> None:
    done = build(root, tmp_path, pulled=False)
    assert done.returncode == 0
    assert f"BASE_IMAGE=debian@{DIGEST}" in asked(tmp_path)[-1]
