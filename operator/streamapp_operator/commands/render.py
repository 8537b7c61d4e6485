# SPDX-License-Identifier: Apache-2.0
"""`streamapp render`: the Kubernetes objects of an app, without a cluster."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

HELP = "print the Kubernetes objects that the operator would make"
DESCRIPTION = """Prints, as YAML, the objects that the operator makes of the StreamApp in FILE. It needs no cluster.
What only a cluster knows is left open: the app's uid, and the credentials, which the operator makes once."""
EXAMPLE = """  streamapp render word-count.yaml
  streamapp render word-count.yaml --image registry.example/streamapp:1.0 --namespace shop"""

NOT_KNOWN = "made-by-the-operator"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", type=Path, help="a manifest; - for standard input")
    parser.add_argument("--image", help="of driver and executors, where the manifest names none")
    parser.add_argument("--namespace", help="where the manifest names none (default: default)")


def run(options: argparse.Namespace) -> int:
    import yaml

    from streamapp.manifest import parse_manifest
    from streamapp_operator.app import read_app
    from streamapp_operator.render import Credentials, render
    from streamapp_operator.render.revision import control_revision
    from streamapp_operator.settings import Settings
    from streamapp_operator.versions import Version

    body = parse_manifest(manifest_text(options.file), str(options.file)).to_object()
    if options.namespace:
        body["metadata"].setdefault("namespace", options.namespace)
    body["metadata"].setdefault("uid", NOT_KNOWN)
    settings = Settings(image=options.image) if options.image else Settings()
    app = read_app(body)
    version = Version(app.version_name, app.generation, app.version_spec)
    objects = (control_revision(app, version), *render(app, settings, Credentials(NOT_KNOWN, NOT_KNOWN)))
    print(yaml.safe_dump_all(objects, sort_keys=False, width=120), end="")
    return 0


def manifest_text(file: Path) -> str:
    """What the file holds; `-` is standard input.

    Raises:
        InputError: when it cannot be read.
    """
    from streamapp.errors import InputError

    try:
        return sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file}: {getattr(error, 'strerror', None) or 'is not UTF-8 text'}") from None
