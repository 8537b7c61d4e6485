# SPDX-License-Identifier: Apache-2.0
"""NetworkPolicies as rules of iptables on our own node, whose network plugin does not apply them.

Only the parts that this project uses are supported: pods chosen by labels, peers by labels within the namespace or in
all, by range of addresses, or anyone; ports by number. Anything else is refused, so that no rule allows less or more
than it says. The rules of https://kubernetes.io/docs/concepts/services-networking/network-policies/ hold: a pod that no
policy chooses is open; one that some choose takes connections that any of them allows; answers to allowed connections
always come through.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from cluster.namespace import Namespace

Manifest = Mapping[str, Any]

CHAIN = "POLICIES"
LOOK_SECONDS = 0.5


@dataclass(frozen=True)
class Pod:
    address: str
    namespace: str
    labels: Mapping[str, str]


@contextmanager
def kept(namespace: Namespace) -> Iterator[None]:
    """Applies the NetworkPolicies of the namespace until the end of the block, soon after any change of them or of
    pods, if the nodes are ours."""
    if (restore := namespace.cluster.restore_iptables) is None:
        yield
        return
    ended, failed = threading.Event(), list[Exception]()

    def follow() -> None:
        last = ""
        while not ended.is_set():
            try:
                if (rules := rules_of(*_there(namespace))) != last:
                    restore(rules)
                    last = rules
            except Exception as error:  # raised where a test waits for it
                failed.append(error)
                return
            ended.wait(LOOK_SECONDS)

    restore(_hooked("-I"))
    thread = threading.Thread(target=follow, name="policies", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        restore(_hooked("-D"))
    if failed:
        raise failed[0]


def rules_of(policies: Sequence[Manifest], pods: Sequence[Pod]) -> str:
    """The rules for iptables-restore: they reject connections from and to a pod that are not allowed."""
    lines = ["-A {chain} -m conntrack --ctstate ESTABLISHED,RELATED -j RETURN"]
    chains: list[str] = []
    for number, pod in enumerate(pods):
        for kind, own, other in (("Egress", "-s", "-d"), ("Ingress", "-d", "-s")):
            chosen = [each for each in policies if kind in each["spec"]["policyTypes"] and _chooses(each, pod)]
            if not chosen:
                continue
            chains.append(chain := f"{CHAIN}-{number}-{kind[0]}")
            lines.append(f"-A {{chain}} {own} {pod.address}/32 -j {chain}")
            for policy in chosen:
                place = policy["metadata"]["namespace"]
                for rule in policy["spec"].get(kind.lower(), ()):
                    lines += [
                        f"-A {chain} {peer} {port} -j RETURN".replace("  ", " ")
                        for peer in _peers(rule.get("to" if kind == "Egress" else "from"), place, pods, other)
                        for port in _ports(rule.get("ports"))
                    ]
            lines.append(f"-A {chain} -j REJECT")
    declared = [f":{chain} - [0:0]" for chain in (CHAIN, *chains)]
    return "\n".join(["*filter", *declared, *(line.format(chain=CHAIN) for line in lines), "COMMIT", ""])


def _chooses(policy: Manifest, pod: Pod) -> bool:
    place: str = policy["metadata"]["namespace"]
    return pod.namespace == place and _fits(policy["spec"]["podSelector"], pod.labels)


def _fits(selector: Manifest, labels: Mapping[str, str]) -> bool:
    _require(selector, {"matchLabels"})
    wanted: dict[str, str] = selector.get("matchLabels", {})
    return wanted.items() <= labels.items()


def _peers(peers: Sequence[Manifest] | None, place: str, pods: Sequence[Pod], option: str) -> list[str]:
    """The conditions of iptables, one for each address that is meant; none if all are."""
    if not peers:
        return [""]
    found: list[str] = []
    for peer in peers:
        _require(peer, {"ipBlock", "podSelector", "namespaceSelector"})
        if "ipBlock" in peer:
            _require(peer["ipBlock"], {"cidr"})
            found.append(f"{option} {peer['ipBlock']['cidr']}")
            continue
        _require(peer.get("namespaceSelector", {}), set())
        everywhere = "namespaceSelector" in peer
        found += [
            f"{option} {pod.address}/32"
            for pod in pods
            if (everywhere or pod.namespace == place) and _fits(peer.get("podSelector", {}), pod.labels)
        ]
    return found


def _ports(ports: Sequence[Manifest] | None) -> list[str]:
    if not ports:
        return [""]
    for port in ports:
        _require(port, {"protocol", "port"})
        assert isinstance(port["port"], int), f"a port by name: {port}"
    return [f"-p {port.get('protocol', 'TCP').lower()} --dport {port['port']}" for port in ports]


def _require(manifest: Manifest, fields: set[str]) -> None:
    assert manifest.keys() <= fields, f"not understood: {manifest}; only {sorted(fields)}"


def _hooked(how: str) -> str:
    """The rules that send traffic from pods, for others or for the node itself, through the chain first, or that stop
    doing so."""
    return f"*filter\n:{CHAIN} - [0:0]\n{how} FORWARD -j {CHAIN}\n{how} INPUT -j {CHAIN}\nCOMMIT\n"


def _there(namespace: Namespace) -> tuple[list[Manifest], list[Pod]]:
    policies = namespace.get("networkpolicies")["items"]
    pods = [
        Pod(item["status"]["podIP"], item["metadata"]["namespace"], item["metadata"].get("labels", {}))
        for item in namespace.get("pods")["items"]
        if item["status"].get("podIP") and item["status"].get("phase") in ("Pending", "Running")
    ]
    return policies, sorted(pods, key=lambda pod: pod.address)
