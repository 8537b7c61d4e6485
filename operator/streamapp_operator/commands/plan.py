# SPDX-License-Identifier: Apache-2.0
"""`streamapp plan`: what applying a manifest would do to an app of a cluster."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from streamapp_operator.commands.target import add_cluster, target_of

if TYPE_CHECKING:
    from streamapp_operator.changes import Changes

_BY_OTHERS = ("replicas", "suspend")
"""Fields that other commands and autoscalers set."""

HELP = "what applying a manifest would do to an app on a cluster"
DESCRIPTION = """Asks the cluster what the app would be if FILE were applied, and prints which fields and nodes change,
what becomes of its state, and whether the driver is started anew. Nothing is changed."""
EXAMPLE = "  streamapp plan word-count.yaml"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", type=Path, help="a manifest; - for standard input")
    add_cluster(parser)


def run(options: argparse.Namespace) -> int:
    from streamapp.errors import ManifestError
    from streamapp.manifest import parse_manifest
    from streamapp_operator.app import read_app
    from streamapp_operator.changes import changes_between
    from streamapp_operator.commands.render import manifest_text
    from streamapp_operator.settings import Settings

    wanted = parse_manifest(manifest_text(options.file), str(options.file)).to_object()
    name = wanted["metadata"]["name"]
    with target_of(options) as target:
        namespace = wanted["metadata"].setdefault("namespace", options.namespace or target.namespace)
        found = target.kube.get("StreamApp", namespace, name)
        if found is not None:
            # `kubectl apply` leaves what others have set and the file does not name.
            theirs = {field: found["spec"][field] for field in _BY_OTHERS if field in found["spec"]}
            wanted = {**found, "spec": {**theirs, **wanted["spec"]}}
        planned = target.kube.what_if(wanted, found)
    after = read_app(planned)
    if found is None:
        print(f"{namespace}/{name} is new")
        return 0
    try:
        before = read_app(found)
    except ManifestError:
        print(f"{namespace}/{name} cannot be run as it is; this version can")
        return 0
    print("\n".join(lines_of(changes_between(before, after, found["spec"], planned["spec"], Settings()))))
    return 0


def lines_of(changes: Changes) -> Iterator[str]:
    """The answer as text."""
    if not changes.fields:
        yield "nothing changes"
        return
    yield from changes.fields
    yield from changes.stores
    yield ""
    if changes.restarts:
        yield "the driver is started anew: the epoch under way ends first, then there is no output for some 30 seconds"
    else:
        yield "nothing is started anew"
