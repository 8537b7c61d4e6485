# SPDX-License-Identifier: Apache-2.0
"""What whoever installs the operator decides for all apps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Resources = Mapping[str, Mapping[str, Any]]


def _driver_resources() -> Resources:
    return {"requests": {"cpu": "250m", "memory": "1536Mi"}, "limits": {"memory": "1536Mi"}}


def _executor_resources() -> Resources:
    return {"requests": {"cpu": "500m", "memory": "1536Mi"}, "limits": {"memory": "1536Mi"}}


@dataclass(frozen=True)
class Settings:
    """The values of the chart that concern apps."""

    image: str = "streamapp/runtime:dev"
    """Of driver and executors, unless the app names one."""
    image_pull_policy: str = "IfNotPresent"
    image_pull_secrets: tuple[str, ...] = ()
    driver_resources: Resources = field(default_factory=_driver_resources)
    executor_resources: Resources = field(default_factory=_executor_resources)
    driver_pod_template: Mapping[str, Any] = field(default_factory=dict)
    """What pods of drivers have besides ours; a manifest's template goes over it."""
    executor_pod_template: Mapping[str, Any] = field(default_factory=dict)
    """The same of executors."""
    service_account_annotations: Mapping[str, str] = field(default_factory=dict)
    """On the ServiceAccounts of drivers."""
    pod_template_allow: tuple[str, ...] = ()
    """Parts of pod templates that manifests may give besides the harmless ones, see `render.permits.PARTS`."""
    allowed_images: tuple[str, ...] = ()
    """Registries, folders or images that apps may name; none: any."""
    allowed_brokers: tuple[str, ...] = ("*",)
    """Hosts that apps may name as brokers, see `manifest.addresses`."""
    allowed_token_endpoints: tuple[str, ...] = ()
    """Hosts that apps may have tokens asked of."""
    restarts_at_a_time: int = 10
    """Drivers that are started anew at the same time because of what stands here, as for another image."""
    network_policy: bool = True
    """Whether apps get NetworkPolicies."""
    api_server_ports: tuple[int, ...] = (443, 6443)
    """Of the service, and of the API server behind it: some networks judge before the one becomes the other, some
    after."""
    kafka_ports: tuple[int, ...] = ()
    """Of brokers, besides those in `bootstrapServers`: where they are advertised at others."""
