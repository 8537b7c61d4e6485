# SPDX-License-Identifier: Apache-2.0
"""The CustomResourceDefinition, made from the same model that parses manifests. `make crd` writes it to crds/."""

from __future__ import annotations

from typing import Any

from streamapp.manifest import KIND
from streamapp.schema import json_schema
from streamapp_operator.crd.rules import add_rules
from streamapp_operator.crd.status import status_schema
from streamapp_operator.crd.structural import structural
from streamapp_operator.manifest.change_classes import COMES_OR_GOES, class_of

GROUP, VERSION, PLURAL = "streamapp.dev", "v1alpha1", "streamapps"

_COLUMNS = (
    ("Phase", "string", ".status.phase", "Phase of the app."),
    ("Ready", "string", '.status.conditions[?(@.type=="Ready")].status', "Whether the app runs as its manifest asks."),
    ("Replicas", "integer", ".status.replicas", "Executors that run."),
    ("Desired", "integer", ".status.desiredReplicas", "Executors that are wanted."),
    ("Lag", "integer", ".status.lag.total", "Records not processed yet."),
    ("Restore", "string", ".status.restore.progress", "Progress of the restore of stores."),
    ("Age", "date", ".metadata.creationTimestamp", "Time since the app was made."),
)
_WIDE_COLUMNS = (
    ("Reason", "string", '.status.conditions[?(@.type=="Ready")].reason', "Reason of the condition Ready."),
    ("Error", "string", ".status.lastError.message", "The last error."),
)


def crd() -> dict[str, Any]:
    """The CustomResourceDefinition as plain data."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{PLURAL}.{GROUP}",
            "labels": {"app.kubernetes.io/name": "streamapp-operator", "app.kubernetes.io/part-of": "streamapp"},
        },
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": KIND,
                "listKind": f"{KIND}List",
                "plural": PLURAL,
                "singular": "streamapp",
                "shortNames": ["sapp"],
                "categories": ["streaming"],
            },
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": resource_schema()},
                    "subresources": {
                        "status": {},
                        "scale": {
                            "specReplicasPath": ".spec.replicas",
                            "statusReplicasPath": ".status.replicas",
                            "labelSelectorPath": ".status.selector",
                        },
                    },
                    "additionalPrinterColumns": [
                        *(_column(*column) for column in _COLUMNS),
                        *({**_column(*column), "priority": 1} for column in _WIDE_COLUMNS),
                    ],
                }
            ],
        },
    }


def resource_schema() -> dict[str, Any]:
    """The structural schema of the whole resource, with its rules."""
    model = json_schema()
    schema: dict[str, Any] = {
        "type": "object",
        "description": model["description"],
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string", "description": model["properties"]["apiVersion"]["description"]},
            "kind": {"type": "string", "description": model["properties"]["kind"]["description"]},
            "metadata": {"type": "object"},  # the API server has its own words for it, and takes no others
            "spec": structural(model["properties"]["spec"], model["$defs"]),
            "status": status_schema(),
        },
    }
    for name, field in schema["properties"]["spec"]["properties"].items():
        more = f", and {COMES_OR_GOES[name]} where it comes or goes" if name in COMES_OR_GOES else ""
        field["description"] += f" A change: {class_of(name)}{more}."
    add_rules(schema)
    return schema


def _column(name: str, kind: str, path: str, description: str) -> dict[str, Any]:
    return {"name": name, "type": kind, "jsonPath": path, "description": description}
