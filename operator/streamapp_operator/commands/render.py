# SPDX-License-Identifier: Apache-2.0
"""`streamapp render`: the Kubernetes objects of an app, without a cluster."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

HELP = "print the Kubernetes objects that the operator would make"
DESCRIPTION = """Prints, as YAML, the objects that the operator makes of the StreamApp in FILE. It needs no cluster.
Placeholders stand for the values that only a cluster has: the app's uid, and the credentials, which the operator makes
once."""
EXAMPLE = """  streamapp render word-count.yaml
  streamapp render word-count.yaml --image registry.example/streamapp:1.0 --namespace shop
  streamapp render word-count.yaml --allow volumes --allow mounts"""

NOT_KNOWN = "made-by-the-operator"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", type=Path, help="a manifest; - for standard input")
    parser.add_argument("--image", help="image of driver and executors, where the manifest names none")
    parser.add_argument(
        "--allow",
        metavar="PART",
        action="append",
        default=[],
        help="a part of pod templates that apps.podTemplate.allow of the operator's chart has; once for each part",
    )
    parser.add_argument("--namespace", help="namespace, where the manifest names none (default: default)")


def run(options: argparse.Namespace) -> int:
    from streamapp.errors import StreamAppError
    from streamapp.local import load_manifest, require_modules
    from streamapp.manifest.dumping import to_yaml_documents
    from streamapp_operator.manifest.app import app_of
    from streamapp_operator.manifest.versions import Version
    from streamapp_operator.render import Credentials, render
    from streamapp_operator.render.permits import PARTS
    from streamapp_operator.render.revision import control_revision
    from streamapp_operator.settings import Settings

    if unknown := sorted(set(options.allow) - set(PARTS)):
        raise StreamAppError(f"--allow: there is no part '{unknown[0]}'; there are: {', '.join(PARTS)}")
    manifest = load_manifest(options.file)
    require_modules(manifest, options.file)
    body = manifest.to_object()
    if options.namespace:
        body["metadata"].setdefault("namespace", options.namespace)
    body["metadata"].setdefault("uid", NOT_KNOWN)
    settings = Settings(pod_template_allow=tuple(options.allow))
    if options.image:
        settings = replace(settings, image=options.image)
    app = replace(app_of(body, manifest), image=settings.image)
    version = Version(app.version_name, app.generation, app.version_spec)
    objects = (control_revision(app, version), *render(app, settings, Credentials(NOT_KNOWN, NOT_KNOWN)))
    print(to_yaml_documents(objects, width=120), end="")
    return 0
