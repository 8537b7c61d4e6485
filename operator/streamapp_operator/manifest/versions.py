# SPDX-License-Identifier: Apache-2.0
"""Versions of an app: its manifest without the fields that are taken up live. Those that matter are kept in the cluster
as ControllerRevisions, Kubernetes' own kind for it, with the verdicts on them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from streamapp.manifest import API_VERSION, KIND, Manifest
from streamapp_operator.manifest.change_classes import LIVE, class_of

Spec = Mapping[str, Any]

RUNTIME_IMAGE = "runtimeImage"
"""In the spec of a version whose manifest names no image: the one of the operator's settings that it runs with."""

VERDICT_ANNOTATION = "streamapp.dev/verdict"
"""Annotation on a ControllerRevision: the verdict on the version; without it, the version has not proved itself yet."""
REASON_ANNOTATION = "streamapp.dev/verdict-reason"
ATTEMPT_ANNOTATION = "streamapp.dev/verdict-attempt"
"""The subject of the verdict besides the version: `App.verdict_attempt`."""
NUMBER_ANNOTATION = "streamapp.dev/version-number"
"""A copy of `revision`, which would be lost once somebody has changed it."""
HEALTHY, REJECTED = "Healthy", "Rejected"
CONTINUOUS = "continuous"
"""The value of `run` of an app that runs for ever."""


@dataclass(frozen=True)
class Verdict:
    """The verdict on a version."""

    word: str
    """HEALTHY or REJECTED."""
    reason: str = ""
    attempt: str = ""


@dataclass(frozen=True)
class Version:
    """A version that is kept."""

    name: str
    """The name of its ControllerRevision."""
    number: int
    """The generation of the resource that it came with."""
    spec: Spec
    verdict: Verdict | None = None

    @property
    def is_healthy(self) -> bool:
        """Whether it has proved itself."""
        return self.verdict is not None and self.verdict.word == HEALTHY

    def is_rejected(self, attempt: str) -> bool:
        """Whether it was taken back, and nobody has asked for another attempt since."""
        return self.verdict is not None and self.verdict.word == REJECTED and self.verdict.attempt == attempt


def version_spec(manifest: Manifest, image: str = "") -> dict[str, Any]:
    """The spec without what is taken up live. Defaults are left out: one that is new makes no new version.

    Args:
        manifest: of the app.
        image: that it runs with if the manifest names none; empty: not known. With another one it is another version,
            which proves itself as any other; but what has run to the end of its input does not run again for it.
    """
    spec = manifest.model_dump(by_alias=True, exclude_defaults=True, mode="json")["spec"]
    found = {field: value for field, value in spec.items() if class_of(field) != LIVE}
    if image and manifest.spec.image is None and manifest.spec.run == CONTINUOUS:
        found[RUNTIME_IMAGE] = image
    return found


def without_image(spec: Spec) -> dict[str, Any]:
    """The part of a version that its author has written."""
    return {field: value for field, value in spec.items() if field != RUNTIME_IMAGE}


def live_spec(manifest: Manifest) -> dict[str, Any]:
    """The rest of the spec: the fields that are taken up live."""
    spec = manifest.model_dump(by_alias=True, exclude_defaults=True, mode="json")["spec"]
    return {field: value for field, value in spec.items() if class_of(field) == LIVE}


def version_name(base: str, spec: Spec) -> str:
    """The name of a version; the same version has the same name in every generation.

    >>> version_name("app", {"topology": [], "image": "x"}) == version_name("app", {"image": "x", "topology": []})
    True
    """
    return f"{base}-{hashlib.sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()[:10]}"


def as_resource(body: Mapping[str, Any], spec: Spec, live: Spec) -> dict[str, Any]:
    """The resource as it would be with that version and those live fields."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": body["metadata"],
        "spec": {**without_image(spec), **live},
    }


def read_version(found: Mapping[str, Any]) -> Version | None:
    """The version of a ControllerRevision; None when it holds none."""
    spec = (found.get("data") or {}).get("spec")
    if not isinstance(spec, dict):
        return None
    metadata = found["metadata"]
    noted = metadata.get("annotations", {})
    word = noted.get(VERDICT_ANNOTATION)
    verdict = Verdict(word, noted.get(REASON_ANNOTATION, ""), noted.get(ATTEMPT_ANNOTATION, "")) if word else None
    number = noted.get(NUMBER_ANNOTATION, "")
    return Version(metadata["name"], int(number if number.isdecimal() else found.get("revision", 0)), spec, verdict)
