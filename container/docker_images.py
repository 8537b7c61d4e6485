# SPDX-License-Identifier: Apache-2.0
"""Has Docker build an image on a base that is named by its digest: `docker_images.py TARGET NAME [NAME...]`.

Which base that is says the Dockerfile; which digest it has at the moment, the registry. The image has both as labels
(org.opencontainers.image.base.*), so that the very same base can be named again: BASE_IMAGE in the environment.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_LABEL = "org.opencontainers.image.base"


class BuildError(Exception):
    """A call of Docker has failed."""


def build(target: str, *names: str) -> str:
    """Builds a target of the Dockerfile from what is in dist/, under these names. Returns its base, with the digest.

    Raises:
        BuildError: Docker fails, or the base has no digest.
    """
    name = os.environ.get("BASE_IMAGE") or default_base((ROOT / "Dockerfile").read_text())
    base = pinned(name)
    labels = {f"{_LABEL}.name": name.split("@")[0], f"{_LABEL}.digest": base.split("@")[1]}
    options = [f"--label={key}={value}" for key, value in labels.items()] + [f"--tag={each}" for each in names]
    _docker("build", "--target", target, "--build-arg", f"BASE_IMAGE={base}", *options, str(ROOT))
    return base


def default_base(dockerfile: str) -> str:
    """The base that a Dockerfile names."""
    (found,) = re.findall(r"^ARG BASE_IMAGE=(\S+)$", dockerfile, re.MULTILINE)
    return str(found)


def pinned(base: str) -> str:
    """The base with its digest: as it is on its registry now, else as the engine has it.

    Raises:
        BuildError: when nobody knows a digest.
    """
    if "@sha256:" in base:
        return base
    try:
        _docker("pull", "--quiet", base)
    except BuildError as error:
        print(f"{error}; taking the {base} that is there", file=sys.stderr)
    digests = _docker("image", "inspect", "--format", '{{join .RepoDigests " "}}', base).split()
    if not digests:
        raise BuildError(f"the base image {base} has no digest: it comes from no registry; name one in BASE_IMAGE")
    # An image of several repositories has a digest in each of them; Docker leaves out the default registry.
    repository = re.sub(r":[^:/]*$", "", base)
    own = [each for each in digests if f"/{repository}".endswith("/" + each.split("@")[0])]
    return max(own, key=len, default=digests[0])


def _docker(*arguments: str) -> str:
    done = subprocess.run(["docker", *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        output = "\n".join(done.stderr.strip().splitlines()[-15:])
        raise BuildError(f"`docker {' '.join(arguments[:3])}` failed: {output}")
    return done.stdout


if __name__ == "__main__":
    try:
        print(f"{sys.argv[2]} on {build(*sys.argv[1:])}")
    except BuildError as problem:
        sys.exit(f"error: {problem}")
