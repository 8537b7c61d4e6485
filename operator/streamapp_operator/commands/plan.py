# SPDX-License-Identifier: Apache-2.0
"""`streamapp plan`: the effects of applying a manifest to an app, on a cluster or as an older file has it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamapp_operator.commands.target import add_cluster, target_of

if TYPE_CHECKING:
    from streamapp_operator.cluster.kube import Kube
    from streamapp_operator.manifest.app import App
    from streamapp_operator.versions.changes import Changes

_BY_OTHERS = ("replicas", "suspend")
"""Fields that other commands and autoscalers set."""

_ANY_KAFKA = {"bootstrapServers": "localhost:9092"}
"""For manifests that do not say where Kafka is, and an app that is not there."""

HELP = "show the effects of a changed manifest on an app"
DESCRIPTION = """Prints each field that changes with the class of its change (Live, RollExecutors, RestartQuery,
NeedsStateMigration or Forbidden), the consequence for each store, and the pods that restart. With one FILE the command
compares the app on the cluster with FILE; with two, it compares OLD with FILE. A FILE without `kafka`, as on a laptop,
keeps the `kafka` of the app before the change. Nothing is changed. Exit code 1 when the change would be refused."""
EXAMPLE = """  streamapp plan word-count.yaml
  streamapp plan old.yaml new.yaml"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "old", metavar="OLD", type=Path, nargs="?", help="manifest before the change (default: the app on the cluster)"
    )
    parser.add_argument("file", metavar="FILE", type=Path, help="a manifest; - for standard input")
    add_cluster(parser)


def run(options: argparse.Namespace) -> int:
    from streamapp_operator.settings import Settings
    from streamapp_operator.versions.changes import changes_between

    versions = _of_files(options) if options.old is not None else _of_cluster(options)
    changes = None
    if versions.before is None:
        print(f"{versions.after.namespace}/{versions.after.name} {versions.otherwise}")
    else:
        changes = changes_between(versions.before, versions.after, Settings())
        print("\n".join(lines_of(changes)))
    if versions.lacks_kafka:
        example = "e.g. kafka: {bootstrapServers: kafka:9092}"
        print(f"{options.file} has no `kafka`, and a cluster needs one: add {example}")
    return 1 if changes is not None and changes.refused else 0


@dataclass(frozen=True)
class _Versions:
    before: App | None
    """The version that is there; None where it is not known."""
    after: App
    otherwise: str = ""
    """The state of the app in words where there is no `before`."""
    lacks_kafka: bool = False
    """Whether a cluster would not take the file, for want of `kafka`."""


def _of_files(options: argparse.Namespace) -> _Versions:
    from streamapp.local import load_manifest
    from streamapp_operator.manifest.app import read_app

    before, after = (load_manifest(file).to_object() for file in (options.old, options.file))
    # On a laptop the manifest need not say where Kafka is; then the plan shows no change of it.
    kafka = before["spec"].get("kafka") or after["spec"].get("kafka") or _ANY_KAFKA
    for body in (before, after):
        body["spec"].setdefault("kafka", kafka)
    return _Versions(read_app(before), read_app(after))


def _of_cluster(options: argparse.Namespace) -> _Versions:
    from streamapp.errors import ManifestError
    from streamapp.local import read_manifest
    from streamapp_operator.manifest.app import read_app

    wanted = read_manifest(options.file).to_object()
    name = wanted["metadata"]["name"]
    with target_of(options) as target:
        namespace = wanted["metadata"].setdefault("namespace", options.namespace or target.namespace)
        found = target.kube.get("StreamApp", namespace, name)
        lacks_kafka = "kafka" not in wanted["spec"]
        if lacks_kafka:
            wanted["spec"]["kafka"] = found["spec"]["kafka"] if found is not None else _ANY_KAFKA
        if found is not None:
            # `kubectl apply` leaves fields that others have set and the file does not name.
            kept = {field: found["spec"][field] for field in _BY_OTHERS if field in found["spec"]}
            wanted = {**found, "spec": {**kept, **wanted["spec"]}}
        planned = target.kube.what_if(wanted, found)
        after = read_app(_with_code(target.kube, planned))
        before = _with_code(target.kube, found) if found is not None else None
    if before is None:
        return _Versions(None, after, "is new", lacks_kafka)
    try:
        return _Versions(read_app(before), after, "", lacks_kafka)
    except ManifestError:
        return _Versions(None, after, "cannot be run as it is on the cluster; as this file has it, it can", lacks_kafka)


def _with_code(kube: Kube, body: Mapping[str, Any]) -> Mapping[str, Any]:
    """The resource as the operator reads it."""
    from streamapp_operator.manifest.modules import CODE_KIND, named_config_map, with_modules

    name = named_config_map(body)
    return with_modules(body, kube.get(CODE_KIND, body["metadata"]["namespace"], name) if name is not None else None)


def lines_of(changes: Changes) -> Iterator[str]:
    """The answer as text."""
    from streamapp_operator.versions.changes import DRIVER, EXECUTORS
    from streamapp_operator.versions.state_changes import KEPT

    if not changes.fields:
        yield "nothing changes"
        return
    width = max(len(change.kind) for change in changes.fields)
    yield from (f"{change.kind.ljust(width)}  {change.full_words}" for change in changes.fields)
    state = [change for change in changes.state if change.outcome != KEPT]
    if state:
        yield ""
        yield from (change.words for change in state)
    yield ""
    if changes.refused:
        yield f"the change would be refused, and the running version would go on: {changes.refused}"
    elif changes.restarts == DRIVER:
        yield "the driver is started anew: the epoch under way ends first, then there is no output for some 30 seconds"
    elif changes.restarts == EXECUTORS:
        yield "executors are replaced one after the other; the driver runs on"
    else:
        yield "nothing is started anew"
