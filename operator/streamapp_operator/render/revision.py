# SPDX-License-Identifier: Apache-2.0
"""A version of an app that is kept, as Kubernetes keeps those of its own controllers: the data never changes."""

from __future__ import annotations

from streamapp_operator.manifest.app import App
from streamapp_operator.manifest.versions import (
    ATTEMPT_ANNOTATION,
    NUMBER_ANNOTATION,
    REASON_ANNOTATION,
    VERDICT_ANNOTATION,
    Version,
)
from streamapp_operator.render.meta import Object, made, sealed


def control_revision(app: App, version: Version) -> Object:
    """
    Args:
        app: whose version it is.
        version: with what has become of it.
    """
    data = {"spec": dict(version.spec)}
    found = made(app, "apps/v1", "ControllerRevision", version.name, data=data, revision=version.number)
    found["metadata"]["annotations"][NUMBER_ANNOTATION] = str(version.number)
    if (verdict := version.verdict) is not None:
        notes = {
            VERDICT_ANNOTATION: verdict.word,
            REASON_ANNOTATION: verdict.reason,
            ATTEMPT_ANNOTATION: verdict.attempt,
        }
        found["metadata"]["annotations"] |= {name: text for name, text in notes.items() if text}
    return sealed(found)
