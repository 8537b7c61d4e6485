# SPDX-License-Identifier: Apache-2.0
"""The NetworkPolicies of an app's pods: the peers that may talk to them, and those that they may talk to."""

from __future__ import annotations

from typing import Any

import pytest

from streamapp_operator.manifest.app import App, read_app
from streamapp_operator.render.network import network_policies
from streamapp_operator.render.pods import BLOCK_PORT, LIVE_PORT, RPC_PORT
from streamapp_operator.settings import Settings

ANYONE = "anyone"
BODY: dict[str, Any] = {
    "apiVersion": "streamapp.dev/v1alpha1",
    "kind": "StreamApp",
    "metadata": {"name": "app", "namespace": "shop", "uid": "1"},
    "spec": {
        "kafka": {"bootstrapServers": "one:9092,two:9093"},
        "topology": [
            {"name": "in", "stream": {"topic": "in", "value": "text"}},
            {"name": "out", "to": {"topic": "out", "value": "text"}},
        ],
    },
}


@pytest.fixture
def app() -> App:
    return read_app(BODY)


def allowed(policy: dict[str, Any]) -> set[tuple[str, str, str, int]]:
    """(in or out, with whom, protocol, port) of all that a policy lets through."""
    found = set()
    for way, peers in (("ingress", "from"), ("egress", "to")):
        for rule in policy["spec"][way]:
            with_whom = [
                _one(peer["podSelector"]) if set(peer) == {"podSelector"} else ANYONE for peer in rule.get(peers, ())
            ] or [ANYONE]
            ports = rule.get("ports") or [{"protocol": "any", "port": 0}]
            found |= {(way, peer, port["protocol"], port["port"]) for peer in with_whom for port in ports}
    return found


def _one(selector: dict[str, Any]) -> str:
    """The component, if a peer is the pods of one component of this app."""
    labels = dict(selector["matchLabels"])
    if set(selector) != {"matchLabels"} or labels.pop("app.kubernetes.io/instance", None) != "app":
        return ANYONE
    component = labels.pop("app.kubernetes.io/component", ANYONE)
    return ANYONE if labels else str(component)


def test_only_what_an_app_needs_is_let_through(app: App) -> None:
    driver, executors = network_policies(app, Settings())
    everybody = {("egress", ANYONE, "UDP", 53), *(("egress", ANYONE, "TCP", port) for port in (53, 9092, 9093))}
    assert allowed(driver) == {
        *(("ingress", "executor", "TCP", port) for port in (RPC_PORT, BLOCK_PORT)),
        ("ingress", ANYONE, "TCP", LIVE_PORT),
        ("egress", "executor", "TCP", BLOCK_PORT),
        *(("egress", ANYONE, "TCP", port) for port in (443, 6443)),
        *everybody,
    }
    assert allowed(executors) == {
        *(("ingress", peer, "TCP", BLOCK_PORT) for peer in ("driver", "executor")),
        *(("egress", "driver", "TCP", port) for port in (RPC_PORT, BLOCK_PORT)),
        ("egress", "executor", "TCP", BLOCK_PORT),
        *everybody,
    }
    for policy, component in ((driver, "driver"), (executors, "executor")):
        assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]
        assert policy["spec"]["podSelector"]["matchLabels"] == {
            "app.kubernetes.io/instance": app.base,
            "app.kubernetes.io/component": component,
        }


def test_other_ports_of_api_server_and_brokers_are_let_through(app: App) -> None:
    driver, executors = map(allowed, network_policies(app, Settings(api_server_ports=(16443,), kafka_ports=(30092,))))
    assert to_anyone(driver) == {53, 9092, 9093, 30092, 16443}
    assert to_anyone(executors) == {53, 9092, 9093, 30092}


def to_anyone(found: set[tuple[str, str, str, int]]) -> set[int]:
    """The ports at which the policy lets the pods talk to anyone."""
    return {port for way, peer, _, port in found if (way, peer) == ("egress", ANYONE)}


def test_pods_of_another_app_would_show() -> None:
    labels = {"app.kubernetes.io/component": "executor"}
    rule = {"from": [{"podSelector": {"matchLabels": labels}}], "ports": [{"protocol": "TCP", "port": 1}]}
    assert allowed({"spec": {"ingress": [rule], "egress": []}}) == {("ingress", ANYONE, "TCP", 1)}


def test_a_rule_without_ports_or_peers_would_show() -> None:
    open_to_all: dict[str, Any] = {"spec": {"ingress": [{}], "egress": []}}
    assert allowed(open_to_all) == {("ingress", ANYONE, "any", 0)}
