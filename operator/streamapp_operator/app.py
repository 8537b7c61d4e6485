# SPDX-License-Identifier: Apache-2.0
"""One StreamApp as the operator sees it: the resource, read and compiled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from streamapp.compile import compile_manifest
from streamapp.errors import ManifestError, Problem
from streamapp.manifest import Manifest, parse_object
from streamapp.plan import Plan
from streamapp_operator.names import base_name

_NO_KAFKA = Problem(
    None,
    "kafka",
    None,
    "`kafka` is missing",
    "say where Kafka is, e.g. kafka: {bootstrapServers: kafka:9092}",
)


@dataclass(frozen=True)
class App:
    """What is wanted, in the words of the resource's `generation`."""

    namespace: str
    name: str
    uid: str
    generation: int
    manifest: Manifest
    plan: Plan

    @property
    def base(self) -> str:
        """What the names of the app's objects begin with."""
        return base_name(self.name)

    @property
    def owner(self) -> str:
        """Whom the applicationId belongs to on Kafka: this very resource, not one that takes its name later."""
        return f"{self.namespace}/{self.name}/{self.uid}"


def read_app(body: Mapping[str, Any]) -> App:
    """The app of a resource as the API server gives it.

    Raises:
        ManifestError: with everything that is wrong with it.
    """
    manifest = parse_object({key: value for key, value in body.items() if key != "status"})
    if manifest.spec.kafka is None:
        raise ManifestError([_NO_KAFKA])
    metadata = body["metadata"]
    return App(
        namespace=metadata.get("namespace", "default"),
        name=manifest.name,
        uid=metadata.get("uid", ""),
        generation=metadata.get("generation", 1),
        manifest=manifest,
        plan=compile_manifest(manifest),
    )
