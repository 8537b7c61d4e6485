# SPDX-License-Identifier: Apache-2.0
"""The project's images for tests: from the same Dockerfile as a user's, without a registry and without Docker.

Where a Docker engine answers, it builds them. Elsewhere buildah does, as root, on a base that mmdebstrap makes from
Debian's packages: the same as `debian:bookworm-slim` on a registry. buildah's layers are kept in the cache for all
clones; a change of our own code makes the last layer anew and no other.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Collection, Iterable
from contextlib import AbstractContextManager
from pathlib import Path

from cluster.cache import KEEP_SECONDS, cache_folder, fingerprint, locked, made_once
from cluster.errors import Broken
from cluster.packages import SYSTEM_PATH

ROOT = Path(__file__).parents[2]
RUNTIME = "localhost/streamapp/runtime:dev"
OPERATOR = "localhost/streamapp/operator:dev"
"""The prefix of image names. It has a host, as container engines add one of their own to a name without."""
TARGETS = {RUNTIME: "runtime", OPERATOR: "operator"}
SUITE = "bookworm"
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
IDS = "{{.FromImageID}}"


def make_wheel() -> None:
    """Makes dist/ have the one wheel that the Dockerfile copies."""
    shutil.rmtree(ROOT / "dist", ignore_errors=True)
    _run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", folder=ROOT)


def images_lock() -> AbstractContextManager[None]:
    """Lets one process build at a time: they all make the one wheel in dist/, and images under the same names."""
    return locked(cache_folder("images") / "lock")


def docker_build(name: str) -> None:
    """Makes the Docker engine build one of the images; it decides by itself what is new."""
    make_wheel()
    _run(sys.executable, str(ROOT / "container" / "docker_images.py"), TARGETS[name], name)


class Buildah:
    """Builds images into a store of its own."""

    def __init__(self) -> None:
        self._folder = cache_folder("images")
        store = ["--root", str(self._folder / "store"), "--runroot", str(self._folder / "run")]
        self._buildah = ["buildah", *store, "--storage-driver", "overlay"]

    def build(self, name: str) -> str:
        """Builds one of the project's images from the present sources; returns the store's reference of it."""
        target = TARGETS[name]
        reference = f"localhost/streamapp/{target}:{fingerprint(_sources())}"
        with images_lock():
            if not self._has(reference):
                started = time.monotonic()
                base = self._base()
                print(f"building the image {name} (the first time: a minute or two) ...", flush=True)
                make_wheel()
                self._build(ROOT, reference, "--target", target, "--build-arg", f"BASE_IMAGE={base}")
                print(f"  built in {time.monotonic() - started:.0f} s", flush=True)
                self._forget(KEEP_SECONDS)
        return reference

    def build_program(self, program: Path, name: str) -> str:
        """The reference of an image that is one static executable and nothing else; `name` becomes part of its tag."""
        reference = f"localhost/streamapp/{name}:{fingerprint([program])}"
        with images_lock(), tempfile.TemporaryDirectory() as folder:
            if not self._has(reference):
                shutil.copy(program, folder)
                dockerfile = f'FROM scratch\nCOPY {program.name} /\nENTRYPOINT ["/{program.name}"]\n'
                (Path(folder) / "Dockerfile").write_text(dockerfile)
                self._build(Path(folder), reference)
        return reference

    def identity(self, reference: str) -> str:
        """A hash of the image's configuration and content."""
        return self._said("inspect", "--type", "image", "--format", IDS, reference).strip()

    def archive(self, reference: str, name: str, file: Path, without: Collection[str] = ()) -> None:
        """Writes the image to an OCI archive, in which it has the name that pods know it by.

        Blobs whose digests are in `without` are left out: the receiver has them already, and between two versions of an
        image all but the last layer, a twentieth of the whole, are the same.
        """
        with images_lock():
            layout = self._layout(reference)
            index = json.loads((layout / "index.json").read_text())
            index["manifests"][0]["annotations"] = {"io.containerd.image.name": name}
            with tarfile.open(file, "w") as archive:
                archive.add(layout / "oci-layout", "oci-layout")
                for blob in _blobs(layout):
                    if f"sha256:{blob.name}" not in without:
                        archive.add(blob, f"blobs/sha256/{blob.name}")
                entry, text = tarfile.TarInfo("index.json"), json.dumps(index).encode()
                entry.size = len(text)
                archive.addfile(entry, io.BytesIO(text))

    # --- steps ----------------------------------------------------------------------------------------------

    def _layout(self, reference: str) -> Path:
        """A folder with the image, and no other, in OCI's layout; parts of the last version are used again."""
        layout = self._folder / "layouts" / reference.split("/")[-1].split(":")[0]
        layout.mkdir(parents=True, exist_ok=True)
        (layout / "index.json").unlink(missing_ok=True)
        self._said("push", "--quiet", reference, f"oci:{layout}")
        wanted = set(_blobs(layout))
        for blob in (layout / "blobs" / "sha256").iterdir():
            if blob not in wanted:
                blob.unlink()
        return layout

    def _forget(self, seconds: float) -> None:
        """Removes images that were made longer ago, layers of unfinished stages too; one that is still needed is soon
        made again."""
        images = json.loads(self._said("images", "--all", "--json") or "[]")
        for image in sorted(images, key=lambda each: -each["created"]):  # children before their parents
            if image["created"] < time.time() - seconds:
                self._try("rmi", "--force", image["id"])

    def _base(self) -> str:
        """A minimal Debian, once for each version of this recipe."""
        options = ["--variant=minbase", "--mode=root", "--quiet"]
        options += [f"--dpkgopt=path-exclude=/usr/share/{part}/*" for part in ("doc", "man", "locale")]
        version = fingerprint([], SUITE, *options)
        reference = f"localhost/streamapp/base:{version}"
        if not self._has(reference):

            def make(folder: Path) -> None:
                print(f"making a base image of Debian's {SUITE} (under a minute) ...", flush=True)
                _run("mmdebstrap", *options, SUITE, str(folder / "base.tar"))
                (folder / "Dockerfile").write_text("FROM scratch\nADD base.tar /\n")

            self._build(made_once("base", version, make), reference)
        return reference

    def _build(self, context: Path, reference: str, *options: str) -> None:
        """Builds a stage with the isolation and the network of the machine itself, as a build runs packages' own
        installers."""
        folders = self._pip_settings()
        self._said(
            "build",
            "--isolation",
            "chroot",
            "--network",
            "host",
            "--layers",
            "--quiet",
            *folders,
            *options,
            "--tag",
            reference,
            str(context),
        )

    def _pip_settings(self) -> list[str]:
        """Options with which pip, inside a build, trusts the authorities of this machine, and finds its earlier
        downloads."""
        volumes = {}
        if CERTIFICATES.exists():
            config = self._folder / "pip.conf"
            config.write_text("[global]\ncert = /run/host/certificates.crt\n")
            volumes = {config: "/etc/pip.conf:ro", CERTIFICATES: "/run/host/certificates.crt:ro"}
        found = subprocess.run([sys.executable, "-m", "pip", "cache", "dir"], capture_output=True, text=True)
        if found.returncode == 0 and Path(found.stdout.strip()).is_dir():
            volumes[Path(found.stdout.strip())] = "/root/.cache/pip"
        return [word for source, target in volumes.items() for word in ("--volume", f"{source}:{target}")]

    def _has(self, reference: str) -> bool:
        return bool(self._try("images", "--quiet", reference).strip())

    def _try(self, *arguments: str) -> str:
        """Returns buildah's output; empty if it fails."""
        done = subprocess.run([*self._buildah, *arguments], capture_output=True, text=True)
        return done.stdout if done.returncode == 0 else ""

    def _said(self, *arguments: str) -> str:
        return _run(*self._buildah, *arguments)


def _blobs(layout: Path) -> list[Path]:
    """The files of the one image in the folder: manifest, configuration, layers."""

    def file(descriptor: dict[str, str]) -> Path:
        return layout / "blobs" / "sha256" / descriptor["digest"].removeprefix("sha256:")

    (entry,) = json.loads((layout / "index.json").read_text())["manifests"]
    manifest = json.loads(file(entry).read_text())
    return [file(each) for each in (entry, manifest["config"], *manifest["layers"])]


def _sources() -> Iterable[Path]:
    """All files that go into the images."""
    yield ROOT / "Dockerfile"
    for folder in ("container", "runtime/streamapp", "operator/streamapp_operator"):
        for path in (ROOT / folder).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                yield path


def _run(*command: str, folder: Path | None = None) -> str:
    path = f"{os.environ.get('PATH', '')}:{SYSTEM_PATH}"
    done = subprocess.run(command, cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True)
    if done.returncode != 0:
        said = "\n".join((done.stdout + done.stderr).strip().splitlines()[-15:])
        raise Broken(f"`{' '.join(command[:6])} ...` failed: {said}")
    return done.stdout
