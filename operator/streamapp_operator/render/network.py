# SPDX-License-Identifier: Apache-2.0
"""The NetworkPolicies of an app. Driver and executors may talk to each other, both to Kafka and DNS, the driver to the
API server, and anyone to the driver's live interface, which asks for a token where it matters."""

from __future__ import annotations

from urllib.parse import urlsplit

from streamapp_operator.manifest.app import App
from streamapp_operator.names import driver_name, executors_name
from streamapp_operator.render.driver import DRIVER
from streamapp_operator.render.executors import EXECUTOR
from streamapp_operator.render.meta import Object, made, selector
from streamapp_operator.render.pods import BLOCK_PORT, LIVE_PORT, RPC_PORT
from streamapp_operator.settings import Settings


def network_policies(app: App, settings: Settings) -> tuple[Object, ...]:
    driver, executors = selector(app.base, DRIVER), selector(app.base, EXECUTOR)
    outside = [_dns(), _anywhere(*sorted({*_kafka_ports(app), *settings.kafka_ports}))]
    return (
        _policy(
            app,
            driver_name(app.base),
            DRIVER,
            ingress=[
                {"from": [_pods(executors)], "ports": _tcp(RPC_PORT, BLOCK_PORT)},
                {"ports": _tcp(LIVE_PORT)},
            ],
            egress=[
                {"to": [_pods(executors)], "ports": _tcp(BLOCK_PORT)},
                *outside,
                _anywhere(*settings.api_server_ports),
            ],
        ),
        _policy(
            app,
            executors_name(app.base),
            EXECUTOR,
            ingress=[{"from": [_pods(driver), _pods(executors)], "ports": _tcp(BLOCK_PORT)}],
            egress=[
                {"to": [_pods(driver)], "ports": _tcp(RPC_PORT, BLOCK_PORT)},
                {"to": [_pods(executors)], "ports": _tcp(BLOCK_PORT)},
                *outside,
            ],
        ),
    )


def _policy(app: App, name: str, component: str, ingress: list[Object], egress: list[Object]) -> Object:
    return made(
        app,
        "networking.k8s.io/v1",
        "NetworkPolicy",
        name,
        component,
        spec={
            "podSelector": {"matchLabels": selector(app.base, component)},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": ingress,
            "egress": egress,
        },
    )


def _pods(wanted: dict[str, str]) -> Object:
    return {"podSelector": {"matchLabels": wanted}}


def _tcp(*ports: int) -> list[Object]:
    return [{"protocol": "TCP", "port": port} for port in ports]


def _anywhere(*ports: int) -> Object:
    """A rule for ports at any address: the addresses of Kafka's brokers are not known."""
    return {"ports": _tcp(*ports)}


def _dns() -> Object:
    return {"ports": [{"protocol": protocol, "port": 53} for protocol in ("UDP", "TCP")]}


def _kafka_ports(app: App) -> set[int]:
    """The ports of Kafka that the manifest names."""
    kafka = app.plan.kafka
    servers = kafka.bootstrap_servers or ""
    ports = {int(server.rsplit(":", 1)[1]) for server in servers.split(",") if ":" in server}
    if kafka.token_endpoint is not None:  # the endpoint of its tokens
        url = urlsplit(kafka.token_endpoint)
        ports.add(url.port or (443 if url.scheme == "https" else 80))
    return ports
