# SPDX-License-Identifier: Apache-2.0
"""The settings that the person who installs the operator makes for all apps."""

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
    """The image of driver and executors, unless the app names one."""
    image_pull_policy: str = "IfNotPresent"
    image_pull_secrets: tuple[str, ...] = ()
    driver_resources: Resources = field(default_factory=_driver_resources)
    executor_resources: Resources = field(default_factory=_executor_resources)
    driver_pod_template: Mapping[str, Any] = field(default_factory=dict)
    """The template for pods of drivers that goes over ours; a manifest's template goes over it."""
    executor_pod_template: Mapping[str, Any] = field(default_factory=dict)
    """The same for pods of executors."""
    service_account_annotations: Mapping[str, str] = field(default_factory=dict)
    """Annotations on the ServiceAccounts of drivers."""
    pod_template_allow: tuple[str, ...] = ()
    """Parts of pod templates that manifests may give besides the harmless ones, see `render.permits.PARTS`."""
    allowed_images: tuple[str, ...] = ()
    """Registries, folders or images that apps may name; none: any."""
    allowed_brokers: tuple[str, ...] = ("*",)
    """Hosts that apps may name as brokers, see `manifest.addresses`."""
    allowed_token_endpoints: tuple[str, ...] = ()
    """Hosts that apps may request tokens from."""
    restarts_at_a_time: int = 10
    """Drivers that are started anew at the same time because of these settings, as for another image."""
    network_policy: bool = True
    """Whether apps get NetworkPolicies."""
    api_server_ports: tuple[int, ...] = (443, 6443)
    """Ports of the API server's Service, and of the API server behind it: some networks judge before the one becomes
    the other, some after."""
    kafka_ports: tuple[int, ...] = ()
    """Ports of brokers besides those in `bootstrapServers`, where brokers are advertised at others."""
